"""JSON lines: one object a line. A block that Arrow cannot read at once is read line by line."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from pipelines.sources import (
    MALFORMED_RECORD,
    READ_ERRORS,
    BadRecord,
    Chunk,
    FilePart,
    LazyChunk,
    as_array,
    is_damage,
    unreadable_rest,
)
from pipelines.sources.storage import open_span, open_stream
from pipelines.texts import column_of

BLOCK_BYTES = 16 << 20
_PEEK_BYTES, _MAX_PEEK_BYTES = 1 << 20, 64 << 20
_SAMPLE_LINES = 32
_EXACT = float(1 << 53)
_BOM = b"\xef\xbb\xbf"
_ARROW = {str: pa.binary(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def columns_of(path: str) -> list[str]:
    """The names in the objects at the beginning of the file."""
    with open_stream(path) as stream:
        head = piece = stream.read(_PEEK_BYTES)
        while len(piece) == _PEEK_BYTES and b"\n" not in piece and len(head) < _MAX_PEEK_BYTES:
            head += (piece := stream.read(_PEEK_BYTES))
    lines = head.removeprefix(_BOM).split(b"\n")
    cut = len(piece) == _PEEK_BYTES and len(lines) > 1
    lines = [line for line in (lines[:-1] if cut else lines) if line.strip()]
    found = [record for record in map(parsed, lines) if isinstance(record, dict)]
    if lines and not any(found):
        raise ValueError("no line is a JSON object with names and values; JSON lines has one on each line")
    return list(dict.fromkeys(name for record in found for name in record))


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; a line that is no JSON object is a bad record. Positions count lines."""
    columns = dict(part.columns)
    first, rest, begun = part.first, b"", bool(part.span and part.span[0])
    with open_span(part.path, part.span) as stream:
        while True:
            try:
                data = stream.read(BLOCK_BYTES)
            except READ_ERRORS as error:
                if not is_damage(error):
                    raise
                yield partial(unreadable_rest, first, error)
                return
            if not data:
                break
            data, begun = data if begun else data.removeprefix(_BOM), True
            block, newline, rest = (rest + data).rpartition(b"\n")
            if newline:
                yield partial(_read, block, first, columns)
                first += block.count(b"\n") + 1
    if rest.strip():
        yield partial(_read, rest, first, columns)


def _read(block: bytes, first: int, columns: dict[str, str]) -> Chunk:
    n_lines = block.count(b"\n") + 1
    if block.startswith(b"{") and block.count(b"\n{") + 1 == n_lines:
        found = read_objects(block, n_lines, columns)
        if found is not None:
            return Chunk(first, found)
    return _read_lines(block, first, columns)


def read_objects(block: bytes, n_objects: int, columns: dict[str, str]) -> dict[str, Any] | None:
    """The fields of `block`, if it holds so many objects and every column is of one type; else None."""
    schema = pa.schema(list(_types_of(set(columns.values()), block).items()))
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        table = pj.read_json(pa.BufferReader(block), reading, options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != n_objects or not all(_is_exact(column) for column in table.columns):
        return None
    return {name: as_array(table.column(column)) for name, column in columns.items()}


def _types_of(columns: set[str], block: bytes) -> dict[str, pa.DataType]:
    """The types of the first value of each column; bytes where the first lines have none."""
    found: dict[str, pa.DataType] = {}
    begin = 0
    for _ in range(_SAMPLE_LINES):
        end = block.find(b"\n", begin)
        record = parsed(block[begin : end if end >= 0 else len(block)])
        if isinstance(record, dict):
            for column in columns - found.keys():
                if record.get(column) is not None:
                    found[column] = _ARROW.get(type(record[column]), pa.binary())
        if end < 0 or len(found) == len(columns):
            break
        begin = end + 1
    return dict.fromkeys(columns, pa.binary()) | found


def _is_exact(column: pa.ChunkedArray) -> bool:
    """Whether no number became another one by being read as a float."""
    if not pa.types.is_floating(column.type):
        return True
    largest = pc.max(pc.abs(column)).as_py()
    return largest is None or largest < _EXACT


def _read_lines(block: bytes, first: int, columns: dict[str, str]) -> Chunk:
    found: dict[str, list[Any]] = {name: [] for name in columns}
    bad, positions = [], []
    for position, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        record = parsed(line)
        if isinstance(record, dict):
            positions.append(position)
            for name, column in columns.items():
                found[name].append(record.get(column))
        else:
            text = line.decode("utf-8", "replace").strip("\r")
            bad.append(BadRecord(position, text, MALFORMED_RECORD, "The line is not a JSON object."))
    fields = {name: column_of(values) for name, values in found.items()}
    return Chunk(first, fields, tuple(bad), positions)


def parsed(line: bytes) -> Any:
    """The value of a line, None when there is none; bytes that are not UTF-8 become surrogates."""
    try:
        return json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
