"""Codes: names to numbers and back, in a list that grows as names appear."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.blocks import hash_texts

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
_FREE, _NONE = np.uint64(0), -1
_ROOM = 4


class Codes:
    """Numbers for names, given out from 0 in the order in which the names appear.

    A table of hashes with open addressing, searched for a whole block at a time: three times as fast as a dictionary.
    What is found is compared with what was asked for. Two names with one hash, which may never happen, are told apart
    by a dictionary of such names.

    >>> codes = Codes()
    >>> codes.of(pa.array(["bob", "ann"], pa.large_string())), codes.of(pa.array(["ann"], pa.large_string()))
    (array([0, 1]), array([1]))
    >>> codes.names([1]).to_pylist(), codes.ranks()
    (['ann'], array([1, 0]))
    """

    def __init__(self) -> None:
        self._names, self._hashes = Column(object), Column(np.uint64)
        self._twins: dict[str, int] = {}
        self._ranks: Ints = np.empty(0, np.int64)
        self._place: Hashes = np.zeros(1024, np.uint64)
        self._code: Ints = np.full(1024, _NONE)

    def __len__(self) -> int:
        return len(self._names)

    def of(self, names: pa.LargeStringArray) -> Ints:
        """(names,) the number of each name; a new one gets the next number."""
        codes, hashes, texts, taken = self._search(names)
        if len(taken) > 1 or _again(hashes[codes == _NONE]).any():
            coded = names.dictionary_encode()
            if len(coded.dictionary) < len(names):  # a dictionary may name a worker twice: see `texts.codes_of`
                return np.asarray(self.of(coded.dictionary)[coded.indices.to_numpy()], np.int64)
        for place in taken.tolist():
            self._twins[texts[place]] = codes[place] = len(self)
            self._names.append(texts[place : place + 1])
            self._hashes.append(hashes[place : place + 1])
        new = np.flatnonzero(codes == _NONE)
        if len(new):
            fresh = hashes[new]
            codes[new] = len(self) + np.arange(len(new))
            same = _again(fresh)
            self._names.append(texts[new])
            self._hashes.append(fresh)
            for at in np.flatnonzero(same).tolist():  # one block, two new names, one hash
                self._twins[texts[new[at]]] = int(codes[new[at]])
            self._enter(fresh[~same], codes[new][~same])
        return codes

    def find(self, names: pa.LargeStringArray) -> Ints:
        """(names,) the number of each name; -1 where there is none."""
        return self._search(names)[0]

    def names(self, codes: Any) -> pa.LargeStringArray:
        """(codes,) the names."""
        return pa.array(self._names.values[np.asarray(codes, np.int64)], pa.large_string())

    def ranks(self) -> Ints:
        """(names,) the place of each name among all, sorted."""
        if len(self._ranks) != len(self):
            order = np.argsort(self._names.values, kind="stable")
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks

    def _search(self, names: pa.LargeStringArray) -> tuple[Ints, Hashes, NDArray[Any], Ints]:
        """(names,) numbers, -1 where there is none; hashes; texts; which have no number, but another name's hash."""
        texts = names.to_numpy(zero_copy_only=False)
        hashes = np.maximum(hash_texts(names), np.uint64(1))
        codes: Ints = np.full(len(hashes), _NONE)
        left, at = np.arange(len(hashes)), self._first(hashes)
        while len(left):
            there = self._place[at]
            hit = there == hashes[left]
            codes[left[hit]] = self._code[at[hit]]
            on = ~hit & (there != _FREE)
            left, at = left[on], (at[on] + 1) & (len(self._place) - 1)
        found = np.flatnonzero(codes != _NONE)
        wrong = found[self._names.values[codes[found]] != texts[found]]
        for place in wrong.tolist():
            codes[place] = self._twins.get(texts[place], _NONE)
        return codes, hashes, texts, wrong[codes[wrong] == _NONE]

    def _first(self, hashes: Hashes) -> Ints:
        """(hashes,) where the search begins."""
        first: Ints = ((hashes >> np.uint64(20)) & np.uint64(len(self._place) - 1)).astype(np.int64)
        return first

    def _enter(self, hashes: Hashes, codes: Ints) -> None:
        """Puts different hashes into the table, a larger one when it is half full."""
        if 2 * len(self) > len(self._place):
            self._place = np.zeros(1 << (_ROOM * len(self)).bit_length(), np.uint64)
            self._code = np.full(len(self._place), _NONE)
            codes = np.arange(len(self))
            hashes = self._hashes.values
            first = ~_again(hashes)
            hashes, codes = hashes[first], codes[first]
        at = self._first(hashes)
        while len(hashes):
            free = np.flatnonzero(self._place[at] == _FREE)
            self._place[at[free]] = hashes[free]
            lost = self._place[at] != hashes
            won = ~lost
            self._code[at[won]] = codes[won]
            hashes, codes, at = hashes[lost], codes[lost], (at[lost] + 1) & (len(self._place) - 1)


def _again(hashes: Hashes) -> NDArray[np.bool_]:
    """(hashes,) which have occurred before."""
    again = np.ones(len(hashes), bool)
    again[np.unique(hashes, return_index=True)[1]] = False
    return again


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

    def __len__(self) -> int:
        return self._size

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
