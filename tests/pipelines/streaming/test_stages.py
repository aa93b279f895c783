"""The stateful steps, element by element: what they send on, and what a rollback leaves of them."""

import itertools
import json
import time
from dataclasses import replace

from beam_state import KeyedState
from histories import Event, block_of
from test_answering import skills

from pipelines.blocks import LabelBlock
from pipelines.sinks import DRAINED
from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.streaming.answer import _AnswerTasksFn
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    CLOCK,
    CLOSING,
    DRAIN,
    LABELS,
    MARKER,
    REPORT,
    SNAPSHOT,
    Change,
    Marker,
    join,
    pack_clock,
    pack_events,
    pack_marker,
    pack_shard_change,
    pack_skills,
    unpack_marker,
    unpack_shard_change,
)
from pipelines.streaming.inbox import seal, unseal
from pipelines.streaming.keep_skills import LEDGER, KeepSkills, _KeepSkillsFn
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger, pack_change
from pipelines.streaming.skill_keeping import SkillRules
from pipelines.streaming.track import _TrackTasksFn, read_frame, state_path
from pipelines.streaming.tracking import TrackRules
from pipelines.tables import from_bytes

jobs = map(str, itertools.count())
TTL = 160


class Answering:
    """The step that answers, for one shard."""

    def __init__(self):
        self.fn, self.state = _AnswerTasksFn(AnswerRules(), f"answering-{next(jobs)}"), KeyedState(skills=True)

    def __call__(self, envelope):
        state = self.state
        return list(self.fn.process((0, envelope), state.cell, state.bag, state.skills, state.held))

    def tasks(self, envelope):
        return sorted(row["task"] for _, data in self(envelope) for row in from_bytes(data).to_pylist())


class Tracking:
    """The step that tracks, for one shard."""

    def __init__(self, n_readers=2, ttl=TTL, sent=None):
        self.fn = _TrackTasksFn(TrackRules(n_readers, ttl), f"tracking-{next(jobs)}")
        self.state, self.sent = KeyedState(), {} if sent is None else sent

    def __call__(self, envelope, reader=0):
        self.sent[reader] = self.sent.get(reader, 0) + 1
        return self.take(seal(reader, self.sent[reader], envelope))

    def take(self, sealed):
        state = self.state
        return [(out.tag, out.value) for out in self.fn.process((3, sealed), state.cell, state.bag, state.held)]


class Timer:
    """Beam's, of which one only sees that it was set."""

    _input_timestamp = None

    def set(self, at):
        self.at = at


class Keeping:
    """The step that keeps the skills, of two shards."""

    def __init__(self, tmp_path):
        self.control = Control(str(tmp_path))
        self.fn = _KeepSkillsFn(KeepSkills(SkillRules(), 2, self.control, f"keeping-{next(jobs)}"))
        self.fn.setup()
        self.state, self.timer = KeyedState(), Timer()

    def __call__(self, *envelopes):
        self.fn.process(("model", join(envelopes)), self.state.cell, self.state.bag, self.timer)

    def tick(self):
        return [(out.tag, out.value) for out in self.fn.tick("model", self.state.cell, self.state.bag, self.timer)]

    def ticks_until_drained(self):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = [shard for tag, (shard, data) in self.tick() if tag == "models" and data[:1] == MARKER]
            if found:
                return found
        raise AssertionError("the request to end did not come out")


def change(shard, *events, total=0):
    table = LabelTable()
    applied = table.apply(block_of([Event(*event) for event in events]))
    packed = pack_change(table.change(applied), table.workers, table.classes, len(events))
    return pack_shard_change(Change(shard, total or len(events), 0, packed))


def labels(*events, watermark_us=CAUGHT_UP, reader=0):
    return pack_events(block_of([Event(*event) for event in events]).to_bytes(), reader, watermark_us)


def for_answers(*events, number=1):
    return seal(0, number, LABELS + block_of([Event(*event) for event in events]).to_bytes())


def test_answers_to_a_model_that_was_rolled_back_are_given_again():
    """The rows may never have reached the sink; and a new solution may have the lost one's version."""
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    checkpoint = answering.state.checkpoint()
    assert answering.tasks(pack_skills(skills(1, ann=1.0))) == ["t"]
    answering.state.roll_back(checkpoint)
    assert answering.tasks(pack_skills(skills(1, ann=1.0))) == ["t"]


def test_a_model_that_was_rolled_back_is_not_used_for_later_labels():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    answering(pack_skills(skills(1, ann=1.0)))
    checkpoint = answering.state.checkpoint()
    answering(pack_skills(skills(2, ann=-1.0)))
    answering.state.roll_back(checkpoint)
    answering(for_answers(("u", "ann", "yes", 1), number=2))
    ((_, data),) = answering(pack_skills(skills(2, ann=1.0)))
    assert {row["task"]: row["label"] for row in from_bytes(data).to_pylist()} == {"t": "yes", "u": "yes"}


def test_a_board_that_is_made_anew_knows_the_model():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    answering(pack_skills(skills(7, ann=1.0)))
    again = Answering()
    again.state = answering.state
    assert again(pack_skills(skills(7, ann=5.0))) == [], "it is no newer than the one it knows"
    assert again.tasks(pack_skills(skills(8, ann=1.0))) == ["t"]


def test_revisions_grow_over_rollbacks_even_when_the_clock_goes_back(monkeypatch):
    clock = [2000.0]
    monkeypatch.setattr("pipelines.streaming.answer.time.time", lambda: clock[0])
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    ((_, first),) = answering(pack_skills(skills(1, ann=1.0)))
    again = Answering()
    again.state, clock[0] = answering.state, 1000.0
    ((_, second),) = again(pack_skills(skills(2, ann=2.0)))
    revisions = [from_bytes(data)["revision"][0].as_py() for data in (first, second)]
    assert revisions == sorted(set(revisions))


def test_a_request_to_end_is_told_by_every_shard():
    (drained,) = Answering()(pack_marker(Marker(DRAIN, "d", sender=5)))
    assert (drained[0], unpack_marker(drained[1])) == (DRAINED, Marker(DRAIN, "d", sender=0))


def test_a_request_to_end_waits_for_labels_and_models_that_are_still_on_their_way():
    answering = Answering()
    marker = pack_marker(Marker(DRAIN, "d", sent=2, version=1))
    answering(for_answers(("t", "ann", "yes", 1)))
    assert answering(marker) == []
    assert [name for name, _ in answering(pack_skills(skills(1, ann=1.0)))] == ["scores"]
    late = answering(for_answers(("u", "ann", "yes", 1), number=2))
    assert late[-1][0] == DRAINED
    assert unpack_marker(late[-1][1]).sent == len(late), "one table with the model, and those with the late labels"


def test_labels_that_the_model_knows_already_are_answered_at_once():
    """They arrive late on their way, and no other model need follow."""
    answering = Answering()
    model = replace(skills(1, ann=1.0), settled=True, sent=2)
    answering(pack_skills(model))
    assert answering.tasks(for_answers(("t", "ann", "yes", 1))) == ["t"]
    assert answering.tasks(for_answers(("u", "ann", "yes", 1), number=2)) == ["u"]
    assert answering.tasks(for_answers(("v", "ann", "yes", 1), number=3)) == [], "a backlog waits for its model"


def test_a_closing_that_overtakes_labels_waits_for_them():
    answering = Answering()
    answering(pack_skills(replace(skills(1, ann=1.0, bob=1.0), sent=9)))
    answering(for_answers(("t", "ann", "yes", 1)))
    assert answering(seal(0, 3, CLOSING + json.dumps(["t"]).encode())) == []
    rows = [
        row
        for _, data in answering(for_answers(("t", "bob", "yes", 1), number=2))
        for row in from_bytes(data).to_pylist()
    ]
    assert [(row["n_workers"], row["closed"]) for row in rows][-1] == (2, True)
    again = Answering()
    again.state = answering.state
    assert again(pack_skills(skills(2, ann=2.0, bob=2.0))) == [], "the task is gone"


def test_a_model_of_layout_1_is_forgotten_for_good():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    data = answering.state.cell.read()
    answering.state.cell.write(data.replace(b'"layout": 2', b'"layout": 1'))
    answering.state.skills.write(b"M" + bytes(17) + b"a model of another form")
    for number in (2, 3):
        again = Answering()
        again.state = answering.state
        again(for_answers((f"u{number}", "ann", "yes", 1), number=number))
    assert again.tasks(pack_skills(skills(1, ann=1.0))) == ["t", "u2", "u3"]


def test_a_task_that_closes_leaves_the_state():
    answering = Answering()
    answering(pack_skills(skills(1, ann=1.0)))
    answering(for_answers(("t", "ann", "yes", 1), ("u", "ann", "yes", 1)))
    assert answering.tasks(seal(0, 2, CLOSING + json.dumps(["t"]).encode())) == ["t"]
    again = Answering()
    again.state = answering.state
    assert again.tasks(pack_skills(skills(2, ann=1.0))) == ["u"]


def test_events_that_change_a_label_go_on_to_be_answered_and_others_do_not():
    tracking = Tracking(n_readers=1)
    assert [tag for tag, _ in tracking(labels(("t", "ann", "yes", 2)))] == ["labels", "changes"]
    assert [tag for tag, _ in tracking(labels(("t", "ann", "yes", 2)))] == ["changes"], "again, it is counted only"


def test_what_every_reader_has_read_may_close_tasks_without_an_event():
    tracking = Tracking()
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 10 * TTL)))
    ((_, (_, nothing)),) = tracking(pack_clock(1, 0), reader=1)
    assert unseal(nothing) == (3, 3, CLOCK)
    (tag, (shard, sealed)), _ = tracking(pack_clock(1, CAUGHT_UP), reader=1)
    assert (tag, shard, unseal(sealed)) == ("labels", 3, (3, 4, CLOSING + b'["t"]'))


def test_a_tracker_that_is_made_anew_still_knows_its_clock_and_what_is_closed():
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 2 * TTL)))
    again = Tracking(n_readers=1, sent=tracking.sent)
    again.state = tracking.state
    assert "rejects" in [tag for tag, _ in again(labels(("t", "bob", "yes", 2 * TTL)))]
    assert "rejects" in [tag for tag, _ in again(labels(("v", "bob", "yes", 2 * TTL - TTL - 1)))]


def test_a_request_goes_on_when_every_reader_has_passed_it_on():
    tracking = Tracking()
    assert tracking(pack_marker(Marker(DRAIN, "d", sender=0))) == []
    assert tracking(pack_marker(Marker(DRAIN, "d", sender=0))) == [], "the same reader again"
    ((tag, envelope),) = tracking(pack_marker(Marker(DRAIN, "d", sender=1)), reader=1)
    assert (tag, unpack_marker(envelope)) == ("changes", Marker(DRAIN, "d", sender=3))


def test_a_request_that_half_of_the_readers_have_passed_on_survives_a_crash():
    tracking = Tracking()
    tracking(pack_marker(Marker(DRAIN, "d", sender=0)))
    again = Tracking(sent=tracking.sent)
    again.state = tracking.state
    assert [tag for tag, _ in again(pack_marker(Marker(DRAIN, "d", sender=1)), reader=1)] == ["changes"]


def test_a_request_that_overtakes_events_waits_for_them():
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 2)))
    assert tracking.take(seal(0, 3, pack_marker(Marker(DRAIN, "d")))) == []
    *_, (tag, envelope) = tracking.take(seal(0, 2, labels(("u", "bob", "yes", 2))))
    assert (tag, unpack_marker(envelope).events) == ("changes", 2)


def test_a_snapshot_holds_the_labels_that_were_read_before_it(tmp_path):
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 2)))
    tracking(pack_marker(Marker(SNAPSHOT, "s", str(tmp_path / "state"))))
    tracking(labels(("t", "bob", "yes", 2)))
    block = LabelBlock.from_bytes(read_frame(state_path(str(tmp_path / "state"), 3)))
    assert (block.task.to_pylist(), block.workers.to_pylist()) == (["t"], ["ann"])


TRIANGLE = [(f"t{n}", worker, "yes", 1) for n in range(9) for worker in ("ann", "bob", "cem")]


def test_a_stream_that_is_asked_to_end_settles_first_and_then_tells_every_shard(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(pack_marker(Marker(DRAIN, "d", sender=0)))
    keeping(pack_marker(Marker(DRAIN, "d", sender=1)))
    assert keeping.ticks_until_drained() == [0, 1]
    status = keeping.control.status()
    assert (status["settled"], status["events"], status["model_events"]) == (True, 27, 27)


def test_a_request_to_end_waits_for_changes_that_are_still_on_their_way(tmp_path):
    keeping = Keeping(tmp_path)
    half = len(TRIANGLE) // 2
    keeping(change(0, *TRIANGLE[:half]))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard, events=n)) for shard, n in ((0, len(TRIANGLE)), (1, 0))))
    assert not any(data[:1] == MARKER for _ in range(5) for tag, (_, data) in keeping.tick() if tag == "models")
    keeping(change(0, *TRIANGLE[half:], total=len(TRIANGLE)))
    assert keeping.ticks_until_drained() == [0, 1]
    assert keeping.control.status()["model_events"] == len(TRIANGLE)


def test_a_request_to_end_survives_a_crash_wherever_it_is(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(pack_marker(Marker(DRAIN, "d", sender=0)))
    for marker in (Marker(DRAIN, "d", sender=1), None):
        again = Keeping(tmp_path)
        again.state = keeping.state
        if marker is not None:
            again(pack_marker(marker))
        keeping = again
    assert keeping.ticks_until_drained() == [0, 1]


def test_a_ledger_that_is_made_anew_goes_on_with_the_next_version(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard)) for shard in (0, 1)))
    keeping.ticks_until_drained()
    version = keeping.control.status()["model_version"]
    again = Keeping(tmp_path)
    again.state = keeping.state
    again(change(1, ("u", "ann", "yes", 1)))
    again(*(pack_marker(Marker(DRAIN, "e", sender=shard)) for shard in (0, 1)))
    again.ticks_until_drained()
    status = again.control.status()
    assert status["model_version"] > version
    assert status["events"] == 28


def test_the_ledger_of_a_snapshot_leaves_out_what_came_behind_a_shards_labels(tmp_path):
    keeping = Keeping(tmp_path)
    n = len(TRIANGLE)
    before, behind = change(0, *TRIANGLE), change(0, ("u", "ann", "yes", 1), total=n + 1)
    beside = change(1, ("v", "bob", "no", 1))
    folder = str(tmp_path / "state")
    keeping(before)
    keeping(pack_marker(Marker(SNAPSHOT, "s", folder, sender=0, events=n)))
    keeping(behind, beside)
    keeping(pack_marker(Marker(SNAPSHOT, "s", folder, sender=1, events=1)))
    found, wanted = Ledger(), Ledger()
    found.add(read_frame(f"{folder}/{LEDGER}"))
    for one in (before, beside):
        wanted.add(unpack_shard_change(one).frame)
    assert found.edges() == wanted.edges()
    assert found.n_events == wanted.n_events


def test_reports_of_readers_are_in_the_status(tmp_path):
    keeping = Keeping(tmp_path)
    report = {"read_at_s": 5.0, "lag": {"labels-0": 5}, "counts": {"events_read": 7, "events_rejected": 1}}
    keeping(REPORT + json.dumps(report).encode(), REPORT + json.dumps({**report, "lag": {"labels-0": 2}}).encode())
    keeping.tick()
    status = keeping.control.status()
    assert (status["lag"], status["counts"]["events_rejected"]) == ({"labels-0": 2}, 2)
