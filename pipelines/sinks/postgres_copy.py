"""Rows in the binary format of Postgres' COPY: a whole table at once, never row by row.

A row is the number of its fields (2 bytes), then each field's length (4 bytes, -1 for null) and its bytes; numbers have
their highest byte first. See https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.sinks.json_rows import json_objects

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
_FIXED = {pa.int64(): ">i8", pa.int32(): ">i4", pa.float64(): ">f8", pa.bool_(): "u1"}
_JSONB_VERSION = pa.scalar(b"\x01", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())
_NUL = "\x00"
_LONGEST, _KEPT = 1_300, 1_200  # bytes; a row of an index has 2,704 at most, and that of edges two ids


def copy_rows(table: pa.Table) -> tuple[list[str], pa.Buffer]:
    """The rows, without header and trailer, and the order in which their fields are.

    >>> columns, rows = copy_rows(pa.table({"task": ["a"], "n": [5]}))
    >>> columns, rows.to_pybytes().hex(" ", 4)
    (['n', 'task'], '000200 00000800 00000000 00000500 00000161')
    """
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    fixed = [name for name, array in columns.items() if array.type in _FIXED and not array.null_count]
    others = [name for name in columns if name not in fixed]
    parts = [_fixed_parts(table.num_rows, {name: columns[name] for name in fixed}, len(columns))]
    for name in others:
        data = _bytes_of(columns[name])
        lengths = pc.fill_null(pc.binary_length(data).cast(pa.int32()), -1)
        parts += [_plain(lengths.to_numpy().astype(">i4")), pc.fill_null(data, _NOTHING)]
    joined = pc.binary_join_element_wise(*parts, _NOTHING)
    length = pc.sum(pc.binary_length(joined)).as_py() or 0
    return [*fixed, *others], (joined.buffers()[2] or pa.py_buffer(b"")).slice(0, length)  # it may be too long


def without_nul(table: pa.Table) -> pa.Table:
    """The table with U+FFFD for every U+0000, which Postgres cannot store, also in the keys of maps."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_string(field.type):
            chunks = [_replaced(chunk) for chunk in column.chunks]
        elif pa.types.is_map(field.type):
            chunks = [_replaced_keys(chunk) for chunk in column.chunks]
        else:
            continue
        table = table.set_column(place, field, pa.chunked_array(chunks, field.type))
    return table


def with_short_ids(table: pa.Table, ids: Sequence[str]) -> pa.Table:
    """The table with ids that an index of Postgres can hold: of a longer one the beginning, and its SHA-256."""
    for name in ids:
        column = table.column(name)
        if pa.types.is_string(column.type) and len(column) and pc.max(pc.binary_length(column)).as_py() > _LONGEST:
            texts = [text if len(text.encode()) <= _LONGEST else _short(text) for text in column.to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(texts, pa.string()))
    return table


def _short(text: str) -> str:
    data = text.encode()
    return f"{data[:_KEPT].decode(errors='ignore')}…{hashlib.sha256(data).hexdigest()}"


def _fixed_parts(n_rows: int, columns: dict[str, pa.Array], n_fields: int) -> pa.Array:
    """The beginning of every row: the number of fields, and those that have one length throughout."""
    layout = [("fields", ">i2")]
    for place, array in enumerate(columns.values()):
        layout += [(f"length{place}", ">i4"), (f"value{place}", _FIXED[array.type])]
    rows = np.empty(n_rows, layout)
    rows["fields"] = n_fields
    for place, array in enumerate(columns.values()):
        rows[f"length{place}"] = np.dtype(_FIXED[array.type]).itemsize
        rows[f"value{place}"] = array.to_numpy(zero_copy_only=False)
    return _plain(rows)


def _bytes_of(array: pa.Array) -> pa.Array:
    """The bytes of each field that has a length of its own; null stays null."""
    if pa.types.is_map(array.type):
        texts = json_objects(array).cast(pa.binary()).cast(pa.large_binary())
        return pc.binary_join_element_wise(_JSONB_VERSION, texts, _NOTHING)
    if array.type in _FIXED:
        values = _plain(pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(_FIXED[array.type]))
        return pc.if_else(array.is_valid(), values, None)
    return array.cast(pa.binary()).cast(pa.large_binary())


def _plain(rows: Any) -> pa.Array:
    """The bytes of each element."""
    kind = pa.binary(rows.dtype.itemsize)
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)]).cast(pa.large_binary())


def _replaced(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(texts, _NUL)).as_py():
        return texts
    return pc.replace_substring(texts, _NUL, "\ufffd")


def _replaced_keys(maps: pa.MapArray) -> pa.Array:
    if maps.null_count == len(maps):
        return maps
    return pa.MapArray.from_arrays(maps.offsets, _replaced(maps.keys), maps.items, mask=maps.is_null())
