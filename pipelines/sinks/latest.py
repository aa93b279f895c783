"""What holds: of several rows of an id the one with the highest revision; of the graph the rows written together last.

A verdict on the graph is always written whole. A row of it that has a lower revision is of a component that is no more.
"""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import schemas
from pipelines.sinks import KEYS

_REJECT_KEY = ("source", "position", "reason", "record")  # a place may have several, or not be known


def rows_schema(name: str) -> pa.Schema:
    """The columns of the stream's table `name`.

    >>> rows_schema("skills").names[-3:], "revision" in rows_schema("rejects").names
    (['model_version', 'revision', 'closed'], False)
    """
    record = schemas.TABLES[name]
    return schemas.arrow_schema(record) if name == "rejects" else schemas.stream_schema(record)


def as_rows(name: str, table: pa.Table) -> pa.Table:
    """`table` with the columns of `name`; texts that are dictionary-encoded become plain."""
    schema = rows_schema(name)
    return table.select(schema.names).cast(schema)


def latest(name: str, table: pa.Table) -> pa.Table:
    """The row of each id with the highest revision, in the order of ids; of the rejects each once.

    Of the graph only rows that have the highest revision of all.

    >>> from pipelines.tables import table_of
    >>> latest("rejects", pa.concat_tables(2 * [table_of("reject", {
    ...     "record": ["{"], "reason": ["not-json"], "detail": [""], "source": ["a"], "position": [0]})])).num_rows
    1
    """
    if name == "graph" and table.num_rows:
        table = table.filter(pc.equal(table["revision"], pc.max(table["revision"])))
    ids = _REJECT_KEY if name == "rejects" else KEYS[name]
    order = [*ids] if name == "rejects" else [*ids, "revision"]
    keys = pl.DataFrame(pl.from_arrow(table.select(order))).with_row_index("place")
    places = keys.sort(order, maintain_order=True).unique(ids, keep="last", maintain_order=True)["place"]
    return table.take(places.to_arrow())
