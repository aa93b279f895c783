"""Names to numbers: many look-ups in one growing list of names.

Arrow builds its hash table anew at every look-up; with many workers and many shards that costs more than all else.
Here the list is kept sorted by a hash of the names, with a table of where the hashes of each beginning start. What is
found is compared with what was asked for, so that two names with one hash are told apart: Arrow decides then.
"""

import threading
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.blocks import hash_texts

_HIGHEST = np.uint64(np.iinfo(np.uint64).max)


class NameIndex:
    """A list of distinct names that can be searched and can grow.

    >>> index = NameIndex(pa.array(["ann", "bob"], pa.large_string()))
    >>> index.find(pa.array(["bob", "cem"], pa.large_string()))
    array([ 1, -1])
    >>> index.place(pa.array(["cem", "ann"], pa.large_string()))
    array([2, 0])
    """

    def __init__(self, names: pa.LargeStringArray | None = None) -> None:
        self._known = _Sorted.of(pa.array([], pa.large_string()) if names is None else names)
        self._growing = threading.Lock()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def names(self) -> pa.LargeStringArray:
        """The list."""
        return self._known.names

    def find(self, names: pa.LargeStringArray) -> NDArray[np.int64]:
        """(names,) where each name stands in the list; -1 for those that are not there."""
        return self._known.find(names, hash_texts(names))

    def place(self, names: pa.LargeStringArray) -> NDArray[np.int64]:
        """(names,) as `find`; names that are not in the list are put at its end. Threads may do so at once."""
        hashes = hash_texts(names)
        found = self._known.find(names, hashes)
        if (found >= 0).all():
            return found
        with self._growing:
            found = self._known.find(names, hashes)
            fresh = names.filter(pa.array(found < 0)).unique()
            self._known = self._known.grown(fresh)
            return self._known.find(names, hashes)


@dataclass(frozen=True)
class _Sorted:
    """Names by their hashes.

    Attributes:
        names: the list.
        hashes: (names + 1,) in order; the last is the highest there can be, so that a search ends there.
        order: (names + 1,) which name each hash is of, -1 at the end.
        starts: (beginnings,) where the hashes of each beginning, their first bits, start.
        shift: what is left of a hash when it is shifted by so much is its beginning.
    """

    names: pa.LargeStringArray
    hashes: NDArray[np.uint64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    shift: np.uint64

    @classmethod
    def of(cls, names: pa.LargeStringArray) -> "_Sorted":
        hashes = hash_texts(names)
        order = np.argsort(hashes)
        return cls._over(names, hashes[order], order)

    @classmethod
    def _over(cls, names: pa.LargeStringArray, hashes: NDArray[np.uint64], order: NDArray[np.int64]) -> "_Sorted":
        bits = max(1, len(names).bit_length())
        shift = np.uint64(64 - bits)
        counts = np.bincount((hashes >> shift).view(np.int64), minlength=1 << bits)
        return cls(names, np.append(hashes, _HIGHEST), np.append(order, -1), np.cumsum(counts) - counts, shift)

    def grown(self, fresh: pa.LargeStringArray) -> "_Sorted":
        """The same with `fresh`, which are distinct and new, at the end."""
        hashes = np.concatenate([self.hashes[:-1], hash_texts(fresh)])
        order = np.concatenate([self.order[:-1], np.arange(len(self.names), len(hashes))])
        merged = np.argsort(hashes, kind="stable")  # quick, since most of them are in order
        return self._over(pa.concat_arrays([self.names, fresh]), hashes[merged], order[merged])

    def find(self, names: pa.LargeStringArray, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        at = self.starts[(hashes >> self.shift).view(np.int64)]
        behind = np.flatnonzero(self.hashes[at] < hashes)
        while len(behind):
            at[behind] += 1
            behind = behind[self.hashes[at[behind]] < hashes[behind]]
        found = np.where(self.hashes[at] == hashes, self.order[at], -1)
        known = found >= 0
        asked = names if known.all() else names.filter(pa.array(known))
        if self.names.take(pa.array(found[known])).equals(asked):
            return found
        return np.asarray(pc.index_in(names, value_set=self.names).fill_null(-1).to_numpy(), np.int64)
