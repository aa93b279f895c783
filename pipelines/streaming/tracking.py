"""Tracking: the events of one shard in; what they change, what came too late and which tasks close out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crowdcore.labels import Ints
from pipelines.blocks import NO_TIME, LabelBlock, hash_texts
from pipelines.frames import pack, unpack
from pipelines.late import late_rejects
from pipelines.streaming.envelopes import join, split
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import pack_change
from pipelines.streaming.rhythm import SWEEPS
from pipelines.tables import to_bytes

REMEMBERED = 10
_WHOLE_FRAME = b"W"  # begins a frame with the tasks that are closed beside the labels


@dataclass(frozen=True)
class TrackRules:
    """When tasks close.

    Attributes:
        n_readers: how many readers feed the shards.
        task_ttl_us: how long after its last label a task closes, in event time; 0: never.
        late: "reject" labels of closed tasks, or "reopen" the task: it begins anew with them.
    """

    n_readers: int = 1
    task_ttl_us: int = 0
    late: str = "reject"


@dataclass(frozen=True)
class Tracked:
    """What became of a block of events.

    Attributes:
        kept: the events that changed a label; None when none did.
        change: what they do to the counts, as a frame.
        rejects: late labels, as a table's bytes; None when there is none.
        n_late: how many.
        closing: tasks that close now.
    """

    kept: LabelBlock | None
    change: bytes
    rejects: bytes | None
    n_late: int
    closing: pa.LargeStringArray | None


def _withdrawing(block: LabelBlock | None, table: LabelTable) -> Ints | None:
    """Codes of the workers who withdraw a label: the sinks may know them though they never had another here."""
    if block is None or block.deleted is None:
        return None
    return table.workers.find(block.workers.take(pa.array(np.unique(block.worker[block.deleted]))))


class TaskTracker:
    """The open tasks of one shard.

    The shard's clock is the latest event time in it, but no later than what every reader still has to read: so nothing
    closes because one reader is behind.

    Attributes:
        table: the labels.
    """

    def __init__(self, rules: TrackRules) -> None:
        self._rules = rules
        self.table = LabelTable()
        self._closed: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._closed_at: NDArray[np.int64] = np.empty(0, np.int64)
        self._newest = self._clock = self._swept = NO_TIME
        self._watermarks: dict[int, int] = {}

    def heard(self, reader: int, watermark_us: int) -> None:
        """Takes note of how far a reader has read."""
        self._watermarks[reader] = watermark_us

    def take(self, block: LabelBlock) -> Tracked:
        """Takes events."""
        n_events, rejects, n_late = len(block), None, 0
        if self._rules.task_ttl_us:
            if block.time is not None:
                self._newest = max(self._newest, int(block.time.max(initial=NO_TIME)))
            late = self._late(block)
            n_late = int(late.sum())
            if n_late:
                rejects, block = to_bytes(late_rejects(block, np.flatnonzero(late))), block.rows(~late)
        applied = self.table.apply(block)
        kept = block.rows(np.sort(applied.rows)) if len(applied.rows) else None
        counts, table = self.table.change(applied), self.table
        change = pack_change(counts, table.workers, table.classes, n_events, _withdrawing(kept, table))
        return Tracked(kept, change, rejects, n_late, self.close_due())

    def close_due(self) -> pa.LargeStringArray | None:
        """Closes the tasks whose time is up, and names them; looks at them from time to time only."""
        ttl = self._rules.task_ttl_us
        if not ttl or len(self._watermarks) < self._rules.n_readers:
            return None
        self._clock = max(self._clock, min(self._newest, *self._watermarks.values()))
        if self._clock == NO_TIME or self._clock - max(self._swept, self._clock - ttl) < ttl // SWEEPS:
            return None
        self._swept = self._clock
        due = self.table.latest < self._clock - ttl
        if not due.any():
            return None
        names = self.table.tasks.names(np.flatnonzero(due))
        table = LabelTable()
        table.apply(self.table.block(~due))
        self.table = table
        remembered = self._closed_at >= self._clock - REMEMBERED * ttl
        self._closed = np.append(self._closed[remembered], hash_texts(names))
        self._closed_at = np.append(self._closed_at[remembered], np.full(len(names), self._clock))
        return names

    def _late(self, block: LabelBlock) -> NDArray[np.bool_]:
        """(events,) which belong to a task that is closed: known to be, or too old to be new; none when it reopens."""
        if self._rules.late == "reopen":
            return np.zeros(len(block), bool)
        coded = block.task.dictionary_encode()
        absent = self.table.tasks.find(coded.dictionary) < 0
        closed = absent & np.isin(hash_texts(coded.dictionary), self._closed)
        place = coded.indices.to_numpy()
        late: NDArray[np.bool_] = closed[place]
        if self._clock != NO_TIME and block.time is not None:
            late |= absent[place] & (block.time < self._clock - self._rules.task_ttl_us)
        return late

    def to_bytes(self) -> bytes:
        """All that is known, as one frame."""
        closed = pack({"hash": self._closed, "at": self._closed_at})
        return _WHOLE_FRAME + join([self.table.block().to_bytes(), closed])

    def note(self) -> dict[str, Any]:
        """What is not in the frames."""
        marks = [[reader, mark] for reader, mark in self._watermarks.items()]
        return {"newest": self._newest, "clock": self._clock, "swept": self._swept, "watermarks": marks}

    @classmethod
    def of(cls, rules: TrackRules, frames: list[bytes], note: dict[str, Any]) -> "TaskTracker":
        """The tracker of its frames, in any order, and its note."""
        tracker = cls(rules)
        for frame in sorted(frames, key=lambda frame: frame[:1] != _WHOLE_FRAME):
            body: Any = frame[1:]
            if frame[:1] == _WHOLE_FRAME:
                body, closed = split(body)
                arrays = unpack(closed)
                tracker._closed, tracker._closed_at = arrays["hash"], arrays["at"]
            tracker.table.apply(LabelBlock.from_bytes(body))
        if "clock" in note:
            tracker._newest, tracker._clock, tracker._swept = note["newest"], note["clock"], note["swept"]
            tracker._watermarks = dict(note["watermarks"])
        return tracker
