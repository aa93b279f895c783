"""The labels of one shard's open tasks, changed event by event, a block at a time.

A row is one (task, worker); a withdrawn label stays as a row without a class, so that an older label that arrives later
does not bring it back. The rows of a task are a chain through the table, so that a block costs what its own tasks cost,
however many others there are.

Of several events on one (task, worker) the latest by time holds; at the same time a withdrawal goes before a label, and
among labels the class that sorts last holds. Arrival plays no part.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crowdcore.changes import NONE, EdgeChange, change_of
from crowdcore.labels import Ints, TaskLabels
from pipelines.blocks import NO_TIME, LabelBlock
from pipelines.frames import narrow
from pipelines.streaming.codes import Codes, Column

LABELS_FRAME = b"E"  # begins a frame of a state that holds labels alone
_WITHDRAWAL = np.iinfo(np.int64).max
_END = -1


@dataclass(frozen=True)
class Applied:
    """What became of a block.

    Attributes:
        rows: rows of the block that changed the table, in order: the latest of their (task, worker).
        tasks: codes of the tasks whose labels are not what they were.
        changed: (labels,) of those tasks all rows, sorted by task.
        before: (labels,) their class codes before; `changed` leads to those after.
    """

    rows: Ints
    tasks: Ints
    changed: Ints
    before: Ints


class LabelTable:
    """One label per (task, worker)."""

    def __init__(self) -> None:
        self.tasks, self.workers, self.classes = Codes(), Codes(), Codes()
        self._task, self._worker, self._label = Column(np.int32), Column(np.int32), Column(np.int32)
        self._time, self._next = Column(np.int64), Column(np.int32)
        self._head, self._latest = Column(np.int32, _END), Column(np.int64, NO_TIME)

    @property
    def n_rows(self) -> int:
        """How many rows there are, withdrawn labels included."""
        return len(self._task.values)

    @property
    def latest(self) -> Ints:
        """(tasks,) time of each task's latest event."""
        return self._latest.values

    def apply(self, block: LabelBlock) -> Applied:
        """Takes the events of `block`."""
        if not len(block):
            none = np.empty(0, np.int64)
            return Applied(none, none, none, none)
        coded = block.task.dictionary_encode()
        task = self.tasks.of(coded.dictionary)[coded.indices.to_numpy()]
        worker = self.workers.of(block.workers)[block.worker]
        label = self.classes.of(block.classes)[block.label] if len(block.classes) else np.full(len(task), NONE)
        if block.deleted is not None:
            label = np.where(block.deleted, NONE, label)
        time = np.full(len(task), NO_TIME) if block.time is None else block.time
        self._head.grow(len(self.tasks))
        self._latest.grow(len(self.tasks))
        np.maximum.at(self._latest.values, task, time)
        rows = self._last_of_each(task, worker, label, time)
        return self._merge(rows, task[rows], worker[rows], label[rows], time[rows])

    def _last_of_each(self, task: Ints, worker: Ints, label: Ints, time: Ints) -> Ints:
        """Which events of a block hold against the others in it, sorted by task and worker."""
        key = (task << 32) | worker
        order = np.argsort(key, kind="stable")
        in_order = key[order]
        last = np.append(in_order[1:] != in_order[:-1], True)
        if not last.all():
            order = np.lexsort([self._strength(label), time, key])
        chosen: Ints = order[last]
        return chosen

    def _strength(self, label: Ints) -> Ints:
        """(labels,) what decides between events of the same time."""
        return np.where(label == NONE, _WITHDRAWAL, np.append(self.classes.ranks(), 0)[label])

    def _merge(self, rows: Ints, task: Ints, worker: Ints, label: Ints, time: Ints) -> Applied:
        tasks = task[np.append(True, task[1:] != task[:-1])] if len(task) else task
        old_rows, old_key = self.rows_of(tasks)
        key = (task << 32) | worker
        at = np.minimum(np.searchsorted(old_key, key), max(len(old_key) - 1, 0))
        known = old_key[at] == key if len(old_key) else np.zeros(len(key), bool)
        place = np.where(known, old_rows[at] if len(old_rows) else 0, 0)
        before = np.full(len(key), NONE, np.int64)
        newer = ~known
        if known.any():
            here = place[known]
            before[known] = self._label.values[here]
            newer[known] = self._is_newer(label[known], time[known], here)
        differs = newer & (label != before)
        moved = tasks[np.isin(tasks, task[differs])] if differs.any() else tasks[:0]
        earlier = self._label.values[old_rows].copy()
        replaced = newer & known
        self._label.values[place[replaced]] = label[replaced]
        self._time.values[place[replaced]] = time[replaced]
        fresh = ~known
        self._append(task[fresh], worker[fresh], label[fresh], time[fresh])
        changed, changed_key = self.rows_of(moved)
        was = np.full(len(changed), NONE, np.int64)
        if len(old_key):
            spot = np.minimum(np.searchsorted(old_key, changed_key), len(old_key) - 1)
            there = old_key[spot] == changed_key
            was[there] = earlier[spot[there]]
        return Applied(rows[newer], moved, changed, was)

    def _is_newer(self, label: Ints, time: Ints, here: Ints) -> NDArray[np.bool_]:
        known_time, known_label = self._time.values[here], self._label.values[here]
        newer: NDArray[np.bool_] = time > known_time
        same = time == known_time
        if same.any():
            newer = newer | (same & (self._strength(label) > self._strength(known_label)))
        return newer

    def _append(self, task: Ints, worker: Ints, label: Ints, time: Ints) -> None:
        """New rows, sorted by task, at the heads of their chains."""
        if not len(task):
            return
        numbers = np.arange(self.n_rows, self.n_rows + len(task))
        first = np.append(True, task[1:] != task[:-1])
        last = np.append(first[1:], True)
        self._next.append(np.where(first, self._head.values[task], numbers - 1))
        self._head.values[task[last]] = numbers[last]
        for column, values in ((self._task, task), (self._worker, worker), (self._label, label), (self._time, time)):
            column.append(values)

    def rows_of(self, tasks: Ints) -> tuple[Ints, Ints]:
        """All rows of `tasks`, sorted by task and worker, and their keys task · 2³² + worker."""
        at = self._head.values[tasks]
        found = []
        while len(at := at[at != _END]):
            found.append(at)
            at = self._next.values[at]
        rows = np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
        key = (self._task.values[rows].astype(np.int64) << 32) | self._worker.values[rows]
        order = np.argsort(key)
        return rows[order], key[order]

    def change(self, applied: Applied) -> EdgeChange:
        """What `applied` does to the counts of worker pairs."""
        rows = applied.changed
        return change_of(
            self._task.values[rows].astype(np.int64),
            self._worker.values[rows].astype(np.int64),
            applied.before,
            self._label.values[rows].astype(np.int64),
            n_workers=len(self.workers),
            n_classes=len(self.classes),
            rank=self.workers.ranks,
        )

    def labels_of(self, tasks: Ints | None = None) -> tuple[Ints, TaskLabels]:
        """Task codes in order, all or those of the sorted `tasks`, and the labels that hold."""
        if tasks is None:
            key = (self._task.values.astype(np.int64) << 32) | self._worker.values
            rows = np.argsort(key)
            tasks = np.arange(len(self.tasks))
        else:
            rows, _ = self.rows_of(tasks)
        rows = rows[self._label.values[rows] != NONE]
        place = np.searchsorted(tasks, self._task.values[rows])
        starts = np.zeros(len(tasks) + 1, np.int64)
        np.cumsum(np.bincount(place, minlength=len(tasks)), out=starts[1:])
        worker, label = self._worker.values[rows].astype(np.int64), self._label.values[rows].astype(np.int64)
        return tasks, TaskLabels(starts, worker, label, len(self.workers), len(self.classes))

    def block(self, keep: NDArray[np.bool_] | None = None) -> LabelBlock:
        """All rows as one block: applied to an empty table it gives this one; of tasks in the mask `keep` only."""
        rows: Any = slice(None) if keep is None else np.flatnonzero(keep[self._task.values])
        label = self._label.values[rows]
        withdrawn = label == NONE
        workers, worker = np.unique(self._worker.values[rows], return_inverse=True)
        classes = np.unique(label[~withdrawn])
        return LabelBlock(
            0,
            0,
            self.tasks.names(self._task.values[rows]),
            narrow(worker, len(workers)),
            self.workers.names(workers),
            narrow(np.where(withdrawn, 0, np.searchsorted(classes, label)), max(len(classes), 1)),
            self.classes.names(classes) if len(classes) else pa.array([""], pa.large_string()),
            self._time.values[rows].copy(),
            deleted=withdrawn if withdrawn.any() else None,
        )
