"""The step that polls, called as Beam calls it, with a source that does what it is told."""

from types import SimpleNamespace

from beam_state import Cell
from histories import Event, block_of
from stages import Timer

from pipelines.blocks import LabelBlock
from pipelines.errors import RunError
from pipelines.sources.unbounded import CAUGHT_UP, Polled
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import EVENTS, unpack_clock
from pipelines.streaming.inbox import unseal
from pipelines.streaming.poll import PollSource, _PollFn


class Reader:
    """Gives what it was told to, and notes from where it was asked to go on."""

    def __init__(self, *polls):
        self.polls, self.asked, self.waits, self.confirmed = list(polls), [], [], []
        self.closed = self.fails = False

    def poll(self, position, max_events, timeout_s):
        self.asked.append((position, max_events))
        self.waits.append(timeout_s)
        if self.fails:
            raise RunError("gone")
        return self.polls.pop(0) if self.polls else Polled((), position, watermark_us=CAUGHT_UP)

    def confirm(self, position):
        self.confirmed.append(position)

    def close(self):
        self.closed = True


class Polling:
    """The step that polls, for reader 1 of two, with a clock of its own."""

    def __init__(self, tmp_path, monkeypatch, *polls, shards=2, readers=2, bootstrap="", now=1000.0, ttl_s=0):
        self.reader, self.now, self.n_opened = Reader(*polls), now, 0
        source = SimpleNamespace(n_readers=readers, reader=self.opened)
        self.control = Control(str(tmp_path))
        self.how = PollSource(source, shards, self.control, 77, bootstrap=bootstrap, task_ttl_us=ttl_s * 1_000_000)
        self.fn = self.instance()
        self.cells = {name: Cell() for name in ("position", "handled", "shape", "sent", "told", "ending")}
        self.timer = Timer()
        monkeypatch.setattr("pipelines.streaming.poll.time.time", lambda: self.now)

    def opened(self, number):
        self.n_opened += 1
        return self.reader

    def instance(self):
        """The step, once more in the same process."""
        fn = _PollFn(self.how)
        fn.setup()
        return fn

    def __call__(self):
        return [(out.tag, out.value) for out in self.fn.poll(1, *self.cells.values(), self.timer)]

    def events(self):
        """{shard: [(number, envelope)]} of one poll."""
        found = {}
        for tag, value in self():
            if tag == "events":
                reader, number, envelope = unseal(value[1])
                assert reader == 1
                found.setdefault(value[0], []).append((number, envelope))
        return found

    def in_turn(self, *instances):
        """What each of these instances of the step sends, polled one after the other."""
        for self.fn in instances:
            yield self()


def polled(*tasks, position=b"p", **more):
    events = [Event(task, "ann", "yes", 5) for task in tasks]
    return Polled((block_of(events),), position, **{"watermark_us": 9, **more})


def tasks_in(envelopes):
    frames = [unpack_clock(envelope)[2] for _, envelope in envelopes if envelope[:1] == EVENTS]
    return [task for frame in frames for task in LabelBlock.from_bytes(frame).task.to_pylist()]
