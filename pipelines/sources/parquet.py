"""Parquet: row groups in, columns out; ids of workers arrive dictionary-encoded."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.sources import READ_ERRORS, Chunk, FilePart, LazyChunk, as_array, is_damage, unreadable_block
from pipelines.sources.storage import open_file

ROWS_PER_PART = 1 << 20
_CODE_BYTES = 4


def columns_of(path: str) -> list[str]:
    """The names of the file's columns."""
    with open_file(path) as file:
        names = list(pq.ParquetFile(file).schema_arrow.names)
    if not names:
        raise ValueError("it has no columns")
    return names


def parts_of(path: str) -> list[tuple[int, tuple[int, int], int]]:
    """The file in parts of about `ROWS_PER_PART` records: (first record, row groups, records)."""
    with open_file(path) as file:
        sizes = _sizes(pq.ParquetFile(file))
    parts: list[tuple[int, tuple[int, int], int]] = []
    first, begin, rows = 0, 0, 0
    for number, size in enumerate(sizes):
        if rows and rows + size > ROWS_PER_PART:
            parts.append((first, (begin, number), rows))
            first, begin, rows = first + rows, number, 0
        rows += size
    return [*parts, (first, (begin, len(sizes)), rows)]


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; a damaged row group is one bad record."""
    yield lambda: _read(part)


def _sizes(table: pq.ParquetFile) -> list[int]:
    return [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]


def _read(part: FilePart) -> Chunk:
    columns = dict(part.columns)
    coded = [columns[name] for name in ("worker", "label") if name in columns]
    wanted = list(dict.fromkeys(columns.values()))
    with open_file(part.path) as file:
        table = _opened(file, coded, part.row_groups)
        begin, end = part.row_groups or (0, table.num_row_groups)
        try:
            found = table.read_row_groups(list(range(begin, end)), columns=wanted, use_threads=False)
        except READ_ERRORS as error:
            if not is_damage(error):
                raise
            return _read_groups(table, range(begin, end), part.first, columns)
    return Chunk(part.first, {name: as_array(found.column(column)) for name, column in columns.items()})


def _opened(file: Any, coded: list[str], groups: tuple[int, int] | None) -> pq.ParquetFile:
    """The file, with the texts of the columns `coded` dictionary-encoded; a struct is found under other names."""
    plain = pq.ParquetFile(file)
    try:
        coded = [name for name in coded if name not in _spelled_out(plain, groups)]
        return pq.ParquetFile(file, metadata=plain.metadata, read_dictionary=coded)
    except KeyError:
        return plain


def _spelled_out(table: pq.ParquetFile, groups: tuple[int, int] | None) -> set[str]:
    """The columns whose values are no dictionary codes in the file: to make codes of them here takes four times longer.

    A writer gives up a dictionary that grows too large, and says so nowhere; but a code takes fewer bytes than a text.
    """
    if not table.num_row_groups:
        return set()
    group = table.metadata.row_group(groups[0] if groups else 0)
    columns = [group.column(place) for place in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.total_uncompressed_size > _CODE_BYTES * one.num_values}


def _read_groups(table: Any, groups: range, first: int, columns: dict[str, str]) -> Chunk:
    """Row group by row group: what a damaged file still holds."""
    wanted = list(dict.fromkeys(columns.values()))
    sizes = _sizes(table)
    tables, bad, position = [], [], first
    positions: list[int] = []
    for group in groups:
        try:
            tables.append(table.read_row_groups([group], columns=wanted, use_threads=False))
            positions += range(position, position + sizes[group])
        except READ_ERRORS as error:
            if not is_damage(error):
                raise
            bad.append(unreadable_block(position, sizes[group], error))
        position += sizes[group]
    if not tables:
        return Chunk(first, {}, tuple(bad))
    found = pa.concat_tables(tables)
    fields = {name: as_array(found.column(column)) for name, column in columns.items()}
    return Chunk(first, fields, tuple(bad), positions)
