"""Polling: a source that never ends in; events by shard, rejects and reports out.

Each reader is a key whose timer polls the source, again and again. Where it stands is keyed state, so that a checkpoint
holds the offsets with everything they led to. A splittable DoFn would do the same, but on Flink each of its
interruptions leaves some kilobytes in every later checkpoint; this leaves nothing.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.io.iobase import RestrictionProgress
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Duration, Timestamp

from pipelines.blocks import LabelBlock, joined, split_block
from pipelines.errors import RunError
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN, Polled, Source
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import BOOTSTRAP, DRAIN, REPORT, Marker, pack_clock, pack_events, pack_marker
from pipelines.streaming.inbox import seal
from pipelines.streaming.poll_desk import DESKS
from pipelines.streaming.rhythm import SWEEPS
from pipelines.streaming.timers import FAR_S, set_timer

_HOUR_S = 3600
_CLOCK_LEAST_S, _CLOCK_MOST_S = 1.0, 60.0
_HANDLED = 50
_FEW = 10_000


@dataclass
class PollSource(beam.PTransform):
    """Reads a source for ever.

    Input: the pipeline's beginning. Output: "events", pairs of a shard and an envelope; "rejects", pairs of a table's
    name and a table; "reports", envelopes for the keeper of the skills.

    Attributes:
        source: where the events come from.
        shards: how many shards there are.
        control: the folder that requests come in by.
        max_events: how many events make a block.
        wait_s: how long polls wait for events, all readers together: one process may poll them one after the other.
        bootstrap: a folder with an earlier state, to begin with; empty: none.
        task_ttl_us: how long after its last label a task closes; 0: never. If it does, later steps must know where each
            event stood, to reject it, and how far each reader is, also one that gets nothing.
        kinds: of the source and of the sinks, which cannot change either.
        job: sets this submission apart from others in one worker process.
    """

    source: Source
    shards: int
    control: Control
    max_events: int = 50_000
    wait_s: float = 0.6
    bootstrap: str = ""
    task_ttl_us: int = 0
    kinds: Mapping[str, Any] = field(default_factory=dict)
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def expand(self, begin: beam.pvalue.PBegin) -> Any:
        """Wires the steps."""
        readers = begin | "Impulse" >> beam.Impulse() | "Begin" >> beam.ParDo(_BeginFn(self.source.n_readers))
        keyed = readers | "KeyReaders" >> beam.Map(_keyed).with_output_types(tuple[int, bytes])
        return keyed | "Poll" >> beam.ParDo(_PollFn(self)).with_outputs("events", "rejects", "reports")


def _keyed(reader: int) -> tuple[int, bytes]:
    return reader, b""


class _EndlessTracker(OffsetRestrictionTracker):
    def is_bounded(self) -> bool:
        return False

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(completed=1.0, remaining=1.0)

    def try_split(self, fraction_of_remainder: float) -> Any:
        return super().try_split(fraction_of_remainder) if fraction_of_remainder == 0 else None


class _Endless(RestrictionProvider):
    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1 << 40)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return _EndlessTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1

    def truncate(self, element: Any, restriction: OffsetRange) -> None:
        return None


_ENDLESS, _WATERMARK = _Endless(), ManualWatermarkEstimator.default_provider()


class _BeginFn(beam.DoFn):
    """Names the readers, then stays for ever: when a step's input has ended, Flink fires no more timers in it."""

    def __init__(self, n_readers: int) -> None:
        self._n_readers = n_readers

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: bytes,
        tracker: Any = beam.DoFn.RestrictionParam(_ENDLESS),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(_WATERMARK),
    ) -> Iterator[Any]:
        at = tracker.current_restriction().start
        if not tracker.try_claim(at):
            return
        if at == 0:
            for reader in range(self._n_readers):
                yield beam.window.TimestampedValue(reader, Timestamp.of(time.time()))
        watermark.set_watermark(Timestamp.of(FAR_S))
        tracker.defer_remainder(Duration(_HOUR_S))


class _PollFn(beam.DoFn):
    POSITION = ReadModifyWriteStateSpec("position", coders.BytesCoder())
    HANDLED = ReadModifyWriteStateSpec("handled", coders.BytesCoder())
    SHAPE = ReadModifyWriteStateSpec("shape", coders.BytesCoder())
    SENT = ReadModifyWriteStateSpec("sent", coders.BytesCoder())
    TOLD = ReadModifyWriteStateSpec("told", coders.BytesCoder())  # missing in states of earlier versions
    ENDING = ReadModifyWriteStateSpec("ending", coders.BytesCoder())  # the same; the job that was asked to end
    TIMER = TimerSpec("poll", TimeDomain.REAL_TIME)

    def __init__(self, how: PollSource) -> None:
        self._source, self._shards, self._control, self._job = how.source, how.shards, how.control, how.job
        self._max_events, self._bootstrap = how.max_events, how.bootstrap
        self._wait_s = how.wait_s / how.source.n_readers
        self._shape = {"readers": how.source.n_readers, "shards": how.shards, **how.kinds}
        self._closing = how.task_ttl_us > 0
        self._clock_every_s = min(max(how.task_ttl_us / 1e6 / SWEEPS, _CLOCK_LEAST_S), _CLOCK_MOST_S)
        self._events = Metrics.counter("crowdbeam", "events")

    def setup(self) -> None:
        self._desk = DESKS.open(self._job, self._source, self._control)
        self._checked: set[int] = set()

    def teardown(self) -> None:
        DESKS.leave(self._job)

    def process(self, element: tuple[int, bytes], timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        set_timer(timer, time.time(), time.time())

    @on_timer(TIMER)
    def poll(
        self,
        number: int = beam.DoFn.KeyParam,
        position: Any = beam.DoFn.StateParam(POSITION),
        handled: Any = beam.DoFn.StateParam(HANDLED),
        shape: Any = beam.DoFn.StateParam(SHAPE),
        sent: Any = beam.DoFn.StateParam(SENT),
        told: Any = beam.DoFn.StateParam(TOLD),
        ending: Any = beam.DoFn.StateParam(ENDING),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[Any]:
        now = time.time()
        if number not in self._checked:
            self._check(shape)
            self._checked.add(number)
        known = json.loads(handled.read() or b"[]")
        post = _Post(number, json.loads(sent.read() or b"[]") or [0] * self._shards)
        if not known and self._bootstrap:
            known = [BOOTSTRAP]
            handled.write(json.dumps(known).encode())
            yield from post.to_all(pack_marker(Marker(BOOTSTRAP, BOOTSTRAP, self._bootstrap, number)))
        requests = self._desk.requests(now)
        fresh = [marker for marker in requests if marker.id not in known]
        if self._is_ending(requests, ending):
            set_timer(timer, now + self._wait_s, now)
        else:
            at = position.read() or b""
            polled = self._desk.poll(number, at, self._max_events, self._wait_s, now)
            if polled.position != at:
                position.write(polled.position)
            yield from self._out(post, polled, told, now)
            set_timer(timer, time.time() + (0.0 if polled.more or polled.blocks else 0.05), time.time())
        if fresh:
            handled.write(json.dumps([*known, *(marker.id for marker in fresh)][-_HANDLED:]).encode())
            for marker in fresh:
                yield from post.to_all(pack_marker(replace(marker, sender=number)))
        if post.is_used:
            sent.write(json.dumps(post.sent).encode())

    def _is_ending(self, requests: Sequence[Marker], ending: Any) -> bool:
        """Whether this job was asked to end, ever: the next stream takes the request away, and this one reads no more.

        A job that goes on from its savepoint is another one.
        """
        ours = self._job.encode()
        if any(marker.kind == DRAIN for marker in requests) and ending.read() != ours:
            ending.write(ours)
        return bool(ending.read() == ours)

    def _check(self, shape: Any) -> None:
        """Refuses to go on from a state of another shape: it would be read wrong, or the end would wait in vain.

        States of earlier versions do not tell the kinds of source and sinks.
        """
        before = json.loads(shape.read() or b"{}")
        ours = {name: value for name, value in self._shape.items() if name in before}
        if ours != before:
            raise RunError(
                f"The stream was begun with {_told(before)}, and goes on with {_told(ours)}; "
                "they cannot change in its life."
            )
        if before != self._shape:
            shape.write(json.dumps(self._shape).encode())

    def _out(self, post: "_Post", polled: Polled, told: Any, now: float) -> Iterator[Any]:
        tag, number = beam.pvalue.TaggedOutput, post.reader
        watermark_us = min(polled.watermark_us, int(now * 1e6))  # what is not there yet comes after now
        yield from self._events_of(post, polled, watermark_us)
        before = json.loads(told.read() or b"{}")
        ours = {"caught_up": polled.watermark_us == CAUGHT_UP, "lag": dict(polled.lag)}
        clock_at = before.get("clock_at", 0.0)
        if before.get("caught_up") != ours["caught_up"] or (self._closing and now - clock_at >= self._clock_every_s):
            clock_at = now
            yield from post.to_all(pack_clock(number, watermark_us))
        ours["clock_at"] = clock_at
        for rejects in polled.rejects:
            yield tag("rejects", ("rejects", rejects))
        if polled.counts or before.get("lag") != ours["lag"]:
            self._count(polled)
            arrived_s = min((block.arrived_us / 1e6 for block in polled.blocks), default=now)
            report = {"lag": dict(polled.lag), "counts": dict(polled.counts), "read_at_s": now, "arrived_s": arrived_s}
            yield tag("reports", REPORT + json.dumps(report).encode())
        if ours != before:
            told.write(json.dumps(ours).encode())

    def _events_of(self, post: "_Post", polled: Polled, watermark_us: int) -> Iterator[Any]:
        """The events, by shard; only the last ones of a poll tell the shard how far all of it goes."""
        blocks = polled.blocks if self._closing else _together(polled.blocks)
        parts = [pair for block in blocks for pair in split_block(block, self._shards)]
        last = {shard: place for place, (shard, _) in enumerate(parts)}
        for place, (shard, part) in enumerate(parts):
            mark = watermark_us if last[shard] == place else NOT_KNOWN
            yield post.to(shard, pack_events(part.to_bytes(), post.reader, mark))

    def _count(self, polled: Polled) -> None:
        self._events.inc(polled.counts.get("events_read", 0))
        for name, n in polled.counts.items():
            if name.startswith("events_rejected."):
                Metrics.counter("crowdbeam", name.replace("events_rejected.", "rejects.")).inc(n)
        for partition, lag in polled.lag.items():
            Metrics.gauge("crowdbeam", f"lag.{partition}").set(lag)


def _told(shape: Mapping[str, Any]) -> str:
    """The shape of a state, in words."""
    kinds = f", a source of {shape['source']} and sinks of {', '.join(shape['sinks'])}" if "source" in shape else ""
    return f"--readers {shape['readers']} and --shards {shape['shards']}{kinds}"


def _together(blocks: Sequence[LabelBlock]) -> Sequence[LabelBlock]:
    """Few events as one block: every block costs the same in each step and shard, however small it is."""
    if len(blocks) < 2 or sum(map(len, blocks)) > _FEW:
        return blocks
    return [replace(joined(blocks), arrived_us=min(block.arrived_us for block in blocks))]


class _Post:
    """What a reader sends to the shards, numbered."""

    def __init__(self, reader: int, sent: list[int]) -> None:
        self.reader, self.sent, self.is_used = reader, sent, False

    def to(self, shard: int, envelope: bytes) -> Any:
        """An envelope for one shard."""
        self.is_used = True
        self.sent[shard] += 1
        return beam.pvalue.TaggedOutput("events", (shard, seal(self.reader, self.sent[shard], envelope)))

    def to_all(self, envelope: bytes) -> Iterator[Any]:
        """The same for every shard."""
        for shard in range(len(self.sent)):
            yield self.to(shard, envelope)
