"""Writing files: rows wait in the stream's state, and every so often those that wait are written as one interval.

The number of the interval is in the state too. So an interval that is written again after a crash replaces itself.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from pipelines.errors import InvalidSettingError
from pipelines.patience import until_done
from pipelines.settings import OUTPUT_FORMATS
from pipelines.sinks import KEYS, RECEIPT, WRITTEN
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.interval_files import finished_intervals, write_interval
from pipelines.sinks.write import METRICS
from pipelines.tables import from_bytes

MOST_BYTES = 64 << 20  # rows that are more than this do not wait any longer
PATIENCE_S = 600.0
_HURRY_S = 60.0
T = TypeVar("T")


@dataclass
class WriteIntervals(beam.PTransform):
    """Writes the rows that arrived in `every_s` seconds to files, with a manifest written last; see docs/sinks.md.

    Input: pairs of a table's name, one of `KEYS`, and its rows as an Arrow stream; a pair with another name, such as
    "drained", has everything before it written at once. Output: pairs of "written" and a receipt, when the rows of a
    table that has one are safe; and the pairs with other names.

    Attributes:
        folder: it must be there.
        every_s: how often files are written.
        format: of the files.
        clock: tells the time in seconds.
        patience_s: how long a folder that is away is waited for.
    """

    folder: str
    every_s: float = 60.0
    format: str = "parquet"
    clock: Callable[[], float] = time.time
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuses settings that cannot be used."""
        super().__init__()
        if not self.every_s > 0:
            raise InvalidSettingError(f"Files cannot be written every {self.every_s} seconds; give more than 0.")
        if self.format not in OUTPUT_FORMATS:
            raise InvalidSettingError(f"There is no format {self.format!r}; there are {', '.join(OUTPUT_FORMATS)}.")

    def expand(self, rows: beam.PCollection[tuple[str, bytes]]) -> beam.PCollection[tuple[str, bytes]]:
        """Wires the step."""
        fn = _WriteIntervalsFn(IntervalFolder(self.folder), self)
        return (
            rows
            | "ToOneWriter" >> beam.WithKeys(0).with_output_types(tuple[int, tuple[str, bytes]])
            | "WriteInterval" >> beam.ParDo(fn).with_output_types(tuple[str, bytes])
        )


class _WriteIntervalsFn(beam.DoFn):
    """State: the rows that wait; and the number, the beginning and the size of their interval."""

    WAITING = BagStateSpec("waiting", coders.BytesCoder())
    INTERVAL = ReadModifyWriteStateSpec("interval", coders.BytesCoder())
    DUE = TimerSpec("due", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, folder: IntervalFolder, how: WriteIntervals) -> None:
        self._folder, self._every_s, self._kind, self._clock = folder, how.every_s, how.format, how.clock
        self._patience_s = how.patience_s
        self._rows = {name: Metrics.counter(METRICS, f"rows_written.{name}") for name in KEYS}
        self._intervals = Metrics.counter(METRICS, "intervals")
        self._retries = Metrics.counter(METRICS, "retries")

    def process(
        self,
        element: tuple[int, tuple[str, bytes]],
        window: Any = beam.DoFn.WindowParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        interval: Any = beam.DoFn.StateParam(INTERVAL),
        due: Any = beam.DoFn.TimerParam(DUE),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[tuple[str, bytes]]:
        name, data = element[1]
        if name not in KEYS:
            due.clear()
            yield from self._write(waiting, interval)
            interval.write(json.dumps({**self._read(interval), "flushed_at_s": self._clock()}).encode())
            yield name, data
            return
        table = from_bytes(data)
        if not table.num_rows:
            yield from _receipts([table])
            return
        now = self._read(interval)
        if not now["bytes"]:
            now["from_us"] = round(self._clock() * 1e6)
            hurry = self._clock() - now.get("flushed_at_s", 0) < _HURRY_S  # rows that "drained" was meant for, too
            due.set(Timestamp.of(self._clock() + (min(1.0, self._every_s) if hurry else self._every_s)))
            end.set(window.max_timestamp())
        now["bytes"] += len(data)
        waiting.add(name.encode() + b"\n" + data)
        interval.write(json.dumps(now).encode())
        if now["bytes"] > MOST_BYTES:
            due.clear()
            yield from self._write(waiting, interval)

    @on_timer(DUE)
    def write_due(
        self,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        interval: Any = beam.DoFn.StateParam(INTERVAL),
    ) -> Iterator[tuple[str, bytes]]:
        """The interval has passed."""
        yield from self._write(waiting, interval)

    @on_timer(END)
    def write_rest(
        self,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        interval: Any = beam.DoFn.StateParam(INTERVAL),
    ) -> Iterator[tuple[str, bytes]]:
        """Nothing more will come."""
        yield from self._write(waiting, interval)

    def _write(self, waiting: Any, interval: Any) -> Iterator[tuple[str, bytes]]:
        """Writes what waits, if anything does; the state then is that of the next interval."""
        now = self._read(interval)
        if not now["bytes"]:
            return
        tables: dict[str, list[Any]] = {}
        for packed in waiting.read():
            name, _, data = packed.partition(b"\n")
            tables.setdefault(name.decode(), []).append(from_bytes(data))
        times_us = now["from_us"], round(self._clock() * 1e6)
        write = partial(write_interval, self._folder.path, now["number"], tables, self._kind, times_us)
        for name, rows in self._until_there(write).items():
            self._rows[name].inc(rows)
        self._intervals.inc()
        waiting.clear()
        interval.write(json.dumps({**now, "number": now["number"] + 1, "bytes": 0}).encode())
        yield from _receipts([table for parts in tables.values() for table in parts])

    def _read(self, interval: Any) -> dict[str, Any]:
        """The interval in the state; a stream without one goes on behind the intervals that are in the folder."""
        packed = interval.read()
        if packed:
            found: dict[str, Any] = json.loads(packed)
            return found
        finished = self._until_there(partial(finished_intervals, self._folder.path))
        return {"number": max(finished, default=-1) + 1, "bytes": 0}

    def _until_there(self, action: Callable[[], T]) -> T:
        """What `action` gives; a folder that is away is waited for."""

        def look_and_act() -> T:
            self._folder.look()
            return action()

        what = f"The sink {self._folder.path} could not be used"
        return until_done(look_and_act, what, self._patience_s, self._retries.inc)


def _receipts(tables: list[Any]) -> Iterator[tuple[str, bytes]]:
    """What is said to those who wait for these tables."""
    for table in tables:
        receipt = (table.schema.metadata or {}).get(RECEIPT)
        if receipt is not None:
            yield WRITTEN, receipt
