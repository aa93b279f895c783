"""Avro messages, many at once: bare bodies, single-object encoding, Confluent's framing, any published label schema.

All messages are decoded together, field by field, by arithmetic on arrays: a message that cannot be decoded is known by
itself and spoils no other. A body must be used up to its last byte, so a schema that is not a label's is noticed.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from fastavro.schema import fingerprint, to_parsing_canonical_form
from numpy.typing import NDArray

import schemas
from pipelines.sources import MALFORMED_MESSAGE, UNKNOWN_SCHEMA, BadRecord
from pipelines.sources.avro import varint

SHOWN_BYTES = 500
_SINGLE, _CONFLUENT = b"\xc3\x01", b"\x00"
_SINGLE_BYTES, _CONFLUENT_BYTES = 10, 5
_MOST_BYTES = 10
_PADDING = b"\0" * 16
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_STOPS = np.uint64(0x8080808080808080)
_FOLDS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
_ONE = np.uint64(1)
_FIELDS = {"submitted_at_us": "time"}

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@cache
def _versions() -> tuple[tuple[int, tuple[tuple[str, bool, str], ...]], ...]:
    """Every published label schema: its fingerprint, and (name, whether it may be null, type) of its fields."""
    found = []
    for schema in schemas.avro_versions("label"):
        mark = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
        fields = []
        for field in schema["fields"]:
            kind, optional = field["type"], isinstance(field["type"], list)
            fields.append((_FIELDS.get(field["name"], field["name"]), optional, kind[1] if optional else kind))
        found.append((struct.unpack("<Q", bytes.fromhex(mark))[0], tuple(fields)))
    return tuple(found)


def read(values: Sequence[bytes]) -> tuple[list[tuple[Any, dict[str, Any]]], list[BadRecord]]:
    """(places in `values`, columns) pairs of the messages that can be read, and the others as bad records."""
    if not values:
        return [], []
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    data = np.frombuffer(b"".join([*values, _PADDING]), np.uint8)
    end = np.cumsum(sizes)
    start = end - sizes
    single = (sizes > _SINGLE_BYTES) & (data[start] == _SINGLE[0]) & (data[start + 1] == _SINGLE[1])
    confluent = (sizes > _CONFLUENT_BYTES) & (data[start] == _CONFLUENT[0])
    marks = _words(data)[start + 2]
    body = start + np.where(single, _SINGLE_BYTES, np.where(confluent, _CONFLUENT_BYTES, 0))
    pieces: list[tuple[Any, dict[str, Any]]] = []
    left = np.ones(len(values), bool)
    for begin, open_to in ((body, left), (start, confluent)):
        for mark, fields in _versions():
            rows = np.flatnonzero(left & open_to & (~single | (marks == np.uint64(mark))))
            if len(rows):
                columns, good = _decoded(data, begin[rows], end[rows], fields)
                left[rows[good]] = False
                if good.any():
                    whole = bool(good.all()) and len(rows) == len(values)
                    pieces.append((range(len(values)) if whole else rows[good], columns))
    strange = confluent | (single & ~np.isin(marks, np.array([mark for mark, _ in _versions()], np.uint64)))
    return pieces, [_bad(place, values[place], bool(strange[place])) for place in np.flatnonzero(left).tolist()]


def _bad(place: int, value: bytes, strange: bool) -> BadRecord:
    text = value[:SHOWN_BYTES].hex() + "…" * (len(value) > SHOWN_BYTES)
    if strange:
        detail = "The message names a schema that is no published version of label.avsc. It is shown in hexadecimal."
        return BadRecord(place, text, UNKNOWN_SCHEMA, detail)
    return BadRecord(place, text, MALFORMED_MESSAGE, "The message is no Avro label. It is shown in hexadecimal.")


def _decoded(
    data: NDArray[np.uint8], start: Ints, end: Ints, fields: Sequence[tuple[str, bool, str]]
) -> tuple[dict[str, Any], Mask]:
    """The columns of the bodies that are used up exactly, and which these are."""
    at, good = start, np.ones(len(start), bool)
    found: dict[str, tuple[Ints, Ints | None, Mask | None]] = {}
    for name, optional, kind in fields:
        present = None
        if optional:
            branch, at = _varints(data, at)
            good &= (branch == 0) | (branch == 1)
            present = branch == 1
        value, after = _varints(data, at)
        at = after if present is None else np.where(present, after, at)
        good &= at <= end
        if kind == "long":
            found[name] = value, None, present
            continue
        size = value if present is None else np.where(present, value, 0)
        good &= (size >= 0) & (size <= end - at)
        at, size = np.where(good, at, end), np.where(good, size, 0)
        found[name] = at, size, present
        at = at + size
    good &= at == end
    return {name: _column(data, *values, good) for name, values in found.items()}, good


def _column(data: NDArray[np.uint8], values: Ints, sizes: Ints | None, present: Mask | None, good: Mask) -> pa.Array:
    """The values of the good messages: numbers, or texts that begin at `values`."""
    chosen = None if bool(good.all()) else good
    missing = None if present is None or bool(present.all()) else ~present
    if sizes is None:
        return _filtered(pa.array(values, mask=missing), chosen)
    if missing is not None and bool(missing.all()):
        return _filtered(pa.nulls(len(values), pa.large_binary()), chosen)
    ends = np.empty(2 * len(values), np.int64)
    ends[::2], ends[1::2] = values, values + sizes
    between = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )
    places = np.arange(0, len(ends), 2)
    return _filtered(between.take(pa.array(places, mask=missing)), chosen)


def _filtered(column: pa.Array, chosen: Mask | None) -> pa.Array:
    return column if chosen is None else column.filter(pa.array(chosen))


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The eight bytes that begin at each byte of `data`, as a little-endian number."""
    words: NDArray[np.uint64] = np.ndarray(len(data) - 7, "<u8", data, 0, (1,))
    return words


def _varints(data: NDArray[np.uint8], at: Ints) -> tuple[Ints, Ints]:
    """The zigzag integers that begin at `at`, and where each ends."""
    at = np.minimum(at, len(data) - len(_PADDING))
    word = _words(data)[at]
    stops = ~word & _STOPS
    if bool((stops & np.uint64(0x80)).all()):
        short = (word & np.uint64(0x7F)).astype(np.int64)
        return (short >> 1) ^ -(short & 1), at + 1
    stop = stops & (~stops + _ONE)
    value = word & (stop - _ONE) & _SEVENS
    for low, high, shift in _FOLDS:
        value = (value & low) | ((value & high) >> shift)
    after = at + np.frexp(stop.astype(np.float64))[1] // 8
    number = (value >> _ONE).astype(np.int64) ^ -(value & _ONE).astype(np.int64)
    for row in np.flatnonzero(stops == 0).tolist():
        number[row], after[row] = _long_varint(data, int(at[row]))
    return number, after


def _long_varint(data: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """A varint of more than eight bytes; one that is no 64-bit integer ends beyond the data."""
    piece = data[at : at + _MOST_BYTES].tobytes()
    number, size = varint(piece, 0)
    if piece[size - 1] >= 0x80 or not -(1 << 63) <= number < 1 << 63:
        return 0, len(data)
    return number, at + size
