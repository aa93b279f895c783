"""Avro object container files, some blocks at a time: by polars, or by fastavro what polars does not read."""

import io
import lzma
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pipelines.sources import (
    READ_ERRORS,
    BadRecord,
    Chunk,
    FilePart,
    LazyChunk,
    as_array,
    unreadable_block,
    unreadable_rest,
)
from pipelines.sources.storage import open_file
from pipelines.texts import column_of

CHUNK_BYTES = 24 << 20
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_VARINT_BYTES = 10
_HEADER_BYTES = 1 << 16
_MAX_RATIO = {"null": 1, "snappy": 32, "deflate": 1100}  # records a byte; polars makes room for as many as a block says
_NO_LIMIT = 1 << 60
_TYPES_OF_POLARS = ("string", "int", "long", "float", "double", "boolean")


def columns_of(path: str) -> list[str]:
    """The names of the record's fields."""
    with open_file(path) as file:
        schema = _reader(_header(file)).writer_schema
    if not isinstance(schema, dict) or not schema.get("fields"):
        raise ValueError("its records have no fields")
    return [field["name"] for field in schema["fields"]]


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; a damaged block, or all that follows a damaged sync marker, is one bad record."""
    columns = dict(part.columns)
    first = 0
    with open_file(part.path) as file:
        header = _header(file)
        reader = _reader(header)
        by_polars = _by_polars(reader)
        for found in _slices(file, header, _MAX_RATIO[reader.codec] if by_polars else _NO_LIMIT):
            if found is None:
                yield partial(unreadable_rest, first, "a block is damaged or cut off")
            else:
                yield partial(_read, found, first, columns, by_polars)
                first += found.n_records


@dataclass(frozen=True)
class _Slice:
    """Some blocks of a file: (number of records, first byte, last + 1 byte) of each, in `data`."""

    header: bytes
    data: bytes
    blocks: tuple[tuple[int, int, int], ...]

    @property
    def n_records(self) -> int:
        return sum(count for count, *_ in self.blocks)


def _read(found: _Slice, first: int, columns: dict[str, str], by_polars: bool) -> Chunk:
    wanted = list(dict.fromkeys(columns.values()))
    try:
        read = _read_by_polars if by_polars else _read_by_fastavro
        table = read(found.header + found.data, wanted)
    except _decode_errors():
        return _read_blocks(found, first, columns)
    return Chunk(first, {name: as_array(table[column]) for name, column in columns.items()})


def _read_blocks(found: _Slice, first: int, columns: dict[str, str]) -> Chunk:
    """Block by block: what a damaged file still holds."""
    wanted = list(dict.fromkeys(columns.values()))
    values: dict[str, list[pa.Array]] = {column: [column_of([])] for column in wanted}
    bad: list[BadRecord] = []
    positions: list[int] = []
    for count, begin, end in found.blocks:
        try:
            table = _read_by_fastavro(found.header + found.data[begin:end], wanted)
            positions += range(first, first + count)
            for column in wanted:
                values[column].append(table[column])
        except _decode_errors() as error:
            bad.append(unreadable_block(first, count, error))
        first += count
    fields = {name: pa.concat_arrays(values[column]) for name, column in columns.items()}
    return Chunk(first - found.n_records, fields, tuple(bad), positions)


def _decode_errors() -> tuple[type[BaseException], ...]:
    """What fastavro raises on damaged data; the libraries that decompress have errors of their own."""
    codecs = ("cramjam", "DecompressionError"), ("backports.zstd", "ZstdError"), ("compression.zstd", "ZstdError")
    named = (*codecs, ("zstandard", "ZstdError"), ("fastavro.schema", "SchemaParseException"))
    loaded = [getattr(sys.modules[module], name) for module, name in named if module in sys.modules]
    return (*READ_ERRORS, LookupError, TypeError, OverflowError, struct.error, lzma.LZMAError, *loaded)


def _by_polars(reader: Any) -> bool:
    """Whether polars, which ends the process on a type it does not know, can read the file."""

    def known(kind: Any) -> bool:
        match kind:
            case ["null", inner] | [inner, "null"]:
                return known(inner)
            case {"type": inner}:
                return known(inner)
        return kind in _TYPES_OF_POLARS

    fields = reader.writer_schema["fields"]
    enums = [field for field in fields if isinstance(field["type"], dict) and field["type"]["type"] == "enum"]
    return reader.codec in _MAX_RATIO and all(field in enums or known(field["type"]) for field in fields)


def _read_by_polars(data: bytes, wanted: list[str]) -> dict[str, Any]:
    import polars as pl  # a third of a second that only Avro files need

    try:
        table = pl.read_avro(io.BytesIO(data), columns=wanted).to_arrow()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error)) from error
    return {column: table.column(column) for column in wanted}


def _read_by_fastavro(data: bytes, wanted: list[str]) -> dict[str, Any]:
    import fastavro  # most runs read no Avro

    records: list[Any] = list(fastavro.reader(io.BytesIO(data), handle_unicode_errors="surrogateescape"))
    return {column: column_of(record.get(column) for record in records) for column in wanted}


def _reader(header: bytes) -> Any:
    try:
        import fastavro

        return fastavro.reader(io.BytesIO(header))
    except _decode_errors() as error:
        raise ValueError(f"its header is damaged ({error})") from error


def _slices(file: Any, header: bytes, max_ratio: int) -> Iterator[_Slice | None]:
    """The file's blocks, about `CHUNK_BYTES` at a time; None, the last, stands for a rest that cannot be read."""
    left, missing = file.size() - file.tell(), 0
    data = b""
    while left or data:
        more = bytes(file.read(max(CHUNK_BYTES, missing)))
        data, left = data + more, left - len(more)
        blocks, at, missing = _scan(data, header[-_SYNC_BYTES:], max_ratio)
        if blocks:
            yield _Slice(header, data[:at], tuple(blocks))
        if missing < 0 or missing > left or not more:  # not more: it was longer when it was opened
            yield None
            return
        data = data[at:]


def _scan(data: bytes, sync: bytes, max_ratio: int) -> tuple[list[tuple[int, int, int]], int, int]:
    """The whole blocks in `data`, where they end, and how many bytes the next one misses; -1 when it is damaged."""
    blocks: list[tuple[int, int, int]] = []
    at = 0
    try:
        while at < len(data):
            count, begin = varint(data, at)
            length, begin = varint(data, begin)
            end = begin + length + _SYNC_BYTES
            if length < 0 or not 0 <= count <= (length + 1) * max_ratio:
                return blocks, at, -1
            if end > len(data):
                return blocks, at, end - len(data)
            if data[end - _SYNC_BYTES : end] != sync:
                return blocks, at, -1
            blocks.append((count, at, end))
            at = end
    except IndexError:
        return blocks, at, 1
    return blocks, at, 0


def _header(file: Any) -> bytes:
    """The file's header, up to and with the sync marker; the file is left behind it."""
    size = _HEADER_BYTES
    while True:
        file.seek(0)
        data = bytes(file.read(size))
        if not data.startswith(_MAGIC):
            raise ValueError("it does not begin as an Avro file does")
        try:
            end = _header_end(data)
        except IndexError:
            if len(data) < size:
                raise ValueError("its header is cut off") from None
            size *= 16
            continue
        file.seek(end)
        return data[:end]


def _header_end(data: bytes) -> int:
    """Where the header at the beginning of `data` ends; raises IndexError when it is not all there."""
    at = len(_MAGIC)
    while True:
        count, at = varint(data, at)
        if count == 0:
            break
        if count < 0:
            _, at = varint(data, at)
        for _ in range(2 * abs(count)):
            length, at = varint(data, at)
            if length < 0:
                raise ValueError("its header is damaged")
            at += length
    if at + _SYNC_BYTES > len(data):
        raise IndexError
    return at + _SYNC_BYTES


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at`, and where the next value begins; -1 for one too long to be an integer."""
    value = shift = 0
    while shift < 7 * _VARINT_BYTES:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return -1, at
