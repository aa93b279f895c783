"""CSV and TSV: the first line names the columns; values are texts, never guessed at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from pipelines.sources import BadRecord, Chunk, FilePart, LazyChunk, as_array
from pipelines.sources.storage import compression_of, open_stream

BLOCK_BYTES = 32 << 20
_PEEK_BYTES = 1 << 20


def columns_of(path: str) -> list[str]:
    """The names in the first line."""
    with open_stream(path) as stream:
        head = stream.read(_PEEK_BYTES)
    line = head.split(b"\n", 1)[0]
    reader = pc.open_csv(pa.BufferReader(line + b"\n"), parse_options=_parse_options(path))
    return list(reader.schema.names)


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; a line with too few or too many values is a bad record."""
    columns = dict(part.columns)
    wanted = list(dict.fromkeys(columns.values()))
    skipped: list[Any] = []

    def skip(row: Any) -> str:
        skipped.append(row)
        return "skip"

    with open_stream(part.path) as stream:
        reader = pc.open_csv(
            stream,
            read_options=pc.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            parse_options=_parse_options(part.path, skip),
            convert_options=pc.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(wanted, pa.binary()),
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )
        first = 0
        for batch in reader:
            bad = [_bad_line(row) for row in skipped]
            skipped.clear()
            n_records = batch.num_rows + len(bad)
            positions = np.setdiff1d(np.arange(first, first + n_records), [record.position for record in bad])
            fields = {name: as_array(batch.column(column)) for name, column in columns.items()}
            yield _ready(Chunk(first, fields, tuple(bad), positions[: batch.num_rows] if bad else None))
            first += n_records
        if skipped:
            empty = {name: pa.array([], pa.binary()) for name in columns}
            yield _ready(Chunk(first, empty, tuple(_bad_line(row) for row in skipped)))


def _ready(chunk: Chunk) -> LazyChunk:
    return lambda: chunk


def _bad_line(row: Any) -> BadRecord:
    found, expected = row.actual_columns, row.expected_columns
    number = -1 if row.number is None else row.number - 2
    return BadRecord(number, row.text, "malformed-record", f"The line has {found} values; the header has {expected}.")


def _parse_options(path: str, handler: Any = None) -> pc.ParseOptions:
    name = Path(path.lower())
    suffix = name.with_suffix("").suffix if compression_of(path) else name.suffix
    delimiter = "\t" if suffix == ".tsv" else ","
    return pc.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handler)
