"""Windows that wait for late labels, so that each has one result, with all that came in time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from pipelines.errors import InvalidSettingError


@dataclass
class WindowLabels(beam.PTransform):
    """Puts rows into fixed windows by their timestamps; each window stays open for late ones.

    A skill depends on all labels of its window, so a label that comes after the window's result would change all of
    it. Here a window is closed only `wait_s` seconds after its end, by the watermark, and its result comes then, once.
    Inside, timestamps are later by `wait_s`: a plain way to wait that every runner knows. `interval_of` gives the time
    that a window stands for.

    Input: rows with timestamps. Output: the same rows, in windows for `AggregateLabels`.

    Attributes:
        size_s: how many seconds a window is long; windows begin at multiples of it.
        wait_s: how long it waits for late rows.
    """

    size_s: float
    wait_s: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()
        if not self.size_s > 0:
            raise InvalidSettingError(f"size_s is {self.size_s}; a window takes more than 0 seconds.")
        if not self.wait_s >= 0:
            raise InvalidSettingError(f"wait_s is {self.wait_s}; a window waits for 0 seconds or more.")

    def expand(self, rows: beam.PCollection[Any]) -> Any:
        """Wires the steps."""
        late = rows | "WaitForLate" >> beam.ParDo(_DelayFn(self.wait_s))
        return late | "WindowByTime" >> beam.WindowInto(FixedWindows(self.size_s, offset=self.wait_s % self.size_s))

    def interval_of(self, window: IntervalWindow) -> tuple[Timestamp, Timestamp]:
        """The first moment of the labels in the window, and the one after the last.

        >>> interval = WindowLabels(size_s=3600, wait_s=600).interval_of(IntervalWindow(4200, 7800))
        >>> [moment.to_utc_datetime().isoformat() for moment in interval]
        ['1970-01-01T01:00:00', '1970-01-01T02:00:00']
        """
        wait = Duration.of(self.wait_s)
        return window.start - wait, window.end - wait


class _DelayFn(beam.DoFn):
    """Makes timestamps later."""

    def __init__(self, wait_s: float) -> None:
        self._wait = Duration.of(wait_s)

    def process(self, row: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[TimestampedValue]:
        yield TimestampedValue(row, timestamp + self._wait)


def check_windows(rows: beam.PCollection[Any], gold: beam.PCollection[Any] | None = None) -> None:
    """Raises `InvalidSettingError` for windows whose result would come more than once, and then be wrong."""
    for collection in (rows, gold):
        if collection is None:
            continue
        windowing = collection.windowing
        if not isinstance(windowing.triggerfn, DefaultTrigger) or windowing.allowed_lateness > 0:
            raise InvalidSettingError(
                "AggregateLabels takes windows that close once: the default trigger, no allowed lateness. "
                "For late labels use pipelines.windows.WindowLabels(size_s, wait_s), which waits for them."
            )
    if gold is None or gold.windowing.windowfn == rows.windowing.windowfn:
        return
    given, wanted = (type(one.windowing.windowfn).__name__ for one in (gold, rows))
    raise InvalidSettingError(f"The gold answers are in {given}, the labels in {wanted}; put both into equal windows.")
