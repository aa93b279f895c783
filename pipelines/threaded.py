"""Threads inside a step: numpy and Arrow release the interpreter lock, so that one process uses all cores."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue


def default_threads() -> int:
    """How many threads a step uses when it has the machine to itself."""
    return max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


class ThreadedFn(beam.DoFn):
    """Runs `work` on several elements at once; what it gives is passed to `emit` in the order of the elements.

    Outputs are pairs of a tag and a value; they keep the window of their element.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[tuple[Future[Any], Any]] = deque()

    def work(self, *arguments: Any) -> Any:
        """What is done with one element, in a thread."""
        raise NotImplementedError

    def emit(self, result: Any, window: Any) -> Iterable[tuple[str, Any]]:
        """What leaves the step for one result of `work`."""
        raise NotImplementedError

    def close(self) -> Iterable[tuple[str, Any, Any]]:
        """What leaves the step when the bundle ends: tag, value, window."""
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

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        """Hands the element to a thread and emits what earlier ones have finished."""
        return self.submit((element,), window)

    def submit(self, arguments: tuple[Any, ...], window: Any) -> Iterator[Any]:
        """Has `work` done with `arguments`, for a step with side inputs or several pieces of work an element."""
        if self._pool is None:
            yield from self._stamped(self.work(*arguments), window)
            return
        self._running.append((self._pool.submit(self.work, *arguments), window))
        while len(self._running) > self._threads:
            yield from self._oldest()

    def finish_bundle(self) -> Iterator[Any]:
        """Emits the rest."""
        while self._running:
            yield from self._oldest()
        for tag, value, window in self.close():
            yield _tagged(tag, value, window)

    def _oldest(self) -> Iterator[Any]:
        future, window = self._running.popleft()
        return self._stamped(future.result(), window)

    def _stamped(self, result: Any, window: Any) -> Iterator[Any]:
        for tag, value in self.emit(result, window):
            yield _tagged(tag, value, window)


def _tagged(tag: str, value: Any, window: Any) -> beam.pvalue.TaggedOutput:
    return beam.pvalue.TaggedOutput(tag, WindowedValue(value, window.max_timestamp(), (window,)))
