"""Avro object container files, some blocks at a time: by polars, or by fastavro what polars does not read."""

import io
from collections.abc import Iterator
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa

from pipelines.sources import BadRecord, Chunk, FilePart, LazyChunk, as_array
from pipelines.sources.storage import open_file
from pipelines.texts import text_of

CHUNK_BYTES = 24 << 20
_SYNC_BYTES = 16
_VARINT_BYTES = 10
_CODECS_OF_POLARS = ("null", "deflate", "snappy")
_TYPES_OF_POLARS = ("string", "int", "long", "float", "double", "boolean")


def columns_of(path: str) -> list[str]:
    """The names of the record's fields."""
    with open_file(path) as file:
        schema = fastavro.reader(file).writer_schema
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return [field["name"] for field in fields]


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; what follows a damaged block is one bad record."""
    columns = dict(part.columns)
    first = 0
    with open_file(part.path) as file:
        by_polars = _by_polars(fastavro.reader(file))
        for data, n_records in _slices(file):
            yield partial(_read, data, first, columns, by_polars)
            first += n_records


def _read(data: bytes, first: int, columns: dict[str, str], by_polars: bool) -> Chunk:
    if not data:
        detail = f"The file is damaged after record {first}; the records before it were read."
        return Chunk(first, {}, (BadRecord(first, "", "unreadable-rest", detail),))
    wanted = list(dict.fromkeys(columns.values()))
    table = _read_by_polars(data, wanted) if by_polars else _read_by_fastavro(data, wanted)
    return Chunk(first, {name: as_array(table.column(column)) for name, column in columns.items()})


def _by_polars(reader: Any) -> bool:
    """Whether polars, which ends the process on a type it does not know, can read the file."""

    def known(kind: Any) -> bool:
        match kind:
            case ["null", inner] | [inner, "null"]:
                return known(inner)
            case {"type": "enum"}:
                return True
            case {"type": inner}:
                return known(inner)
        return kind in _TYPES_OF_POLARS

    return reader.codec in _CODECS_OF_POLARS and all(known(field["type"]) for field in reader.writer_schema["fields"])


def _read_by_polars(data: bytes, wanted: list[str]) -> pa.Table:
    import polars as pl  # a third of a second that only Avro files need

    try:
        return pl.read_avro(io.BytesIO(data), columns=wanted).to_arrow()
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error


def _read_by_fastavro(data: bytes, wanted: list[str]) -> pa.Table:
    found: dict[str, list[str | None]] = {name: [] for name in wanted}
    for record in fastavro.reader(io.BytesIO(data)):
        for name, values in found.items():
            values.append(text_of(record.get(name)))  # type: ignore[union-attr]
    return pa.table({name: pa.array(values, pa.string()) for name, values in found.items()})


def _slices(file: Any) -> Iterator[tuple[bytes, int]]:
    """The file in files of about `CHUNK_BYTES`, and their records; an empty one stands for a damaged rest."""
    header = _header(file)
    sync = header[-_SYNC_BYTES:]
    end = file.size()
    begin, n_records = file.tell(), 0
    at = begin
    while at < end:
        head = file.read_at(2 * _VARINT_BYTES, at)
        count, used = _varint(head, 0)
        size, used = _varint(head, used)
        after = at + used + size + _SYNC_BYTES
        if count < 0 or size < 0 or after > end or file.read_at(_SYNC_BYTES, after - _SYNC_BYTES) != sync:
            if n_records:
                yield header + file.read_at(at - begin, begin), n_records
            yield b"", 0
            return
        at, n_records = after, n_records + count
        if at - begin >= CHUNK_BYTES or at == end:
            if n_records:
                yield header + file.read_at(at - begin, begin), n_records
            begin, n_records = at, 0


def _header(file: Any) -> bytes:
    """The file's header, up to and with the sync marker; the file is left behind it."""
    file.seek(0)
    data = bytes(file.read(1 << 16))
    at = 4
    while True:
        count, at = _varint(data, at)
        if count == 0:
            break
        if count < 0:
            _, at = _varint(data, at)
        for _ in range(2 * abs(count)):
            size, at = _varint(data, at)
            at += size
            if at + _VARINT_BYTES > len(data):
                more = bytes(file.read(at + (1 << 16) - len(data)))
                data += more
    file.seek(at + _SYNC_BYTES)
    return data[: at + _SYNC_BYTES]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at`, and where the next value begins; (-1, at) when the data end before it does."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return -1, at
