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
_CELLS_PER_PAIR = 8
_ROUND_PAIRS = 4_000_000
_PAIRS_AT_ONCE = 1 << 18
_ROWS_AT_ONCE = 32
_COMMON_BITS = 32
_COMMON = 1 << _COMMON_BITS


@dataclass
class PairTally:
    """Adds up the pairs of many groups of labels that share their worker codes; threads may add at once.

    Counts are packed as common · 2³² + agreements: in a dense table while there are few workers and many
    pairs, else in a sparse one.
    """

    n_sampled: int = 0
    _dense: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    _sparse: sp.csr_array | None = None
    _pending: list[tuple["Pairs", int]] = field(default_factory=list)
    _n_labels: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _n_triples: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _seen: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _settling: threading.Lock = field(default_factory=threading.Lock)

    def add(self, labels: TaskLabels, sign: int = 1) -> None:
        """Adds the pairs of `labels`, or with the sign −1 takes them away.

        The labels of a task must be in the order of their worker ids.
        """
        sizes = labels.sizes
        triples = np.repeat((sizes - 1) * (sizes - 2), sizes).astype(np.float64)
        n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
        n_triples = np.bincount(labels.worker, triples, minlength=labels.n_workers).astype(np.int64)
        with self._lock:
            self.n_sampled += sign * int(is_sampled(sizes).sum())
            size = max(labels.n_workers, len(self._n_labels))
            self._n_labels, self._n_triples = _grown(self._n_labels, size), _grown(self._n_triples, size)
            self._seen = _grown(self._seen, size)
            self._n_labels[: labels.n_workers] += sign * n_labels
            self._n_triples[: labels.n_workers] += sign * n_triples
            self._seen[: labels.n_workers] += n_labels
        for pairs in pair_rounds(labels):
            self._add_pairs(pairs, sign)

    def by_worker(self, n_workers: int) -> tuple[Ints, Ints]:
        """(workers,) labels and ordered pairs of distinct peers."""
        return _grown(self._n_labels, n_workers), _grown(self._n_triples, n_workers)

    def seen(self) -> Ints:
        """Codes of the workers of whom a label was added or taken away."""
        return np.flatnonzero(self._seen)

    def pairs(self, order: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """(edges,) first worker, second worker, common tasks, agreements, sorted; pairs without either are left out.

        Workers are named by their places in `order`, which lists every worker code that was seen once.
        """
        self._settle(at_least=1)
        if self._sparse is None:
            return self._dense_pairs(order[order < len(self._dense)])
        place = np.zeros(len(self._n_labels), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        tables = [sp.coo_array(table) for table in (self._sparse, self._dense) if table.shape[0]]
        one, other = (np.concatenate([place[table.coords[axis]] for table in tables]) for axis in (0, 1))
        count = np.concatenate([table.data for table in tables])
        return _unpacked(_table_of(one, other, count, len(order)))

    def _dense_pairs(self, known: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The pairs of the dense table, some rows at a time: they stay in the processor's cache."""
        size, end = len(known), 0
        n_pairs = np.count_nonzero(self._dense)  # as many as there will be at most: no table is made twice
        first, second, count = (np.empty(n_pairs, np.int64) for _ in range(3))
        for at in range(0, size, _ROWS_AT_ONCE):
            rows = self._dense.take(known[at : at + _ROWS_AT_ONCE], axis=0).take(known, axis=1).reshape(-1)
            cell = np.flatnonzero(rows)
            here = slice(end, end := end + len(cell))
            count[here] = rows[cell]
            np.divmod(cell, size, out=(first[here], second[here]))
            first[here] += at
        first, second, count = first[:end], second[:end], count[:end]
        if np.any(first > second):  # worker codes were not in the order of the ids
            return _unpacked(_table_of(first, second, count, size))
        return first, second, *_counts_of(count)

    def _add_pairs(self, pairs: "Pairs", sign: int) -> None:
        with self._lock:
            n_workers = len(self._n_labels)
            self._pending.append((pairs, sign))
            n_pending = self._n_pending()
            few = n_pending < n_workers**2 // _CELLS_PER_PAIR  # a dense table would be empty for the most part
            if n_workers <= _DENSE_WORKERS and (len(self._dense) or not few):
                for one, its_sign in self._pending:
                    self._add_dense(one, its_sign, n_workers)
                self._pending.clear()
                return
            full = n_pending >= _ROUND_PAIRS
        if full:
            self._settle(at_least=_ROUND_PAIRS)

    def _n_pending(self) -> int:
        return sum(len(pairs.first) for pairs, _ in self._pending)

    def _add_dense(self, pairs: "Pairs", sign: int, n_workers: int) -> None:
        size = len(self._dense)
        if n_workers > size:
            room = min(_DENSE_WORKERS, max(64, n_workers + (n_workers // 4 if size else 0)))
            table = np.zeros((room, room), np.int64)
            table[:size, :size] = self._dense
            self._dense, size = table, room
        cell = pairs.first.astype(np.int64, copy=False) * size + pairs.second  # narrow codes would overflow
        np.add.at(self._dense.reshape(-1), cell, sign * (_COMMON + pairs.agree))

    def _settle(self, at_least: int) -> None:
        """Adds what is pending, if it is enough, to the sparse table; other threads may add pairs meanwhile."""
        with self._settling:
            with self._lock:
                if self._n_pending() < at_least:
                    return
                pending, self._pending = self._pending, []
                n_workers = len(self._n_labels)
            one = np.concatenate([pairs.first for pairs, _ in pending])
            other = np.concatenate([pairs.second for pairs, _ in pending])
            count = np.concatenate([sign * (_COMMON + pairs.agree) for pairs, sign in pending])
            del pending
            table = _table_of(one, other, count, n_workers)
            if self._sparse is not None:
                self._sparse.resize((n_workers, n_workers))
                table = table + self._sparse
            self._sparse = table


@dataclass(frozen=True)
class Pairs:
    """Some pairs of labels: (pairs,) the two worker codes, and whether the labels are the same."""

    first: NDArray[np.integer]
    second: NDArray[np.integer]
    agree: NDArray[np.bool_]


def pair_rounds(labels: TaskLabels) -> Iterator[Pairs]:
    """Every pair of labels on one task, at most about `_PAIRS_AT_ONCE` at a time, which bounds the memory."""
    sizes = labels.sizes
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        if size < 2:
            continue
        starts = labels.starts[:-1][sizes == size]
        one, other = _places(size)
        step = max(1, min(_PAIRS_AT_ONCE, _ROUND_PAIRS) // len(one))
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
    return _unpacked(_table_of(first, second, n_common * _COMMON + n_agree, n_workers))


def _table_of(one: NDArray[np.integer], other: NDArray[np.integer], count: Ints, n_workers: int) -> sp.csr_array:
    """The packed counts of pairs, sorted, equal pairs added up; the lower code of a pair is its row."""
    cells = (np.minimum(one, other), np.maximum(one, other))
    return sp.coo_array((count, cells), shape=(n_workers, n_workers)).tocsr()


def _unpacked(table: sp.csr_array) -> tuple[Ints, Ints, Ints, Ints]:
    """The pairs of a table, without those whose counts have come to nothing."""
    table.eliminate_zeros()
    first = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    return first, table.indices.astype(np.int64), *_counts_of(table.data)


def _counts_of(packed: Ints) -> tuple[Ints, Ints]:
    """Common tasks and agreements; both may be negative. `packed` becomes the agreements: no third array is made."""
    n_common = packed + (_COMMON >> 1)
    n_common >>= _COMMON_BITS
    for start in range(0, len(packed), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        packed[part] -= n_common[part] << _COMMON_BITS
    return n_common, packed


def _grown(array: Ints, size: int) -> Ints:
    if len(array) >= size:
        return array
    grown = np.zeros(size, np.int64)
    grown[: len(array)] = array
    return grown
