"""Codes: names to numbers and back, in a list that grows as names appear."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Codes:
    """Numbers for names, given out from 0 in the order in which the names appear.

    >>> codes = Codes()
    >>> codes.of(pa.array(["bob", "ann"], pa.large_string())), codes.of(pa.array(["ann"], pa.large_string()))
    (array([0, 1]), array([1]))
    >>> codes.names([1]).to_pylist(), codes.ranks()
    (['ann'], array([1, 0]))
    """

    def __init__(self) -> None:
        self._code: defaultdict[str, int] = defaultdict()
        self._code.default_factory = self._code.__len__
        self._listed: NDArray[Any] = np.empty(0, object)
        self._ranks: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._code)

    def of(self, names: pa.LargeStringArray) -> Ints:
        """(names,) the number of each name; a new one gets the next number."""
        texts = names.to_numpy(zero_copy_only=False).tolist()
        return np.fromiter(map(self._code.__getitem__, texts), np.int64, len(texts))

    def find(self, names: pa.LargeStringArray) -> Ints:
        """(names,) the number of each name; -1 where there is none."""
        get = self._code.get
        return np.array([get(name, -1) for name in names.to_pylist()], np.int64)

    def names(self, codes: Any) -> pa.LargeStringArray:
        """(codes,) the names."""
        return pa.array(self._names()[np.asarray(codes, np.int64)], pa.large_string())

    def ranks(self) -> Ints:
        """(names,) the place of each name among all, sorted."""
        if len(self._ranks) != len(self._code):
            order = np.argsort(self._names(), kind="stable")
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks

    def _names(self) -> NDArray[Any]:
        n_listed = len(self._listed)
        if n_listed != len(self._code):
            room = np.empty(len(self._code), object)
            room[:] = list(self._code)
            self._listed = room
        return self._listed


class Column:
    """An array that grows at its end; `values` is a view of what is in it.

    >>> column = Column(np.int64)
    >>> column.append(np.array([1, 2]))
    >>> column.values
    array([1, 2])
    """

    def __init__(self, dtype: Any, fill: int = 0) -> None:
        self._room: NDArray[Any] = np.full(1024, fill, dtype)
        self._fill = fill
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        """What is in the column; writing to it changes the column."""
        return self._room[: self._size]

    def append(self, values: NDArray[Any]) -> None:
        """Puts `values` at the end."""
        start = self._size
        self.grow(start + len(values))
        self._room[start : self._size] = values

    def grow(self, size: int) -> None:
        """Makes the column at least `size` long; new places hold the fill value."""
        if size > len(self._room):
            room = np.full(max(size, 2 * len(self._room)), self._fill, self._room.dtype)
            room[: self._size] = self._room[: self._size]
            self._room = room
        self._size = max(size, self._size)
