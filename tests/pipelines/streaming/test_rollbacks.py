"""After a rollback nothing that was known is taken for granted, and no request is forgotten."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from histories import block_of, random_events

from pipelines.errors import RunError
from pipelines.streaming import kept
from pipelines.streaming.answer import _AnswerTasksFn
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    DRAIN,
    LABELS,
    Change,
    Marker,
    join,
    pack_marker,
    pack_numbered,
    pack_shard_change,
    pack_skills,
    unpack_marker,
)
from pipelines.streaming.keep_skills import KeepSkills, _KeepSkillsFn
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules, solver_pool
from pipelines.streaming.track import _TrackTasksFn
from pipelines.streaming.tracking import TaskTracker, TrackRules


@dataclass
class State:
    """What a runner keeps for one key: cells and a bag, which can be put back to what they were."""

    values: dict = field(default_factory=dict)

    def __getattr__(self, name):
        return Place(self, name)

    def rolled_back(self):
        return State(dict(self.values))


@dataclass
class Place:
    state: State
    name: str

    def read(self):
        return self.state.values.get(self.name, [] if self.name == "bag" else None)

    def write(self, value):
        self.state.values[self.name] = value

    def add(self, frame):
        self.write([*self.read(), frame])

    def clear(self):
        self.write([])

    def set(self, at):
        """A timer is set; the tests fire it by hand."""


@pytest.fixture(autouse=True)
def _new_process():
    kept._at_hand.clear()


def solved(block, version=1):
    """A model of the labels in a block, from scratch."""
    keeper = SkillKeeper(SkillRules())
    keeper.version = version - 1
    keeper.add(TaskTracker(TrackRules()).take(block).change, 0.0)
    with solver_pool() as pool:
        keeper.begin(1.0, pool.submit, settled=True)
        return pack_skills(keeper.finished(1.0, wait=True).skills)


def test_a_model_of_a_time_that_was_rolled_back_does_not_shut_out_the_next():
    rng = np.random.default_rng(1)
    ours, others = block_of(random_events(rng, 60)), block_of(random_events(rng, 400))
    fn = _AnswerTasksFn(AnswerRules(emit_if=0.0), "job")

    def process(state, envelope):
        return list(fn.process((0, envelope), cell=state.cell, bag=state.bag, skills=state.skills))

    state = State()
    process(state, pack_numbered(LABELS, 1, ours.to_bytes()))
    checkpoint = state.rolled_back()
    assert process(state, solved(ours))
    assert process(checkpoint, solved(others)), "the other model of this version is new to the state rolled back to"


@pytest.mark.parametrize("same_process", [True, False])
def test_shards_remember_who_asked_for_the_end(same_process):
    fn = _TrackTasksFn(TrackRules(n_readers=2), Control("none"), "job")
    state, found = State(), []
    for reader in range(2):
        envelope = pack_marker(Marker(DRAIN, "drain-1", sender=reader))
        found.append(list(fn.process((5, envelope), cell=state.cell, bag=state.bag)))
        if not same_process:
            kept._at_hand.clear()
    assert not found[0]
    assert unpack_marker(found[1][0].value) == Marker(DRAIN, "drain-1", sender=5)


@pytest.mark.parametrize("same_process", [True, False])
def test_the_keeper_of_the_skills_remembers_who_asked_for_the_end(same_process, tmp_path):
    fn = _KeepSkillsFn(KeepSkills(SkillRules(), 3, Control(str(tmp_path)), "job"))
    fn.setup()
    state = State()
    block = block_of(random_events(np.random.default_rng(2), 60))
    change = pack_shard_change(Change(0, len(block), 0, TaskTracker(TrackRules()).take(block).change))
    markers = [pack_marker(Marker(DRAIN, "drain-1", sender=shard)) for shard in range(3)]
    for parts in ([change, markers[0]], [markers[1]], [markers[2]]):
        fn.process(("model", join(parts)), cell=state.cell, bag=state.bag, timer=state.timer)
        if not same_process:
            kept._at_hand.clear()
    sent = []
    for _ in range(200):
        sent += [one.value for one in fn.tick(cell=state.cell, bag=state.bag, timer=state.timer)]
        if any(value[1][:1] == b"K" for value in sent):
            break
        fn._pool.submit(int).result()  # until the thread has solved
    assert [unpack_marker(value[1]).id for value in sent if value[1][:1] == b"K"] == ["drain-1"] * (3 + 1)
    fn.teardown()


def test_a_state_of_a_later_layout_is_refused():
    state = State()
    kept.Kept(("job",), state.cell, state.bag, lambda frames, note: note).keep(None, bytes)
    nonce, note = state.cell.read()[:8], state.cell.read()[8:]
    state.cell.write(nonce + note.replace(b'"layout": %d' % kept.LAYOUT, b'"layout": 99'))
    with pytest.raises(RunError, match="layout 99"):
        kept.Kept(("job",), state.cell, state.bag, lambda frames, note: note)
