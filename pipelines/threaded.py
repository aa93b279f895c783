"""Threads inside a step: numpy and Arrow release the interpreter lock, so that one process uses all cores."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

Total = TypeVar("Total")


def default_threads() -> int:
    """How many threads a step uses when it has the machine to itself."""
    return max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


@dataclass(frozen=True)
class Place:
    """Where an element is: its window, and its time in it."""

    window: Any
    timestamp: Any

    def tagged(self, tag: str, value: Any) -> Any:
        """An output at this place."""
        return beam.pvalue.TaggedOutput(tag, WindowedValue(value, self.timestamp, (self.window,)))


class PerWindow(Generic[Total]):
    """Something a bundle adds up for each window, at the time of the earliest element there."""

    def __init__(self, begin: Callable[[], Total]) -> None:
        self._begin = begin
        self._totals: dict[Any, tuple[Total, Place]] = {}

    def at(self, place: Place) -> Total:
        """What is being added up in the window of `place`."""
        total, earlier = self._totals.get(place.window) or (self._begin(), place)
        self._totals[place.window] = total, min(earlier, place, key=lambda one: one.timestamp)
        return total

    def items(self) -> list[tuple[Total, Place]]:
        """Every window's total, and where it belongs."""
        return list(self._totals.values())


class ThreadedFn(beam.DoFn):
    """Runs `work` on several elements at once; what it gives is passed to `emit` in the order of the elements.

    Outputs are pairs of a tag and a value; they keep the window and the time of their element.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[tuple[Future[Any], Place]] = deque()

    def work(self, *arguments: Any) -> Any:
        """What is done with one element, in a thread."""
        raise NotImplementedError

    def emit(self, result: Any, place: Place) -> Iterable[tuple[str, Any]]:
        """What leaves the step for one result of `work`."""
        raise NotImplementedError

    def close(self) -> Iterable[tuple[str, Any, Place]]:
        """What leaves the step when the bundle ends: tag, value, place."""
        return ()

    def setup(self) -> None:
        """Starts the threads."""
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def teardown(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def start_bundle(self) -> None:
        """Begins with nothing under way."""
        self._running = deque()

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Hands the element to a thread and emits what earlier ones have finished."""
        return self.submit((element,), Place(window, timestamp))

    def submit(self, arguments: tuple[Any, ...], place: Place) -> Iterator[Any]:
        """Has `work` done with `arguments`, for a step with side inputs or several pieces of work an element."""
        if self._pool is None:
            yield from self._placed(self.work(*arguments), place)
            return
        self._running.append((self._pool.submit(self.work, *arguments), place))
        while len(self._running) > self._threads:
            yield from self._oldest()

    def finish_bundle(self) -> Iterator[Any]:
        """Emits the rest."""
        while self._running:
            yield from self._oldest()
        for tag, value, place in self.close():
            yield place.tagged(tag, value)

    def _oldest(self) -> Iterator[Any]:
        future, place = self._running.popleft()
        return self._placed(future.result(), place)

    def _placed(self, result: Any, place: Place) -> Iterator[Any]:
        for tag, value in self.emit(result, place):
            yield place.tagged(tag, value)
