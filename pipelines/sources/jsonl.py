"""JSON lines: one object a line. A block that Arrow cannot read at once is read line by line."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from pipelines.sources import BadRecord, Chunk, FilePart, LazyChunk, as_array
from pipelines.sources.storage import open_stream
from pipelines.texts import text_of

BLOCK_BYTES = 16 << 20
_PEEK_BYTES = 1 << 20
_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def columns_of(path: str) -> list[str]:
    """The names in the objects at the beginning of the file."""
    with open_stream(path) as stream:
        head, whole = stream.read(_PEEK_BYTES), stream.read(1) == b""
    lines = head.split(b"\n")
    found = [_object(line) for line in (lines if whole or len(lines) == 1 else lines[:-1])]
    return list(dict.fromkeys(name for record in found if isinstance(record, dict) for name in record))


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; a line that is no JSON object is a bad record."""
    columns = dict(part.columns)
    with open_stream(part.path) as stream:
        for block, first in _blocks(stream, BLOCK_BYTES):
            yield partial(_read, block, first, columns)


def _read(block: bytes, first: int, columns: dict[str, str]) -> Chunk:
    return _read_at_once(block, first, columns) or _read_lines(block, first, columns)


def _blocks(stream: Any, size: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines, about `size` bytes at a time, and the number of the first."""
    rest, first = b"", 0
    while data := stream.read(size):
        whole, newline, tail = (rest + data).rpartition(b"\n")
        rest = tail
        if newline:
            yield whole, first
            first += whole.count(b"\n") + 1
    if rest.strip():
        yield rest, first


def _read_at_once(block: bytes, first: int, columns: dict[str, str]) -> Chunk | None:
    lines = block.count(b"\n") + 1
    sample = _object(block.split(b"\n", 1)[0])
    if not isinstance(sample, dict):
        return None
    types = {column: _ARROW.get(type(sample.get(column))) for column in columns.values()}
    if any(kind is None for kind in types.values()):
        return None
    options = pj.ParseOptions(explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(
            pa.BufferReader(block), pj.ReadOptions(use_threads=False, block_size=len(block) + 1), options
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines:
        return None
    return Chunk(first, {name: as_array(table.column(column)) for name, column in columns.items()})


def _read_lines(block: bytes, first: int, columns: dict[str, str]) -> Chunk:
    found: dict[str, list[Any]] = {name: [] for name in columns}
    bad, positions = [], []
    for position, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        record = _object(line)
        if isinstance(record, dict):
            positions.append(position)
            for name, column in columns.items():
                found[name].append(text_of(record.get(column)))
        else:
            text = line.decode("utf-8", "replace")
            bad.append(BadRecord(position, text, "malformed-record", "The line is not a JSON object."))
    texts = {name: pa.array(values, pa.string()) for name, values in found.items()}
    return Chunk(first, texts, tuple(bad), positions)


def _object(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
