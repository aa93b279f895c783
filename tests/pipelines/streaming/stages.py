"""The stateful steps, called as Beam calls them, element by element."""

import copy
import itertools
import time

from beam_state import KeyedState
from histories import Event, block_of

from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.streaming.answer import _AnswerTasksFn
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    LABELS,
    MARKER,
    Change,
    join,
    pack_events,
    pack_shard_change,
    unpack_marker,
)
from pipelines.streaming.inbox import seal
from pipelines.streaming.keep_skills import KeepSkills, _KeepSkillsFn
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import pack_change
from pipelines.streaming.skill_keeping import SkillRules
from pipelines.streaming.track import _TrackTasksFn
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

    def instance(self):
        """One more instance of the step in this process, as Beam makes them; `fn` is that which has its turn."""
        other = copy.copy(self.fn)
        other.setup()
        return other

    def __call__(self, *envelopes):
        self.fn.process(("model", join(envelopes)), self.state.cell, self.state.bag, self.timer)

    def tick(self):
        return [(out.tag, out.value) for out in self.fn.tick("model", self.state.cell, self.state.bag, self.timer)]

    def state_of(self):
        """The step's desk, as it is at hand in this process."""
        kept = self.fn._open(self.state.cell, self.state.bag)
        kept.put_back()
        return kept.value

    def ticks_until_drained(self):
        return [shard for shard, _ in self.markers_of_the_end()]

    def markers_of_the_end(self):
        """Ticks until the request to end comes out: pairs of a shard and what it is told."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            out = [pair for tag, pair in self.tick() if tag == "models"]
            if found := [(shard, unpack_marker(data)) for shard, data in out if data[:1] == MARKER]:
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


TRIANGLE = [(f"t{n}", worker, "yes", 1) for n in range(9) for worker in ("ann", "bob", "cem")]
