"""The same labels as a frame of each library, and what comes out, read back as plain values."""

import pandas as pd
import polars as pl
import pyarrow as pa

COLUMNS = ["task", "worker", "label"]


def as_pandas(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def as_polars(rows):
    return pl.DataFrame(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def as_arrow(rows):
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def as_columns(rows):
    return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


KINDS = {"pandas": as_pandas, "polars": as_polars, "arrow": as_arrow, "columns": as_columns, "rows": list}


def by_id(found):
    """{id: value} of a result with one value an id."""
    if isinstance(found, pd.Series):
        return dict(zip(found.index.tolist(), found.tolist(), strict=True))
    if isinstance(found, pl.DataFrame):
        return dict(found.iter_rows())
    if isinstance(found, pa.Table):
        return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return dict(zip(*(list(column) for column in found.values()), strict=True))


def cells(found):
    """Every number of a frame with a column a class."""
    if isinstance(found, pd.DataFrame):
        return found.to_numpy().ravel().tolist()
    columns = found.to_dict(as_series=False) if isinstance(found, pl.DataFrame) else found
    columns = columns.to_pydict() if isinstance(columns, pa.Table) else columns
    return [value for name, column in columns.items() if name not in COLUMNS for value in column]
