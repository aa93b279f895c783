"""Changes: what new, corrected and withdrawn labels do to the counts of worker pairs.

Some labels of some tasks change. Of the pairs of labels on these tasks only those with a changed label matter; each
takes away what it counted before and adds what it counts after. Of a task with too many pairs to count all, those that
count before and after alike are left out too. Counts are integers, so that changes add up exactly, in any order.

>>> change = change_of(
...     task=np.array([7, 7, 7]), worker=np.array([0, 1, 2]), before=np.array([1, 0, NONE]), after=np.array([1, 1, 1]),
...     n_workers=3, n_classes=2,
... )
>>> list(zip(change.first.tolist(), change.second.tolist(), change.n_common.tolist(), change.n_agree.tolist()))
[(0, 1, 0, 1), (1, 2, 1, 1), (0, 2, 1, 1)]
>>> change.n_labels, change.n_triples, change.n_by_class
(array([0, 0, 1]), array([2, 2, 2]), array([-1,  2]))
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels
from crowdcore.pairs import is_sampled, pair_rounds, sorted_pairs

NONE = -1


@dataclass(frozen=True)
class EdgeChange:
    """What is added to the counts; every number may be negative.

    Attributes:
        first, second: (pairs,) worker codes; a pair may occur several times.
        n_common, n_agree: (pairs,) common tasks and agreements.
        n_labels, n_triples: (workers,) as in `EdgeCounts`.
        n_by_class: (classes,) labels.
        n_sampled: tasks of which only a part of the pairs is counted.
    """

    first: Ints
    second: Ints
    n_common: Ints
    n_agree: Ints
    n_labels: Ints
    n_triples: Ints
    n_by_class: Ints
    n_sampled: int


@dataclass(frozen=True)
class _Pairs:
    first: Ints
    second: Ints
    n_common: Ints
    n_agree: Ints

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.first, self.second, self.n_common, self.n_agree


def change_of(
    task: Ints,
    worker: Ints,
    before: Ints,
    after: Ints,
    *,
    n_workers: int,
    n_classes: int,
    rank: Callable[[], Ints] | None = None,
) -> EdgeChange:
    """What changed labels do to the counts.

    Args:
        task: (labels,) all labels of every task that has a changed one, those of a task side by side.
        worker: (labels,) codes; one label a worker and task.
        before: (labels,) class codes as they were, `NONE` where there was no label.
        after: (labels,) class codes as they are now.
        n_workers: how many worker codes there are.
        n_classes: how many class codes there are.
        rank: gives (workers,) the order of the worker ids, which decides what pairs of a very large task are counted.
    """
    starts = np.flatnonzero(np.diff(task, prepend=task[:1] - 1))
    size_of = np.diff(np.append(starts, len(task)))
    was, is_ = before >= 0, after >= 0
    old_size, new_size = (
        np.add.reduceat(there.astype(np.int64), starts) if len(starts) else starts for there in (was, is_)
    )
    triples = np.where(is_, np.repeat(_triples(new_size), size_of), 0)
    triples -= np.where(was, np.repeat(_triples(old_size), size_of), 0)
    huge = np.repeat(is_sampled(old_size) | is_sampled(new_size), size_of)
    order = rank if rank is not None else lambda: np.arange(n_workers)
    pairs = _pairs_of(task, worker, before, after, huge, n_classes, order)
    return EdgeChange(
        *pairs.columns,
        np.bincount(worker[is_], minlength=n_workers) - np.bincount(worker[was], minlength=n_workers),
        np.bincount(worker, triples, n_workers).astype(np.int64),
        np.bincount(after[is_], minlength=n_classes) - np.bincount(before[was], minlength=n_classes),
        int(is_sampled(new_size).sum()) - int(is_sampled(old_size).sum()),
    )


def _triples(size: Ints) -> Ints:
    return (size - 1) * (size - 2)


def _pairs_of(
    task: Ints,
    worker: Ints,
    before: Ints,
    after: Ints,
    huge: NDArray[np.bool_],
    n_classes: int,
    rank: Callable[[], Ints],
) -> _Pairs:
    """The pairs that count otherwise than before; `huge` are the labels on tasks of which a part is counted."""
    if not huge.any():
        return _changed_pairs(task, worker, before, after)
    whole = _changed_pairs(task[~huge], worker[~huge], before[~huge], after[~huge])
    part = _changed_samples(task[huge], worker[huge], before[huge], after[huge], n_classes, rank())
    return _Pairs(*(np.concatenate(both) for both in zip(whole.columns, part.columns, strict=True)))


def _changed_pairs(task: Ints, worker: Ints, before: Ints, after: Ints) -> _Pairs:
    """The pairs of labels on one task of which one has changed, found by their distance in the arrays."""
    changed = before != after
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    one = np.arange(len(task) - 1)
    distance = 1
    while len(one):
        one = one[task[one] == task[one + distance]]
        other = one + distance
        matters = changed[one] | changed[other]
        found.append((one[matters], other[matters]))
        distance += 1
        one = one[one < len(task) - distance]
    if not found:
        none = np.empty(0, np.int64)
        return _Pairs(none, none, none, none)
    a, b = (np.concatenate(rows) for rows in zip(*found, strict=True))
    old = (before[a] >= 0) & (before[b] >= 0)
    new = (after[a] >= 0) & (after[b] >= 0)
    n_common = new.astype(np.int64) - old
    n_agree = (new & (after[a] == after[b])).astype(np.int64) - (old & (before[a] == before[b]))
    kept = np.flatnonzero((n_common != 0) | (n_agree != 0))
    x, y = worker[a[kept]], worker[b[kept]]
    return _Pairs(np.minimum(x, y), np.maximum(x, y), n_common[kept], n_agree[kept])


def _changed_samples(task: Ints, worker: Ints, before: Ints, after: Ints, n_classes: int, rank: Ints) -> _Pairs:
    """The same for tasks with so many pairs that a part is counted: what is in both parts alike cancels out."""
    parts = []
    for label, sign in ((before, -1), (after, 1)):
        there = label >= 0
        parts += _counted(task[there], worker[there], label[there], sign, n_classes, rank)
    columns = zip(*(part.columns for part in parts), strict=True)
    first, second, n_common, n_agree = (np.concatenate(column) for column in columns)
    return _Pairs(*sorted_pairs(first, second, n_common, n_agree, len(rank)))


def _counted(task: Ints, worker: Ints, label: Ints, sign: int, n_classes: int, rank: Ints) -> list[_Pairs]:
    """All pairs of some tasks, sampled where they are too many, added or taken away."""
    order = np.lexsort([rank[worker], task])
    starts = np.flatnonzero(np.diff(task[order], prepend=task[order][:1] - 1))
    labels = TaskLabels(np.append(starts, len(order)), worker[order], label[order], len(rank), n_classes)
    parts = []
    for pairs in pair_rounds(labels):
        first, second = np.minimum(pairs.first, pairs.second), np.maximum(pairs.first, pairs.second)
        parts.append(
            _Pairs(
                first.astype(np.int64),
                second.astype(np.int64),
                np.full(len(first), sign),
                sign * pairs.agree.astype(np.int64),
            )
        )
    return parts
