"""Names to numbers: many look-ups in one growing list of names.

Arrow builds its hash table anew at every look-up; with many workers and many shards that costs more than all else.
Here the list is kept sorted by a hash of the names. What is found is compared with what was asked for, so that two
names with one hash are told apart: Arrow decides then.
"""

import threading
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.blocks import hash_texts


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
            self._known = _Sorted.of(pa.concat_arrays([self.names, fresh]))
            return self._known.find(names, hashes)


@dataclass(frozen=True)
class _Sorted:
    """Names, their hashes in order, and which name each hash is of."""

    names: pa.LargeStringArray
    hashes: NDArray[np.uint64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, names: pa.LargeStringArray) -> "_Sorted":
        hashes = hash_texts(names)
        order = np.argsort(hashes)
        return cls(names, hashes[order], order)

    def find(self, names: pa.LargeStringArray, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        if not len(self.names):
            return np.full(len(names), -1)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        found = np.where(self.hashes[at] == hashes, self.order[at], -1)
        known = found >= 0
        asked = names if known.all() else names.filter(pa.array(known))
        if self.names.take(pa.array(found[known])).equals(asked):
            return found
        return np.asarray(pc.index_in(names, value_set=self.names).fill_null(-1).to_numpy(), np.int64)
