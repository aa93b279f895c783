"""polars frames: they have no index, so what pandas has as an index comes as columns in front."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdcore.errors import InvalidLabelsError
from crowdcore.frames.kinds import Codes, distinct_names
from crowdcore.labels import Ints
from crowdcore.weights import Floats


class PolarsFrames:
    """See `crowdcore.frames.kinds.Frames`; ids are a Series."""

    def names(self, data: Any) -> list[str]:
        """The columns."""
        return list(data.columns)

    def encode(self, data: Any, column: str) -> tuple[Codes, Any]:
        """The values of an Enum keep their order; others are sorted."""
        import polars as pl

        values = data[column].alias("id")
        if values.dtype == pl.Object:
            raise InvalidLabelsError(f"the column {column!r} holds Python objects; give it a type, say pl.String")
        if values.dtype.is_float():
            values = values.fill_nan(None)
        ids = values.drop_nulls().unique().sort()
        if not len(ids):
            return np.full(len(values), -1), ids
        coded = values.to_frame().join(
            ids.to_frame().with_row_index("code"), on="id", how="left", maintain_order="left"
        )  # fmt: skip
        return coded["code"].cast(pl.Int64).fill_null(-1).to_numpy(), ids

    def listed(self, data: Any, column: str) -> list[Any]:
        """A column as a list."""
        return list(data[column].to_list())

    def take(self, ids: Any, codes: Ints) -> Any:
        """The ids at `codes`."""
        return ids.gather(codes)

    def values(self, ids: Any) -> list[Any]:
        """The ids as a list."""
        return list(ids.to_list())

    def series(self, values: Any, name: str, by: str, ids: Any) -> Any:
        """A DataFrame with the columns `by` and `name`."""
        import polars as pl

        return pl.DataFrame({by: ids, name: values})

    def matrix(self, values: Floats, classes: Any, name: str | None, by: Mapping[str, Any]) -> Any:
        """A DataFrame with the columns `by`, then one a class."""
        import polars as pl

        names = distinct_names(self.values(classes), list(by))
        return pl.DataFrame({**by, **{key: values[:, place] for place, key in enumerate(names)}})
