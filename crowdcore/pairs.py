"""Counting pairs: every two labels of a task, as fast as numpy goes.

A task with r labels has r (r − 1)/2 pairs. Above `MAX_PAIRS` a part of them is counted: with the labels in a circle, in
the order of their worker ids, each is paired with those at `MAX_PAIRS // r` distances spread evenly over half the
circle. The choice depends on the task's labels alone, and each worker keeps the same number of pairs.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels

MAX_PAIRS = 500_000
_DENSE_WORKERS = 4096
_ROUND_PAIRS = 4_000_000
_COMMON = 1 << 32


@dataclass
class PairTally:
    """Adds up the pairs of many groups of labels that share their worker codes.

    Counts are packed as common · 2³² + agreements: in a dense table while there are few workers, else in a sparse one.
    Adding is not thread-safe.
    """

    n_sampled: int = 0
    _dense: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _sparse: list[sp.csr_array] = field(default_factory=list)
    _pending: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    _n_pending: int = 0
    _n_labels: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _n_triples: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, labels: TaskLabels) -> None:
        """Adds the pairs of `labels`."""
        self.add_pairs(pairs_of(labels), labels.n_workers)

    def add_pairs(self, pairs: "Pairs", n_workers: int) -> None:
        """Adds pairs whose worker codes are below `n_workers`."""
        self.n_sampled += pairs.n_sampled
        n_workers = max(n_workers, len(self._n_labels))
        self._n_labels = _grown(self._n_labels, n_workers)
        self._n_triples = _grown(self._n_triples, n_workers)
        self._n_labels[: len(pairs.n_labels)] += pairs.n_labels
        self._n_triples[: len(pairs.n_triples)] += pairs.n_triples
        if n_workers <= _DENSE_WORKERS:
            self._add_dense(pairs, n_workers)
        else:
            self._pending.append((pairs.first, pairs.second, pairs.count))
            self._n_pending += len(pairs.first)
            if self._n_pending >= _ROUND_PAIRS:
                self._settle()

    def by_worker(self, n_workers: int) -> tuple[Ints, Ints]:
        """(workers,) labels and ordered pairs of distinct peers."""
        return _grown(self._n_labels, n_workers), _grown(self._n_triples, n_workers)

    def pairs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """(edges,) first worker, second worker, common tasks, agreements; in no stated order."""
        self._settle()
        parts = [_unpacked(sp.coo_array(table)) for table in self._sparse]
        if self._dense.size:
            first, second = np.nonzero(self._dense)
            count = self._dense[first, second]
            parts.append((first, second, count // _COMMON, count % _COMMON))
        if not parts:
            return (np.zeros(0, np.int64),) * 4
        first, second, n_common, n_agree = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return first, second, n_common, n_agree

    def _add_dense(self, pairs: "Pairs", n_workers: int) -> None:
        size = len(self._dense)
        if n_workers > size:
            room = min(_DENSE_WORKERS, max(64, n_workers + n_workers // 4))
            table = np.zeros((room, room), np.int64)
            table[:size, :size] = self._dense
            self._dense, size = table, room
        cell = pairs.first.astype(np.int64, copy=False) * size + pairs.second  # narrow codes would overflow
        np.add.at(self._dense.reshape(-1), cell, pairs.count)

    def _settle(self) -> None:
        if not self._pending:
            return
        first, second, count = (np.concatenate(columns) for columns in zip(*self._pending, strict=True))
        self._pending, self._n_pending = [], 0
        n_workers = len(self._n_labels)
        table = sp.coo_array((count, (first, second)), shape=(n_workers, n_workers)).tocsr()
        table.sum_duplicates()
        for earlier in self._sparse:
            earlier.resize((n_workers, n_workers))
            table = table + earlier
        self._sparse = [table]


@dataclass(frozen=True)
class Pairs:
    """The pairs of one group of labels.

    Attributes:
        first, second: (pairs,) worker codes, first's label before second's in the task.
        count: (pairs,) 2³², plus one if the labels are the same.
        n_labels, n_triples: (workers,) labels and ordered pairs of distinct peers of each worker.
        n_sampled: tasks of which a part of the pairs is here.
    """

    first: Ints
    second: Ints
    count: Ints
    n_labels: Ints
    n_triples: Ints
    n_sampled: int


def pairs_of(labels: TaskLabels) -> Pairs:
    """Every pair of labels on one task; the labels of a task must be in the order of their worker ids."""
    sizes = labels.sizes
    firsts, seconds, counts = [], [], []
    n_sampled = 0
    for size in np.unique(sizes[sizes > 1]):
        starts = labels.starts[:-1][sizes == size]
        worker = labels.worker[starts + np.arange(size)[:, None]]
        label = labels.label[starts + np.arange(size)[:, None]]
        one, other = _places(int(size))
        n_sampled += len(starts) if len(one) < size * (size - 1) // 2 else 0
        firsts.append(worker[one].reshape(-1))
        seconds.append(worker[other].reshape(-1))
        counts.append(_COMMON + (label[one] == label[other]).astype(np.int64).reshape(-1))
    triples = np.repeat((sizes - 1) * (sizes - 2), sizes).astype(np.float64)
    return Pairs(
        np.concatenate(firsts) if firsts else np.zeros(0, np.int64),
        np.concatenate(seconds) if seconds else np.zeros(0, np.int64),
        np.concatenate(counts) if counts else np.zeros(0, np.int64),
        np.bincount(labels.worker, minlength=labels.n_workers),
        np.bincount(labels.worker, triples, minlength=labels.n_workers).astype(np.int64),
        n_sampled,
    )


def is_sampled(sizes: Ints) -> NDArray[np.bool_]:
    """Which tasks of so many labels have more pairs than are counted."""
    return sizes * (sizes - 1) // 2 > MAX_PAIRS


def _places(size: int) -> tuple[Ints, Ints]:
    """Which labels of a task of `size` labels are paired."""
    if not is_sampled(np.array(size)):
        one, other = np.triu_indices(size, 1)
        return one, other
    half = (size - 1) // 2
    n_distances = max(1, min(half, MAX_PAIRS // size))
    distances = 1 + np.arange(n_distances) * half // n_distances
    one = np.tile(np.arange(size), n_distances)
    other = (one + np.repeat(distances, size)) % size
    return np.minimum(one, other), np.maximum(one, other)


def sorted_pairs(
    first: Ints, second: Ints, n_common: Ints, n_agree: Ints, n_workers: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """The pairs in the order of (first, second), equal pairs added up, pairs whose counts are zero left out."""
    count = n_common * _COMMON + n_agree
    table = sp.coo_array((count, (first, second)), shape=(n_workers, n_workers)).tocsr()
    table.sum_duplicates()
    table.eliminate_zeros()
    return _unpacked(table.tocoo())


def _unpacked(table: sp.coo_array) -> tuple[Ints, Ints, Ints, Ints]:
    agree = (table.data + (_COMMON >> 1)) % _COMMON - (_COMMON >> 1)
    first, second = table.coords
    return first.astype(np.int64), second.astype(np.int64), (table.data - agree) // _COMMON, agree


def _grown(array: Ints, size: int) -> Ints:
    if len(array) >= size:
        return array
    grown = np.zeros(size, np.int64)
    grown[: len(array)] = array
    return grown
