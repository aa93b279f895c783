"""Writing to a sink outside: rows in, nothing out; a bundle ends when its rows are safe."""

import atexit
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from pipelines.errors import RunError
from pipelines.sinks import ARRIVED, KEYS, RECEIPT, WRITTEN, Sink, SinkTarget
from pipelines.tables import from_bytes

METRICS = "crowdbeam.sink"


@dataclass
class WriteRows(beam.PTransform):
    """Writes rows to a sink that keeps the highest revision of each id.

    Input: pairs of a table's name, one of `KEYS`, and its rows as an Arrow stream. Output: pairs of "written" and a
    receipt, when the rows of a table that has one are safe; pairs with any other name are passed on.
    """

    target: SinkTarget

    def expand(self, rows: beam.PCollection[tuple[str, bytes]]) -> beam.PCollection[tuple[str, bytes]]:
        """Wires the step."""
        return rows | "WriteToSink" >> beam.ParDo(_WriteRowsFn(self.target)).with_output_types(tuple[str, bytes])


class _WriteRowsFn(beam.DoFn):
    """Metrics, in the namespace `METRICS`: rows_written.TABLE, flush_ms and label_to_answer_ms, retries, failures."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self._rows = {name: Metrics.counter(METRICS, f"rows_written.{name}") for name in KEYS}
        self._flush_ms = Metrics.distribution(METRICS, "flush_ms")
        self._latency_ms = Metrics.distribution(METRICS, "label_to_answer_ms")
        self._retries = Metrics.counter(METRICS, "retries")
        self._failures = Metrics.counter(METRICS, "failures")
        self._sink: Sink | None = None

    def setup(self) -> None:
        _OPEN.enter(self._target)

    def start_bundle(self) -> None:
        self._sink = None
        self._notices: list[WindowedValue] = []
        self._arrived: list[int] = []

    def process(self, element: tuple[str, bytes], timestamp: Any = beam.DoFn.TimestampParam) -> None:
        name, data = element
        if name not in KEYS:
            self._notices.append(WindowedValue(element, timestamp, (GlobalWindow(),)))
            return
        if self._sink is None:
            self._sink = _OPEN.get(self._target)
        table = from_bytes(data)
        marks = table.schema.metadata or {}
        if RECEIPT in marks:
            self._notices.append(WindowedValue((WRITTEN, marks[RECEIPT]), timestamp, (GlobalWindow(),)))
        self._arrived.append(int(marks.get(ARRIVED, 0)))
        try:
            self._sink.write(name, table)
        except RunError:
            self._give_up(self._sink)
            raise
        self._rows[name].inc(table.num_rows)

    def finish_bundle(self) -> Iterator[Any]:
        sink, self._sink = self._sink, None  # what was written to it must be safe, whatever others opened meanwhile
        if sink is not None:
            self._flush(sink)
        yield from self._notices

    def _flush(self, sink: Sink) -> None:
        began, tried = time.perf_counter(), sink.retries
        try:
            sink.flush()
        except RunError:
            self._give_up(sink)
            raise
        self._flush_ms.update(round(1000 * (time.perf_counter() - began)))
        for arrived_us in filter(None, self._arrived):
            self._latency_ms.update(max(0, (time.time_ns() // 1000 - arrived_us) // 1000))
        self._retries.inc(sink.retries - tried)

    def _give_up(self, sink: Sink) -> None:
        """The bundle fails and will be tried again, with a new connection."""
        self._sink = None
        self._failures.inc()
        _OPEN.drop(self._target, sink)

    def teardown(self) -> None:
        _OPEN.leave(self._target)


class _OpenSinks:
    """The sinks of this process: one a target, for as long as an instance of the step uses it."""

    def __init__(self) -> None:
        self._sinks: dict[SinkTarget, Sink] = {}
        self._users: Counter[SinkTarget] = Counter()
        self._lock = threading.Lock()

    def enter(self, target: SinkTarget) -> None:
        """One instance more."""
        with self._lock:
            self._users[target] += 1

    def leave(self, target: SinkTarget) -> None:
        """One instance less; the last one closes the sink."""
        with self._lock:
            self._users[target] -= 1
            if not self._users[target]:
                del self._users[target]
                if target in self._sinks:
                    self._sinks.pop(target).close()

    def get(self, target: SinkTarget) -> Sink:
        with self._lock:
            if target not in self._sinks:
                self._sinks[target] = target.open()
            return self._sinks[target]

    def drop(self, target: SinkTarget, sink: Sink) -> None:
        with self._lock:
            if self._sinks.get(target) is sink:
                del self._sinks[target]
                sink.close()

    def close(self) -> None:
        with self._lock:
            while self._sinks:
                self._sinks.popitem()[1].close()


_OPEN = _OpenSinks()
atexit.register(_OPEN.close)
