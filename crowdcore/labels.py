"""Labels coded as integer arrays, one per (task, worker), grouped by task.

Of several labels by one worker on one task one counts: the latest by time, then by position in the source,
then by class (``repeats="last"``), or the earliest by the same order (``"first"``), or none if they contradict each
other (``"error"``). Arrival plays no part, so the result does not depend on how the labels were split or shipped.

A deletion withdraws all labels of its worker on its task that are not later than itself by the same order, where at one
time and position a deletion is later than a label; the rule for repeats chooses among those that are left. So with
``"last"`` the latest event decides, and an older label that is read later does not bring a withdrawn one back.

>>> grouped = group_labels([0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], n_tasks=2, n_workers=2, n_classes=2)
>>> grouped.labels.starts, grouped.labels.worker, grouped.labels.label
(array([0, 2, 3]), array([0, 1, 0]), array([1, 0, 0]))
>>> grouped.n_repeated
1
>>> gone = [False, False, False, True]
>>> group_labels([0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], n_tasks=2, n_workers=2, n_classes=2, deleted=gone).withdrawn
array([1, 3])
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.options import REPEATS

_DIGIT_BITS = 16

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TaskLabels:
    """Labels grouped by task, at most one a worker, in the order of their worker codes.

    Attributes:
        starts: (tasks + 1,) the labels of task t are at starts[t]:starts[t + 1].
        worker: (labels,) worker codes.
        label: (labels,) class codes.
        n_workers: how many worker codes there are.
        n_classes: how many class codes there are.
    """

    starts: Ints
    worker: Ints
    label: Ints
    n_workers: int
    n_classes: int

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """(tasks,) labels of each task."""
        return np.diff(self.starts)

    @property
    def task(self) -> Ints:
        """(labels,) task codes."""
        return np.repeat(np.arange(self.n_tasks), self.sizes)


@dataclass(frozen=True)
class GroupedLabels:
    """What `group_labels` makes of raw labels.

    Attributes:
        labels: one label per (task, worker).
        n_received: (tasks,) labels received by each task: repeats and labels withdrawn since are included,
            contradictions and deletions are not.
        kept: (labels,) for each label of `labels`, which input row it is.
        contradictions: input rows left out because they contradict each other (``repeats="error"`` only).
        withdrawn: input rows that are deletions, and those of the labels they withdrew.
        n_deletions: how many of `withdrawn` are deletions.
    """

    labels: TaskLabels
    n_received: Ints
    kept: Ints
    contradictions: Ints
    withdrawn: Ints
    n_deletions: int

    @property
    def n_repeated(self) -> int:
        """Input rows left out because another label of the same worker on the same task counts."""
        return int(self.n_received.sum()) - len(self.kept) - (len(self.withdrawn) - self.n_deletions)


def group_labels(
    task: ArrayLike,
    worker: ArrayLike,
    label: ArrayLike,
    *,
    n_tasks: int,
    n_workers: int,
    n_classes: int,
    time: ArrayLike | None = None,
    position: ArrayLike | None = None,
    deleted: ArrayLike | None = None,
    repeats: str = "last",
) -> GroupedLabels:
    """Groups coded labels by task and keeps one per (task, worker).

    Args:
        task: (labels,) task codes, 0 to n_tasks - 1.
        worker: (labels,) worker codes.
        label: (labels,) class codes; their order is the order of the classes.
        n_tasks: how many task codes there are.
        n_workers: how many worker codes there are.
        n_classes: how many class codes there are.
        time: (labels,) when; labels without a time carry the smallest integer.
        position: (labels,) place in the source; the order of the arrays when not given.
        deleted: (labels,) whether the row is a deletion; what its label is plays no part. None: none is.
        repeats: "last", "first" or "error".
    """
    if repeats not in REPEATS:
        raise InvalidOptionError(f"repeats is {repeats!r}; it takes {', '.join(REPEATS)}")
    task, worker, label = _codes(task), _codes(worker), _codes(label)
    if not task.shape == worker.shape == label.shape:
        raise InvalidLabelsError("task, worker and label must be arrays of one length")
    order = order_by(worker, task, limits=(n_workers, n_tasks))
    same = _same_as_next(order, task, worker)
    received = np.bincount(task, minlength=n_tasks)
    contradictions, withdrawn, n_deletions = np.empty(0, np.int64), np.empty(0, np.int64), 0
    if deleted is not None and (gone := np.asarray(deleted, bool)).any():
        is_withdrawn = _withdrawn(order, same, gone, time, position)
        withdrawn, n_deletions = np.sort(order[is_withdrawn]), int(gone.sum())
        received = received - np.bincount(task[gone], minlength=n_tasks)
        order = order[~is_withdrawn]
        same = _same_as_next(order, task, worker)
    if same.any():
        chosen = _choose(order, same, label, time, position, repeats)
        contradictions = chosen.contradictions
        order = order[chosen.keep]
        received = received - np.bincount(task[contradictions], minlength=n_tasks)
    starts = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task[order], minlength=n_tasks), out=starts[1:])
    labels = TaskLabels(starts, worker[order], label[order], n_workers, n_classes)
    return GroupedLabels(labels, received, order, contradictions, withdrawn, n_deletions)


def _codes(values: ArrayLike) -> Ints:
    codes = np.asarray(values)
    return codes if codes.size else codes.astype(np.int64)


def _same_as_next(order: Ints, task: Ints, worker: Ints) -> NDArray[np.bool_]:
    """(rows - 1,) whether the next row of `order` has the same task and worker."""
    task, worker = task[order], worker[order]
    same: NDArray[np.bool_] = (task[1:] == task[:-1]) & (worker[1:] == worker[:-1])
    return same


def _withdrawn(
    order: Ints, same: NDArray[np.bool_], deleted: NDArray[np.bool_], time: Any, position: Any
) -> NDArray[np.bool_]:
    """(rows,) which rows of `order` are deletions, or labels not later than one of their task and worker."""
    group = np.concatenate([[0], np.cumsum(~same)])
    touched = np.zeros(int(group[-1]) + 1, bool)
    touched[group[deleted[order]]] = True
    places = np.flatnonzero(touched[group])
    rows = order[places]
    keys = [deleted[rows], rows if position is None else np.asarray(position)[rows]]
    if time is not None:
        keys.append(np.asarray(time)[rows])
    ranked = np.lexsort([*keys, group[places]])
    of_group = group[places][ranked]
    begins = np.flatnonzero(np.append(True, of_group[1:] != of_group[:-1]))
    rank = np.arange(len(ranked))
    last = np.maximum.reduceat(np.where(deleted[rows][ranked], rank, -1), begins)
    gone = rank <= np.repeat(last, np.diff(np.append(begins, len(ranked))))
    found = np.zeros(len(order), bool)
    found[places[ranked[gone]]] = True
    return found


@dataclass(frozen=True)
class _Choice:
    keep: NDArray[np.bool_]
    contradictions: Ints


def _choose(order: Ints, same: NDArray[np.bool_], label: Ints, time: Any, position: Any, repeats: str) -> _Choice:
    """Which rows of `order` stay, where `same` marks a row whose successor has its task and worker."""
    repeated = np.zeros(len(order), bool)
    repeated[:-1] |= same
    repeated[1:] |= same
    group = np.concatenate([[0], np.cumsum(~same)])[repeated]
    rows = order[repeated]
    keys = [label[rows], rows if position is None else np.asarray(position)[rows]]
    if time is not None:
        keys.append(np.asarray(time)[rows])
    ranked = np.lexsort([*keys, group])
    ranked_group = group[ranked]
    edge = ranked_group[1:] != ranked_group[:-1]
    pick = np.append(edge, True) if repeats != "first" else np.insert(edge, 0, True)
    picked = ranked[pick]
    stay = np.zeros(len(rows), bool)
    stay[picked] = True
    contradictions = np.empty(0, np.int64)
    if repeats == "error":
        _, dense = np.unique(group, return_inverse=True)
        chosen_label = label[rows[picked]]
        conflict = np.bincount(dense, label[rows] != chosen_label[dense]) > 0
        stay &= ~conflict[dense]
        contradictions = np.sort(rows[conflict[dense]])
    keep = ~repeated
    keep[np.flatnonzero(repeated)[stay]] = True
    return _Choice(keep, contradictions)


def order_by(*codes: Ints, limits: tuple[int, ...]) -> Ints:
    """The stable order that sorts by the last array, then by the one before it, and so on.

    numpy sorts 16-bit integers by radix, several times faster than wider ones: codes are sorted digit by digit.

    >>> order_by(np.array([1, 0, 1]), np.array([0, 1, 0]), limits=(2, 2))
    array([0, 2, 1])
    """
    order: Ints | None = None
    for code, limit in zip(codes, limits, strict=True):
        for shift in range(0, max(int(limit - 1).bit_length(), 1), _DIGIT_BITS):
            digit = ((code if order is None else code[order]) >> shift).astype(np.uint16)
            step = np.argsort(digit, kind="stable")
            order = step if order is None else order[step]
    return np.empty(0, np.int64) if order is None else order
