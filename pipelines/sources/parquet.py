"""Parquet: row groups in, columns out; ids of workers arrive dictionary-encoded."""

from collections.abc import Iterator

import pyarrow.parquet as pq

from pipelines.sources import Chunk, FilePart, LazyChunk, as_array
from pipelines.sources.storage import open_file

ROWS_PER_PART = 1 << 20


def columns_of(path: str) -> list[str]:
    """The names of the file's columns."""
    with open_file(path) as file:
        return list(pq.ParquetFile(file).schema_arrow.names)


def parts_of(path: str) -> list[tuple[int, tuple[int, int], int]]:
    """The file in parts of about `ROWS_PER_PART` records: (first record, row groups, records)."""
    with open_file(path) as file:
        metadata = pq.ParquetFile(file).metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    parts: list[tuple[int, tuple[int, int], int]] = []
    first, begin, rows = 0, 0, 0
    for number, size in enumerate(sizes):
        if rows and rows + size > ROWS_PER_PART:
            parts.append((first, (begin, number), rows))
            first, begin, rows = first + rows, number, 0
        rows += size
    return [*parts, (first, (begin, len(sizes)), rows)]


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`."""
    yield lambda: _read(part)


def _read(part: FilePart) -> Chunk:
    columns = dict(part.columns)
    coded = [columns[name] for name in ("worker", "label") if name in columns]
    with open_file(part.path) as file:
        table = pq.ParquetFile(file, read_dictionary=coded)
        begin, end = part.row_groups or (0, table.num_row_groups)
        wanted = list(dict.fromkeys(columns.values()))
        found = table.read_row_groups(list(range(begin, end)), columns=wanted, use_threads=False)
    return Chunk(part.first, {name: as_array(found.column(column)) for name, column in columns.items()})
