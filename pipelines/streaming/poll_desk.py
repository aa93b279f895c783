"""What the step that polls has at hand in this process: its readers, and what was asked of the stream.

Beam gives one key to several instances of a step in turn. A reader must be one for all of them: it knows where it
stands, and what it has not acknowledged yet.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from pipelines.sources.unbounded import Polled, Reader, Source
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import Marker
from pipelines.waits import WAITS

_CONTROL_EVERY_S = 1.0
_CONFIRM_EVERY_S, _CONFIRM_AFTER_S = 5.0, 30.0


class PollDesk:
    """The readers of one job in this process, one for each number, and the requests in its control folder."""

    def __init__(self, source: Source, control: Control) -> None:
        self._source, self._control = source, control
        self._readers: dict[int, _OpenReader] = {}
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._requests: list[Marker] = []
        WAITS.tell(control)

    def requests(self, now: float) -> list[Marker]:
        """What is asked of the stream, looked at from time to time."""
        with self._lock:
            if now - self._looked_at > _CONTROL_EVERY_S:
                self._looked_at, self._requests = now, self._control.requests()
            return self._requests

    def poll(self, number: int, position: bytes, max_events: int, wait_s: float, now: float) -> Polled:
        """What reader `number` has after `position`."""
        with self._lock:
            opened = self._readers.setdefault(number, _OpenReader(self._source, number))
        polled = opened.poll(position, max_events, wait_s, now)
        if polled.away:
            WAITS.lasts(self._named(number), polled.away)
        else:
            WAITS.over(self._named(number))
        return polled

    def close(self) -> None:
        """Closes the readers."""
        with self._lock:
            while self._readers:
                number, opened = self._readers.popitem()
                opened.close()
                WAITS.over(self._named(number))
        WAITS.leave(self._control)

    def _named(self, number: int) -> str:
        return f"reader {number} of {self._control.folder}"


@dataclass
class _OpenReader:
    """A reader, where its last poll ended, and how far it had come a while ago: by now a checkpoint should hold it."""

    source: Source
    number: int
    reader: Reader | None = None
    last: bytes = b""
    marks: deque[tuple[float, bytes]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def poll(self, position: bytes, max_events: int, wait_s: float, now: float) -> Polled:
        with self.lock:  # taken out: if this poll fails, nobody goes on with a reader that is half through it
            reader, self.reader = self.reader or self.source.reader(self.number), None
            try:
                self._confirm(reader, position, now)
                polled = reader.poll(position, max_events, wait_s)
                self.reader, self.last = reader, polled.position
            finally:
                if self.reader is None:
                    reader.close()
            return polled

    def _confirm(self, reader: Reader, position: bytes, now: float) -> None:
        if position != self.last:  # set back: what was marked since is not safe
            self.marks.clear()
        if position and (not self.marks or now - self.marks[-1][0] > _CONFIRM_EVERY_S):
            self.marks.append((now, position))
        if self.marks and now - self.marks[0][0] > _CONFIRM_AFTER_S:
            reader.confirm(self.marks.popleft()[1])

    def close(self) -> None:
        with self.lock:
            reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()


class _Desks:
    """The desks of this process, by job, for as long as an instance of the step uses them."""

    def __init__(self) -> None:
        self._desks: dict[str, tuple[PollDesk, int]] = {}
        self._lock = threading.Lock()

    def open(self, job: str, source: Source, control: Control) -> PollDesk:
        """The desk of a job, for one instance more."""
        with self._lock:
            desk, users = self._desks.get(job) or (PollDesk(source, control), 0)
            self._desks[job] = desk, users + 1
            return desk

    def leave(self, job: str) -> None:
        """One instance less; the last one closes the readers."""
        with self._lock:
            desk, users = self._desks.pop(job)
            if users > 1:
                self._desks[job] = desk, users - 1
                return
        desk.close()


DESKS = _Desks()
