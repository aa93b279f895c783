"""Plain columns: a dict of lists or arrays in, a dict of arrays out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.errors import InvalidLabelsError
from crowdcore.frames.kinds import Codes, distinct_names, mixed_order, ranked
from crowdcore.labels import Ints
from crowdcore.weights import Floats

_PLAIN = (bool, int, float)


class PlainColumns:
    """See `crowdcore.frames.kinds.Frames`; ids are a numpy array."""

    def names(self, data: Any) -> list[str]:
        """The columns."""
        return [name for name in data if isinstance(name, str)]

    def encode(self, data: Any, column: str) -> tuple[Codes, Any]:
        """Values that are None or not a number are missing; values that Python calls equal are one."""
        values = data[column]
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuUSM":
            ids, codes = np.unique(values, return_inverse=True)
            missing = np.isnat(ids) if ids.dtype.kind == "M" else np.zeros(len(ids), bool)
            return np.where(missing[codes], -1, codes), ids
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise InvalidLabelsError(f"the column {column!r} is {values!r}; it takes a list or an array")
        rows = values.tolist() if isinstance(values, np.ndarray) else list(values)
        place: dict[Any, int] = {}
        codes = np.fromiter(
            (-1 if value is None or value != value else place.setdefault(value, len(place)) for value in rows),
            np.int64, len(rows),
        )  # fmt: skip
        ids = _array(list(place))
        try:
            order = np.argsort(ids, kind="stable")
        except TypeError:
            order = mixed_order(list(place))
        return ranked(codes, order), ids[order]

    def listed(self, data: Any, column: str) -> list[Any]:
        """A column as a list."""
        return list(data[column])

    def take(self, ids: Any, codes: Ints) -> Any:
        """The ids at `codes`."""
        return ids[codes]

    def values(self, ids: Any) -> list[Any]:
        """The ids as a list."""
        return list(ids.tolist())

    def series(self, values: Any, name: str, by: str, ids: Any) -> Any:
        """A dict with the columns `by` and `name`."""
        return {by: ids, name: values}

    def matrix(self, values: Floats, classes: Any, name: str | None, by: Mapping[str, Any]) -> Any:
        """A dict with the columns `by`, then one a class."""
        names = distinct_names(self.values(classes), list(by))
        return {**by, **{key: values[:, place] for place, key in enumerate(names)}}


def _array(values: list[Any]) -> NDArray[Any]:
    """Numbers of one type as an array of that type, everything else as objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= set(_PLAIN):
        return np.array(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array
