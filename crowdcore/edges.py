"""The mergeable statistic: for each pair of workers, their common tasks and their agreements.

With N_ij the tasks that workers i and j both labelled and a_ij those on which they agree, the paper's
ΣY_iY_j is 2 a_ij − N_ij (two classes). Both are integers, so that sums are exact in any order; workers and pairs are
sorted, so that equal counts are equal arrays. `EdgeCounts` also carries what the intervals need beside the pairs: for
each worker the number of labels, and Σ (r − 1)(r − 2) over its tasks of r labels (ordered pairs of distinct peers).

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 1], n_tasks=2, n_workers=2, n_classes=2)
>>> edges = EdgeCounts.of(crowd.labels, workers=["ann", "bob"], classes=["no", "yes"])
>>> edges.n_common, edges.n_agree
(array([2]), array([1]))
>>> edges + EdgeCounts.zero() == edges
True
>>> edges - edges == EdgeCounts.zero()
True
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels
from crowdcore.pairs import PairTally, sorted_pairs

Names = NDArray[Any]
_Rest: TypeAlias = tuple[tuple[str, ...], int, tuple[int, ...]]  # the last fields of `EdgeCounts`
_FEW = 4  # so many times fewer pairs are added without sorting all


@dataclass(frozen=True, eq=False)
class EdgeCounts:
    """Pairwise agreement counts of a crowd; add, subtract, compare.

    Attributes:
        workers: (workers,) ids, sorted.
        n_labels: (workers,) tasks labelled.
        n_triples: (workers,) Σ (r − 1)(r − 2) over the worker's tasks, r the labels of the task.
        first, second: (edges,) positions in `workers`, first < second, sorted by (first, second).
        n_common, n_agree: (edges,) common tasks; those with the same label.
        classes: the labels seen, sorted.
        n_sampled: tasks with so many labels that only a part of their pairs was counted.
        n_by_class: how many labels each class has; one each when not given.
    """

    workers: Names
    n_labels: Ints
    n_triples: Ints
    first: Ints
    second: Ints
    n_common: Ints
    n_agree: Ints
    classes: tuple[str, ...]
    n_sampled: int = 0
    n_by_class: tuple[int, ...] = ()

    @classmethod
    def zero(cls) -> "EdgeCounts":
        """No workers, no pairs."""
        none = np.empty(0, np.int64)
        return cls(np.empty(0, object), none, none, none, none, none, none, ())

    @classmethod
    def of(cls, labels: TaskLabels, workers: Sequence[str] | Names, classes: Sequence[str]) -> "EdgeCounts":
        """Counts the pairs of `labels`, whose worker codes stand for `workers` and class codes for `classes`."""
        tally = PairTally()
        tally.add(labels)
        n_by_class = np.bincount(labels.label, minlength=len(classes)).tolist()
        return cls.from_tally(tally, workers, dict(zip(classes, n_by_class, strict=True)))

    @classmethod
    def from_tally(
        cls, tally: PairTally, workers: Sequence[str] | Names, n_by_class: Mapping[str, int]
    ) -> "EdgeCounts":
        """The counts of `tally`, whose worker codes stand for `workers`; who and what has no label is left out."""
        names = np.asarray(workers, object)
        seen = tally.seen()
        rank = seen[np.argsort(names[seen], kind="stable")]
        n_labels, n_triples = (counts[rank] for counts in tally.by_worker(len(names)))
        return cls._of_present(names[rank], n_labels, n_triples, tally.pairs(rank), _split(n_by_class, tally.n_sampled))

    @classmethod
    def sum(cls, parts: Iterable["EdgeCounts"]) -> "EdgeCounts":
        """All `parts` together."""
        return cls._combine([(part, 1) for part in parts])

    def __add__(self, other: "EdgeCounts") -> "EdgeCounts":
        return self._combine([(self, 1), (other, 1)])

    def __sub__(self, other: "EdgeCounts") -> "EdgeCounts":
        return self._combine([(self, 1), (other, -1)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EdgeCounts):
            return NotImplemented
        return (self.n_sampled, self.class_counts) == (other.n_sampled, other.class_counts) and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self.arrays(), other.arrays(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays."""
        return (
            self.workers, self.n_labels, self.n_triples, self.first, self.second, self.n_common, self.n_agree,
        )  # fmt: skip

    @property
    def class_counts(self) -> dict[str, int]:
        """How many labels each class has."""
        return dict(zip(self.classes, self.n_by_class or (1,) * len(self.classes), strict=True))

    @property
    def n_workers(self) -> int:
        """How many workers there are."""
        return len(self.workers)

    @property
    def n_edges(self) -> int:
        """How many pairs of workers have a common task."""
        return len(self.first)

    def find(self, first: Ints, second: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """(pairs,) where pairs of places of workers are among the edges, or would come, and which of them are there.

        Where a worker has met all later ones the place of a pair is known; else its edges are searched by halves.
        """
        starts = np.searchsorted(self.first, np.arange(self.n_workers + 1))
        low, high = starts[first], starts[first + 1]
        at = np.minimum(low + second - first - 1, high)
        known = self._holds(at, high, second)
        left = np.flatnonzero(~known)
        at[left] = self._searched(low[left], high[left], second[left])
        known[left] = self._holds(at[left], high[left], second[left])
        return at, known

    def _holds(self, at: Ints, end: Ints, second: Ints) -> NDArray[np.bool_]:
        """(places,) which are before their ends and have these second workers."""
        held: NDArray[np.bool_] = at < end
        held[held] = self.second[at[held]] == second[held]
        return held

    def _searched(self, low: Ints, high: Ints, second: Ints) -> Ints:
        """(pairs,) the first place from `low` to `high` whose second worker is not before `second`; `high` if none."""
        while np.any(low < high):
            middle = (low + high) >> 1
            before = low < high
            before[before] = self.second[middle[before]] < second[before]
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return low

    @classmethod
    def _combine(cls, parts: Sequence[tuple["EdgeCounts", int]]) -> "EdgeCounts":
        parts = [(part, sign) for part, sign in parts if part.n_workers or part.n_sampled or part.classes]
        if not parts:
            return cls.zero()
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        if len(parts) == 2 and parts[0][1] == 1 and _FEW * parts[1][0].n_edges < parts[0][0].n_edges:
            together = cls._with_few(parts[0][0], *parts[1])
            if together is not None:
                return together
        names, where = np.unique(np.concatenate([part.workers for part, _ in parts]), return_inverse=True)
        places = np.split(where, np.cumsum([part.n_workers for part, _ in parts])[:-1])
        n_labels, n_triples = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
        for (part, sign), place in zip(parts, places, strict=True):
            n_labels[place] += sign * part.n_labels
            n_triples[place] += sign * part.n_triples
        first = np.concatenate([place[part.first] for (part, _), place in zip(parts, places, strict=True)])
        second = np.concatenate([place[part.second] for (part, _), place in zip(parts, places, strict=True)])
        n_common = np.concatenate([sign * part.n_common for part, sign in parts])
        n_agree = np.concatenate([sign * part.n_agree for part, sign in parts])
        first, second, n_common, n_agree = sorted_pairs(first, second, n_common, n_agree, len(names))
        return cls._of_present(names, n_labels, n_triples, (first, second, n_common, n_agree), _together(parts))

    @classmethod
    def _of_present(
        cls, names: Names, n_labels: Ints, n_triples: Ints, pairs: tuple[Ints, Ints, Ints, Ints], rest: "_Rest"
    ) -> "EdgeCounts":
        """The counts, without the workers of whom there is nothing to count."""
        first, second, n_common, n_agree = pairs
        stays = (n_labels != 0) | (n_triples != 0)
        if not stays.all():
            stays[first] = stays[second] = True  # a corrected label changes pairs and no worker's counts
        if stays.all():
            return cls(names, n_labels, n_triples, first, second, n_common, n_agree, *rest)
        position = np.cumsum(stays) - 1
        return cls(
            names[stays], n_labels[stays], n_triples[stays], position[first], position[second], n_common, n_agree, *rest
        )

    @classmethod
    def _with_few(cls, many: "EdgeCounts", few: "EdgeCounts", sign: int) -> "EdgeCounts | None":
        """The same for counts of few pairs, without sorting all of them; None when a worker comes or goes."""
        place = np.searchsorted(many.workers, few.workers)
        if len(place) and (place[-1] >= many.n_workers or not np.array_equal(many.workers[place], few.workers)):
            return None
        n_labels, n_triples = many.n_labels.copy(), many.n_triples.copy()
        n_labels[place] += sign * few.n_labels
        n_triples[place] += sign * few.n_triples
        if not n_labels.all():
            return None
        at, known = many.find(place[few.first], place[few.second])
        there = at[known]
        n_common = many.n_common[there] + sign * few.n_common[known]
        n_agree = many.n_agree[there] + sign * few.n_agree[known]
        stays = (n_common != 0) | (n_agree != 0)
        rest = _together([(many, 1), (few, sign)])
        if known.all() and stays.all():
            all_common, all_agree = many.n_common.copy(), many.n_agree.copy()
            all_common[there], all_agree[there] = n_common, n_agree
            return cls(many.workers, n_labels, n_triples, many.first, many.second, all_common, all_agree, *rest)
        pairs = _Rearranged.of(many.n_edges, gone=there[~stays], new=at[~known])
        all_common = pairs.with_new(many.n_common, sign * few.n_common[~known])
        all_agree = pairs.with_new(many.n_agree, sign * few.n_agree[~known])
        changed = pairs.now(there[stays])
        all_common[changed], all_agree[changed] = n_common[stays], n_agree[stays]
        return cls(
            many.workers, n_labels, n_triples,
            pairs.with_new(many.first, place[few.first[~known]]),
            pairs.with_new(many.second, place[few.second[~known]]),
            all_common, all_agree, *rest,
        )  # fmt: skip


@dataclass(frozen=True)
class _Rearranged:
    """Where the numbers of a long array go when some leave it and others come between.

    Attributes:
        gone: places of those that leave, sorted.
        new: before which places others come, sorted.
        source: (after,) where the numbers were before; anything for those that come.
        put: where those that come are.
    """

    gone: Ints
    new: Ints
    source: Ints
    put: Ints

    @classmethod
    def of(cls, size: int, gone: Ints, new: Ints) -> "_Rearranged":
        cut = np.concatenate([new, gone])
        order = np.argsort(cut, kind="stable")
        cut, comes = cut[order], order < len(new)
        starts, ends = np.append(0, cut + ~comes), np.append(cut, size)  # of what stays together
        lengths = ends - starts + np.append(comes, False)
        after = np.cumsum(lengths)
        source = np.arange(after[-1]) + np.repeat(starts - (after - lengths), lengths)
        return cls(gone, new, source, after[:-1][comes] - 1)

    def now(self, places: Ints) -> Ints:
        """Where those are now that were at `places` and stay."""
        return places - np.searchsorted(self.gone, places) + np.searchsorted(self.new, places, side="right")

    def with_new(self, old: Ints, new: Ints) -> Ints:
        """The array without those that leave and with those that come."""
        found: Ints = old.take(self.source, mode="clip")
        found[self.put] = new
        return found


def _together(parts: Sequence[tuple[EdgeCounts, int]]) -> _Rest:
    """The last fields of the sum of `parts`."""
    n_by_class: Counter[str] = Counter()
    for part, sign in parts:
        for name, n in part.class_counts.items():
            n_by_class[name] += sign * n
    return _split(n_by_class, sum(sign * part.n_sampled for part, sign in parts))


def _split(n_by_class: Mapping[str, int], n_sampled: int) -> _Rest:
    """The last fields of `EdgeCounts`; classes without a label are left out."""
    found = sorted((name, n) for name, n in n_by_class.items() if n)
    return tuple(name for name, _ in found), n_sampled, tuple(n for _, n in found)
