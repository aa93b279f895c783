"""pandas frames: ids are an Index, so that every type that pandas has comes out as it went in."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdcore.frames.kinds import Codes, mixed_order, ranked
from crowdcore.labels import Ints
from crowdcore.weights import Floats


class PandasFrames:
    """See `crowdcore.frames.kinds.Frames`."""

    def names(self, data: Any) -> list[str]:
        """The columns."""
        return [name for name in data.columns if isinstance(name, str)]

    def encode(self, data: Any, column: str) -> tuple[Codes, Any]:
        """Categories keep their order; other values are sorted."""
        codes, ids = data[column].factorize()
        missing = np.asarray(ids.isna(), bool)
        if missing.any():  # an Arrow column of floats tells NaN from null
            codes = np.where(np.append(missing, True)[codes], -1, codes)
        try:
            order = np.asarray(ids.argsort(), np.int64)
        except TypeError:
            order = mixed_order(ids.tolist())
        return ranked(codes, order), ids.take(order)

    def listed(self, data: Any, column: str) -> list[Any]:
        """A column as a list."""
        return list(data[column].tolist())

    def take(self, ids: Any, codes: Ints) -> Any:
        """The ids at `codes`."""
        return ids.take(codes)

    def values(self, ids: Any) -> list[Any]:
        """The ids as a list."""
        return list(ids.tolist())

    def series(self, values: Any, name: str, by: str, ids: Any) -> Any:
        """A Series called `name`, whose index is called `by`."""
        import pandas as pd

        return pd.Series(values, index=ids.rename(by), name=name)

    def matrix(self, values: Floats, classes: Any, name: str | None, by: Mapping[str, Any]) -> Any:
        """A DataFrame; several ids in `by` make a MultiIndex."""
        import pandas as pd

        named = [ids.rename(key) for key, ids in by.items()]
        index = named[0] if len(named) == 1 else pd.MultiIndex.from_arrays(named)
        return pd.DataFrame(values, index=index, columns=classes.rename(name))
