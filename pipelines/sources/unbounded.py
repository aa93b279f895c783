"""Sources that never end: what a stream asks of Kafka, Pub/Sub and a growing folder alike.

A reader is polled again and again. It keeps nothing that must not be lost: where it stands is a position, small bytes
that the stream keeps in its checkpoint and gives back with the next poll. After a crash the same position is given
again, possibly to a new reader on another machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pipelines.blocks import LabelBlock
from pipelines.errors import InvalidSettingError

CAUGHT_UP = int(np.iinfo(np.int64).max)
NOT_KNOWN = 0
_STARTS = ("earliest", "latest")


@dataclass(frozen=True)
class Polled:
    """What one poll brought.

    Attributes:
        blocks: label events; times are microseconds since 1970.
        rejects: tables of rejects (see `pipelines.tables`), as bytes.
        counts: events_read, events_rejected and events_rejected.REASON; the rest is in `blocks`. Kafka adds
            events_lost: messages that were deleted before they were read, which no other count holds.
        position: where the next poll goes on.
        more: whether more is waiting already, so that the next poll should follow at once.
        lag: events known to be waiting, by the partition's name.
        watermark_us: the latest time read where more is waiting: what waits there is about as old, or younger;
            `CAUGHT_UP` when nothing waits, `NOT_KNOWN` when nobody can tell.
        away: why the source cannot be read now, in a sentence; it is waited for. Empty: it can.
    """

    blocks: tuple[LabelBlock, ...]
    position: bytes
    rejects: tuple[bytes, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False
    lag: Mapping[str, int] = field(default_factory=dict)
    watermark_us: int = NOT_KNOWN
    away: str = ""


class Reader(Protocol):
    """One of the readers of a source; each has its share of the partitions."""

    def poll(self, position: bytes, max_events: int, timeout_s: float) -> Polled:
        """Reads at most about `max_events` events after `position` (empty: from the start), waiting `timeout_s`.

        A source that is away for a while is waited for: nothing is lost, and the poll brings nothing.
        """

    def confirm(self, position: bytes) -> None:
        """Tells the source that everything up to `position` is safe in the stream."""

    def close(self) -> None:
        """Lets go of connections."""


class Source(Protocol):
    """Where a stream's events come from; it travels to the workers, so it holds settings and no connection."""

    @property
    def n_readers(self) -> int:
        """How many readers share the work."""

    def check(self) -> None:
        """Raises `InputError` with a sentence when the source cannot be read; called before anything runs."""

    def reader(self, number: int) -> Reader:
        """Reader `number` of `n_readers`."""


def refuse_readers(readers: int) -> None:
    """Raises `InvalidSettingError` when a source cannot have so many readers."""
    if readers < 1:
        raise InvalidSettingError(f"--readers is {readers}; it takes a number of at least 1.")


def refuse_start(start: str) -> None:
    """Raises `InvalidSettingError` when a stream cannot begin there."""
    if start not in _STARTS:
        raise InvalidSettingError(f"--from is {start!r}; it takes {', '.join(_STARTS)}.")
