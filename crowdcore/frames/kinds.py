"""Which library a frame comes from, and what every library's frames can do here.

>>> opened = open_frame([("t1", "ann", "yes"), ("t1", "bob", "no")])
>>> opened.frames.names(opened.data)
['task', 'worker', 'label']
>>> codes, ids = opened.frames.encode(opened.data, "worker")
>>> codes.tolist(), opened.frames.values(ids)
([0, 1], ['ann', 'bob'])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdcore.errors import InvalidLabelsError
from crowdcore.labels import Ints
from crowdcore.weights import Floats

COLUMNS = ("task", "worker", "label")

Codes = NDArray[np.integer[Any]]


class Frames(Protocol):
    """What is done with the frames of one library. `ids` are distinct values in that library's own kind of array."""

    def names(self, data: Any) -> list[str]:
        """The columns."""

    def encode(self, data: Any, column: str) -> tuple[Codes, Any]:
        """(rows,) codes, -1 where the value is missing, and the ids they stand for, sorted; a few may be unused."""

    def listed(self, data: Any, column: str) -> list[Any]:
        """A column as a list."""

    def take(self, ids: Any, codes: Ints) -> Any:
        """The ids at `codes`, in their own type."""

    def values(self, ids: Any) -> list[Any]:
        """The ids as a list."""

    def series(self, values: Any, name: str, by: str, ids: Any) -> Any:
        """One value for each of `ids`: a series where the library has an index, else a table of two columns."""

    def matrix(self, values: Floats, classes: Any, name: str | None, by: Mapping[str, Any]) -> Any:
        """A column a class, with the columns `by` in front, or as the index where the library has one."""


@dataclass(frozen=True)
class Opened:
    """A frame and the functions for it."""

    frames: Frames
    data: Any


def open_frame(data: Any) -> Opened:
    """Finds out which library `data` comes from, by the module of its type."""
    library = _library_of(data)
    if library == "pandas" and hasattr(data, "columns"):
        from crowdcore.frames.with_pandas import PandasFrames

        return Opened(PandasFrames(), data)
    if library == "polars" and type(data).__name__ in ("DataFrame", "LazyFrame"):
        from crowdcore.frames.with_polars import PolarsFrames

        return Opened(PolarsFrames(), data.lazy().collect())
    if library == "pyarrow" and hasattr(data, "from_pydict"):
        from crowdcore.frames.with_arrow import ArrowFrames

        return Opened(ArrowFrames(type(data)), data)
    from crowdcore.frames.with_columns import PlainColumns

    if isinstance(data, Mapping):
        return Opened(PlainColumns(), data)
    if isinstance(data, Sequence) and not isinstance(data, str):
        return Opened(PlainColumns(), _columns_of_rows(data))
    raise InvalidLabelsError(
        f"the labels are {_article(type(data).__name__)}; give a data frame of pandas, polars or Arrow, a dict of "
        "columns, or a list of (task, worker, label)"
    )


def _library_of(data: Any) -> str:
    modules = [base.__module__.partition(".")[0] for base in type(data).__mro__]
    return next((name for name in modules if name in ("pandas", "polars", "pyarrow")), "")


def _columns_of_rows(rows: Sequence[Any]) -> dict[str, list[Any]]:
    if any(not isinstance(row, tuple | list) or len(row) != len(COLUMNS) for row in rows):
        raise InvalidLabelsError("a list of labels takes rows of three: (task, worker, label)")
    return {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def ranked(codes: Codes, order: Codes) -> Codes:
    """Codes after their ids were put in `order`; -1 stays -1.

    >>> ranked(np.array([0, 1, -1]), np.array([1, 0])).tolist()
    [1, 0, -1]
    """
    rank = np.full(len(order) + 1, -1, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[codes]


def mixed_order(values: Sequence[Any]) -> Ints:
    """An order for values that do not compare with each other: by the name of their type, then by their text.

    >>> mixed_order(["b", 2, "a"])
    array([1, 2, 0])
    """
    order = sorted(range(len(values)), key=lambda place: (type(values[place]).__name__, str(values[place])))
    return np.array(order, np.int64)


def distinct_names(classes: Sequence[Any], taken: Sequence[str]) -> list[str]:
    """Column names for classes where columns are called by strings: a name that is taken gets `_` appended.

    >>> distinct_names([1, "1", "task"], ["task"])
    ['1', '1_', 'task_']
    """
    names: list[str] = []
    for value in classes:
        name = str(value)
        while name in names or name in taken:
            name += "_"
        names.append(name)
    return names
