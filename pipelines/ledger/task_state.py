"""What a ledger knows of some tasks: every label that was ever given to them, one per (task, worker).

A withdrawn label stays as a row without a class, so that an older label that arrives later does not bring it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels
from crowdcore.pairs import is_sampled
from pipelines.blocks import united
from pipelines.grouped import gold_code

WITHDRAWN = -1
_BY_ROW = ("worker", "label", "time", "received")


@dataclass(frozen=True)
class TaskState:
    """Tasks and their labels, those of a task side by side.

    Attributes:
        task: (tasks,) ids, each once.
        starts: (tasks + 1,) the rows of task t are at starts[t]:starts[t + 1].
        latest: (tasks,) time of each task's latest event, in microseconds since 1970: it decides when a task closes. An
            event of no time, or of one in the future, counts as of the beginning of the night it came in.
        worker, workers: (rows,) codes, and the ids they stand for.
        label, classes: (rows,) codes, `WITHDRAWN` where there is no label any more, and the classes they stand for.
        time: (rows,) when, `NO_TIME` where unknown.
        received: (rows,) how many labels of the worker on the task were received, repeats included.
    """

    task: pa.LargeStringArray
    starts: Ints
    latest: Ints
    worker: NDArray[Any]
    workers: pa.LargeStringArray
    label: NDArray[Any]
    classes: pa.LargeStringArray
    time: Ints
    received: Ints

    def __len__(self) -> int:
        return len(self.task)

    @classmethod
    def none(cls) -> "TaskState":
        """No tasks."""
        texts, ints = pa.array([], pa.large_string()), np.empty(0, np.int64)
        return cls(texts, np.zeros(1, np.int64), ints, ints, texts, ints, texts, ints, ints)

    @property
    def row_task(self) -> Ints:
        """(rows,) places of the tasks."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @property
    def n_rows(self) -> int:
        """How many rows there are, withdrawn labels included."""
        return len(self.worker)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(tasks,) which have a worker's label that holds; a known answer is none."""
        return np.bincount(self.row_task[self.answered_rows], minlength=len(self)) > 0

    @property
    def answered_rows(self) -> NDArray[np.bool_]:
        """(rows,) which are labels of workers that hold."""
        holds: NDArray[np.bool_] = (self.label != WITHDRAWN) & (self.worker != gold_code(self.workers))
        return holds

    def chosen(self, tasks: NDArray[Any]) -> "TaskState":
        """Some of the tasks, by a mask or by their places, in that order."""
        places = np.flatnonzero(tasks) if tasks.dtype == bool else tasks
        sizes = np.diff(self.starts)[places]
        starts = np.zeros(len(places) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        rows = rows_at(self.starts[places], sizes)
        return replace(
            self,
            task=self.task.take(pa.array(places)),
            starts=starts,
            latest=self.latest[places],
            **{name: getattr(self, name)[rows] for name in _BY_ROW},
        )

    def without_rows(self, out: NDArray[np.bool_]) -> "TaskState":
        """The same tasks without some of their rows."""
        starts = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.bincount(self.row_task[~out], minlength=len(self)), out=starts[1:])
        return replace(self, starts=starts, **{name: getattr(self, name)[~out] for name in _BY_ROW})

    @property
    def n_received(self) -> Ints:
        """(tasks,) labels received, repeats included; known answers are not counted."""
        mine = self.worker != gold_code(self.workers)
        return np.bincount(self.row_task[mine], self.received[mine], len(self)).astype(np.int64)

    def labels(self) -> tuple[TaskLabels, pa.LargeStringArray, pa.LargeStringArray]:
        """The labels that hold, with the workers and the sorted classes that their codes stand for."""
        worker, workers = self.worker, self.workers
        holds = self.label != WITHDRAWN
        size = np.bincount(self.row_task[holds], minlength=len(self))
        if is_sampled(size).any():  # which pairs of a very large task count depends on the order of its workers
            worker, workers = united([worker], [workers], in_order=True)
            rows = np.lexsort([worker, self.row_task])
            rows = rows[holds[rows]]
        else:
            rows = np.flatnonzero(holds)
        label, classes = united([self.label[rows]], [self.classes], in_order=True)
        starts = np.zeros(len(self) + 1, np.int64)
        np.cumsum(size, out=starts[1:])
        coded = TaskLabels(starts, worker[rows].astype(np.int64), label.astype(np.int64), len(workers), len(classes))
        return coded, workers, classes


def joined(states: Sequence[TaskState]) -> TaskState:
    """Several states of different tasks as one."""
    states = [state for state in states if len(state)]
    if len(states) < 2:
        return states[0] if states else TaskState.none()
    worker, workers = united([state.worker for state in states], [state.workers for state in states])
    holds = [state.label != WITHDRAWN for state in states]
    codes = [np.where(there, state.label, 0) for state, there in zip(states, holds, strict=True)]
    named = [state.classes if len(state.classes) else pa.array([""], pa.large_string()) for state in states]
    label, classes = united(codes, named)
    ends = np.cumsum([state.n_rows for state in states])
    starts = [state.starts[:-1] + end - state.n_rows for state, end in zip(states, ends, strict=True)]
    return TaskState(
        pa.concat_arrays([state.task for state in states]),
        np.append(np.concatenate(starts), ends[-1]),
        np.concatenate([state.latest for state in states]),
        worker,
        workers,
        np.where(np.concatenate(holds), label, WITHDRAWN),
        classes,
        np.concatenate([state.time for state in states]),
        np.concatenate([state.received for state in states]),
    )


def rows_at(begins: Ints, sizes: Ints) -> Ints:
    """The numbers of all rows of some runs of rows, each with its beginning and its size.

    >>> rows_at(np.array([7, 2]), np.array([2, 3]))
    array([7, 8, 2, 3, 4])
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    rows: Ints = np.arange(total) + np.repeat(begins - (ends - sizes), sizes)
    return rows
