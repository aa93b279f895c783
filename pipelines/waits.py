"""What this process waits for, such as a sink that is away: told again and again to whoever is to know of it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

AGAIN_S = 5.0


class Board(Protocol):
    """Where it is told; equal boards are one."""

    def tell_waits(self, sentences: Sequence[str]) -> None:
        """Takes all that is waited for now, in sentences; nothing: no more."""


class Waits:
    """The waits of a process, each under a key of its own; every board of the process is told of all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._boards: Counter[Board] = Counter()
        self._sentences: dict[Hashable, str] = {}
        self._told_at = 0.0
        self._lock = threading.Lock()

    def tell(self, board: Board) -> None:
        """Has a board told, until it is left as often as it was named."""
        with self._lock:
            self._boards[board] += 1

    def leave(self, board: Board) -> None:
        """One less who wants the board told."""
        with self._lock:
            self._boards[board] -= 1
            if not self._boards[board]:
                del self._boards[board]

    def lasts(self, what: Hashable, sentence: str) -> None:
        """`what` is waited for, still or from now on; `sentence` says what it is and, behind a colon, why."""
        with self._lock:
            now, known = self._clock(), self._sentences.get(what)
            self._sentences[what] = sentence
            if known is None or now - self._told_at >= AGAIN_S:
                self._tell_all(now)

    def over(self, what: Hashable) -> None:
        """`what` is waited for no more, if it was."""
        with self._lock:
            if self._sentences.pop(what, None) is not None:
                self._tell_all(self._clock())

    def _tell_all(self, now: float) -> None:
        self._told_at = now
        for board in self._boards:
            board.tell_waits(sorted(set(self._sentences.values())))


WAITS = Waits()
