"""Counting pairs: every two labels of a task, as fast as numpy goes.

A task with r labels has r (r − 1)/2 pairs. Above `MAX_PAIRS` a part of them is counted: with the labels in a circle, in
the order of their worker ids, each is paired with those at `MAX_PAIRS // r` distances spread evenly over half the
circle. The choice depends on the task's labels alone, and each worker keeps the same number of pairs.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels

MAX_PAIRS = 500_000
_DENSE_WORKERS = 4096
_ROUND_PAIRS = 4_000_000
_COMMON_BITS = 32
_COMMON = 1 << _COMMON_BITS


@dataclass
class PairTally:
    """Adds up the pairs of many groups of labels that share their worker codes; threads may add at once.

    Counts are packed as common · 2³² + agreements: in a dense table while there are few workers, else in a sparse one.
    """

    n_sampled: int = 0
    _dense: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _sparse: list[sp.csr_array] = field(default_factory=list)
    _pending: list["Pairs"] = field(default_factory=list)
    _n_labels: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _n_triples: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, labels: TaskLabels) -> None:
        """Adds the pairs of `labels`; the labels of a task must be in the order of their worker ids."""
        sizes = labels.sizes
        triples = np.repeat((sizes - 1) * (sizes - 2), sizes).astype(np.float64)
        n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
        n_triples = np.bincount(labels.worker, triples, minlength=labels.n_workers).astype(np.int64)
        with self._lock:
            self.n_sampled += int(is_sampled(sizes).sum())
            size = max(labels.n_workers, len(self._n_labels))
            self._n_labels, self._n_triples = _grown(self._n_labels, size), _grown(self._n_triples, size)
            self._n_labels[: labels.n_workers] += n_labels
            self._n_triples[: labels.n_workers] += n_triples
        for pairs in pair_rounds(labels):
            with self._lock:
                self._add_pairs(pairs)

    def by_worker(self, n_workers: int) -> tuple[Ints, Ints]:
        """(workers,) labels and ordered pairs of distinct peers."""
        return _grown(self._n_labels, n_workers), _grown(self._n_triples, n_workers)

    def pairs(self, order: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """(edges,) first worker, second worker, common tasks, agreements, sorted.

        Workers are named by their places in `order`, which lists every worker code that has a label once.
        """
        self._settle()
        if not self._sparse:
            known = order[order < len(self._dense)]
            table = self._dense.take(known, axis=0).take(known, axis=1)
            table += table.T.copy()
            for row in range(len(table)):  # in place, where np.triu would copy
                table[row, : row + 1] = 0
            cell = np.flatnonzero(table)
            first = cell // max(len(known), 1)
            return first, cell - first * len(known), *_counts_of(table.reshape(-1)[cell])
        place = np.zeros(len(self._n_labels), np.int64)
        place[order] = np.arange(len(order))
        tables = [sp.coo_array(table) for table in (*self._sparse, self._dense)]
        one, other, n_common, n_agree = (
            np.concatenate(columns) for columns in zip(*(_unpacked(table) for table in tables), strict=True)
        )
        one, other = place[one], place[other]
        return sorted_pairs(np.minimum(one, other), np.maximum(one, other), n_common, n_agree, len(order))

    def _add_pairs(self, pairs: "Pairs") -> None:
        n_workers = len(self._n_labels)
        if n_workers > _DENSE_WORKERS:
            self._pending.append(pairs)
            if sum(len(one.first) for one in self._pending) >= _ROUND_PAIRS:
                self._settle()
            return
        size = len(self._dense)
        if n_workers > size:
            room = min(_DENSE_WORKERS, max(64, n_workers + n_workers // 4))
            table = np.zeros((room, room), np.int64)
            table[:size, :size] = self._dense
            self._dense, size = table, room
        cell = pairs.first.astype(np.int64, copy=False) * size + pairs.second  # narrow codes would overflow
        np.add.at(self._dense.reshape(-1), cell, _COMMON + pairs.agree)

    def _settle(self) -> None:
        if not self._pending:
            return
        one = np.concatenate([pairs.first for pairs in self._pending])
        other = np.concatenate([pairs.second for pairs in self._pending])
        count = np.concatenate([_COMMON + pairs.agree for pairs in self._pending])
        self._pending = []
        n_workers = len(self._n_labels)
        cells = (np.minimum(one, other), np.maximum(one, other))
        table = sp.coo_array((count, cells), shape=(n_workers, n_workers)).tocsr()
        table.sum_duplicates()
        for earlier in self._sparse:
            earlier.resize((n_workers, n_workers))
            table = table + earlier
        self._sparse = [table]


@dataclass(frozen=True)
class Pairs:
    """Some pairs of labels: (pairs,) the two worker codes, and whether the labels are the same."""

    first: NDArray[np.integer]
    second: NDArray[np.integer]
    agree: NDArray[np.bool_]


def pair_rounds(labels: TaskLabels) -> Iterator[Pairs]:
    """Every pair of labels on one task, at most about `_ROUND_PAIRS` at a time."""
    sizes = labels.sizes
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        if size < 2:
            continue
        starts = labels.starts[:-1][sizes == size]
        one, other = _places(size)
        step = max(1, _ROUND_PAIRS // len(one))
        for at in range(0, len(starts), step):
            cell = starts[at : at + step] + np.arange(size)[:, None]
            worker, label = labels.worker[cell], labels.label[cell]
            yield Pairs(worker[one].reshape(-1), worker[other].reshape(-1), (label[one] == label[other]).reshape(-1))


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
    first, second = table.coords
    return first.astype(np.int64), second.astype(np.int64), *_counts_of(table.data)


def _counts_of(packed: Ints) -> tuple[Ints, Ints]:
    """Common tasks and agreements; both may be negative."""
    n_common = (packed + (_COMMON >> 1)) >> _COMMON_BITS
    return n_common, packed - (n_common << _COMMON_BITS)


def _grown(array: Ints, size: int) -> Ints:
    if len(array) >= size:
        return array
    grown = np.zeros(size, np.int64)
    grown[: len(array)] = array
    return grown
