"""Names to numbers: many look-ups in one growing list of names.

Arrow builds its hash table anew at every look-up; with many workers and many shards that costs more than all else.
Here the list is kept sorted by a hash of the names. What is found is compared with what was asked for, so that two
names with one hash are told apart: Arrow decides then.
"""

from typing import Any

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
        self.names = pa.array([], pa.large_string()) if names is None else names
        self._sort()

    def __len__(self) -> int:
        return len(self.names)

    def find(self, names: pa.LargeStringArray) -> NDArray[np.int64]:
        """(names,) where each name stands in the list; -1 for those that are not there."""
        if not len(self.names):
            return np.full(len(names), -1)
        hashes = hash_texts(names)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        found = np.where(self._hashes[at] == hashes, self._order[at], -1)
        known = found >= 0
        asked = names if known.all() else names.filter(pa.array(known))
        if self.names.take(pa.array(found[known])).equals(asked):
            return found
        return np.asarray(pc.index_in(names, value_set=self.names).fill_null(-1).to_numpy(), np.int64)

    def place(self, names: pa.LargeStringArray) -> NDArray[np.int64]:
        """(names,) as `find`; names that are not in the list are put at its end."""
        found = self.find(names)
        if (found >= 0).all():
            return found
        fresh = names.filter(pa.array(found < 0)).unique()
        self.names = pa.concat_arrays([self.names, fresh])
        self._sort()
        return self.find(names)

    def _sort(self) -> None:
        hashes = hash_texts(self.names)
        self._order: NDArray[Any] = np.argsort(hashes)
        self._hashes = hashes[self._order]
