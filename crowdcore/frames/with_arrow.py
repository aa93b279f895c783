"""Arrow tables and record batches: they have no index, so what pandas has as an index comes as columns in front.

Everything goes through the methods of the caller's own objects: this package does not import pyarrow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdcore.frames.kinds import Codes, distinct_names, mixed_order, ranked
from crowdcore.labels import Ints
from crowdcore.weights import Floats


@dataclass(frozen=True)
class ArrowFrames:
    """See `crowdcore.frames.kinds.Frames`; ids are an Array, dictionary-encoded if the column was.

    Attributes:
        table_type: Table or RecordBatch, which comes out again.
    """

    table_type: Any

    def names(self, data: Any) -> list[str]:
        """The columns."""
        return list(data.schema.names)

    def encode(self, data: Any, column: str) -> tuple[Codes, Any]:
        """The values of an ordered dictionary keep their order; others are sorted."""
        values = data.column(column)
        if values.null_count == len(values):  # also a column without a type
            return np.full(len(values), -1), values.slice(0, 0)
        encoded = values.dictionary_encode()
        if hasattr(encoded, "unify_dictionaries"):
            encoded = encoded.unify_dictionaries().combine_chunks()
        given = data.schema.field(column).type
        codes: Codes = _codes_of(encoded.indices)
        ids = encoded.dictionary
        if hasattr(given, "ordered"):  # a dictionary from elsewhere: it may hold nulls, or a value twice
            again = ids.dictionary_encode()
            codes, ids = np.append(_codes_of(again.indices), -1)[codes], again.dictionary
        codes = np.where(np.append(_missing(ids), True)[codes], -1, codes)
        if not getattr(given, "ordered", False):
            order = _order_of(ids)
            codes, ids = ranked(codes, order), ids.take(order)
        return codes, ids.dictionary_encode() if hasattr(given, "ordered") else ids

    def listed(self, data: Any, column: str) -> list[Any]:
        """A column as a list."""
        return list(data.column(column).to_pylist())

    def take(self, ids: Any, codes: Ints) -> Any:
        """The ids at `codes`."""
        return ids.take(codes)

    def values(self, ids: Any) -> list[Any]:
        """The ids as a list."""
        return list(ids.to_pylist())

    def series(self, values: Any, name: str, by: str, ids: Any) -> Any:
        """A table with the columns `by` and `name`."""
        return self.table_type.from_pydict({by: ids, name: values})

    def matrix(self, values: Floats, classes: Any, name: str | None, by: Mapping[str, Any]) -> Any:
        """A table with the columns `by`, then one a class."""
        names = distinct_names(self.values(classes), list(by))
        columns = {key: np.ascontiguousarray(values[:, place]) for place, key in enumerate(names)}
        return self.table_type.from_pydict({**by, **columns})


def _codes_of(indices: Any) -> Ints:
    return np.asarray(indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _missing(ids: Any) -> Any:
    """(ids,) whether the value is null or not a number."""
    null = ids.is_null().to_numpy(zero_copy_only=False)
    values = ids.to_numpy(zero_copy_only=False) if str(ids.type) in ("halffloat", "float", "double") else None
    return null if values is None else null | np.isnan(values.astype(np.float64))


def _order_of(ids: Any) -> Ints:
    try:
        return np.argsort(ids.to_numpy(zero_copy_only=False), kind="stable")
    except TypeError:
        return mixed_order(ids.to_pylist())
