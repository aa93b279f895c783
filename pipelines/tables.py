"""Output rows in blocks: Arrow tables of the schemas, as bytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import schemas


def table_of(name: str, columns: Mapping[str, Any]) -> pa.Table:
    """A table of the record called `name`; a column that may be null may be left out, and all of an empty table.

    A column of texts may be dictionary-encoded; it stays so in blocks and is plain text in files.
    """
    schema = schemas.arrow_schema(name)
    n_rows = len(next(iter(columns.values()), ()))
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n_rows, f.type) for f in schema]
    arrays = [pa.array(array) if not isinstance(array, pa.Array) else array for array in arrays]
    arrays = [
        array if pa.types.is_dictionary(array.type) else array.cast(f.type)
        for array, f in zip(arrays, schema, strict=True)
    ]
    fields = [f.with_type(array.type) for array, f in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def reject_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rejects as a table."""
    names = ("record", "reason", "detail", "source", "position")
    return table_of("reject", {name: pa.array([row[name] for row in rows]) for name in names})


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(memoryview(sink.getvalue()))


def from_bytes(data: bytes) -> pa.Table:
    """The table of an Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def rows_of(name: str, data: bytes) -> Iterator[Any]:
    """The rows of a block, as the row type of the record called `name`."""
    row = schemas.row_type(name)
    for values in from_bytes(data).to_pylist(maps_as_pydicts="strict"):
        yield row(**values)
