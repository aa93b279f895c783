"""Messages: many values of a queue in, one chunk out; a message that cannot be read is one bad record.

JSON messages are glued together into JSON lines and read at once by Arrow. Where that fails, halves are tried, so that
a bad message slows down its neighbours only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.events import EventSettings, parse_events
from pipelines.records import Origin, Parsed
from pipelines.sources import EMPTY_MESSAGE, MALFORMED_MESSAGE, BadRecord, Chunk, as_array, avro_messages, jsonl
from pipelines.texts import as_bytes, column_of

SHOWN_CHARACTERS = 1000
_FEW = 512
_BLANKS, _BOM = b" \t\r\n", b"\xef\xbb\xbf"
_OPEN, _CLOSE = b"{}"
_TIME_NAMES = ("submitted_at_us", "time")

Columns = dict[str, Any]
Piece = tuple[Sequence[int], Columns]


def parse_messages(
    values: Sequence[bytes | None],
    places: NDArray[np.int64],
    arrived_us: NDArray[np.int64],
    origin: Origin,
    settings: EventSettings,
) -> Parsed:
    """The label events of messages that stand at `places` of their partition and arrived at `arrived_us`."""
    chunk = read_messages(values, settings.format, dict(settings.columns))
    kept = slice(None) if chunk.positions is None else chunk.positions
    bad = tuple(replace(record, position=int(places[record.position])) for record in chunk.bad)
    chunk = Chunk(int(places[0]), chunk.columns, bad, places[kept])
    if settings.format == "avro":
        settings = replace(settings, time_unit="us")
    return parse_events(chunk, origin, arrived_us[kept], settings)


def read_messages(values: Sequence[bytes | None], kind: str, columns: Mapping[str, str] | None = None) -> Chunk:
    """The messages as a chunk, whose positions are places in `values`.

    Args:
        values: the messages; None, and an empty one, hold nothing and are bad records.
        kind: "json", or "avro" by schemas/label.avsc.
        columns: what the fields are called in JSON messages, where they differ. The time is `submitted_at_us`, or
            else `time`.

    >>> chunk = read_messages([b'{"task": 1, "worker": "ann", "label": true}', b"?"], "json")
    >>> chunk.columns["worker"].to_pylist(), [bad.reason for bad in chunk.bad]
    ([b'ann'], ['malformed-message'])
    """
    full: Sequence[Any] = values
    places = None
    if not all(values):
        places = [place for place, value in enumerate(values) if value]
        full = [values[place] for place in places]
    if kind == "avro":
        pieces, bad = avro_messages.read(full)
    else:
        pieces, bad = _read_json(full, columns or {})
    chunk = _chunk(pieces, bad)
    if places is None:
        return chunk
    return _with_empty(chunk, np.array(places, np.int64), len(values))


def _chunk(pieces: Sequence[Piece], bad: Sequence[BadRecord]) -> Chunk:
    """The pieces as one chunk, in the order of their places."""
    if len(pieces) == 1 and not bad:
        places, columns = pieces[0]
        return Chunk(0, columns, (), None if isinstance(places, range) else np.asarray(places, np.int64))
    if not pieces:
        return Chunk(0, {}, tuple(bad), np.empty(0, np.int64))
    positions = np.concatenate([np.asarray(places, np.int64) for places, _ in pieces])
    names = list(dict.fromkeys(name for _, columns in pieces for name in columns))
    joined = {name: _joined([columns.get(name, len(places)) for places, columns in pieces]) for name in names}
    order = np.argsort(positions, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        positions, joined = positions[order], {name: joined[name].take(pa.array(order)) for name in names}
    return Chunk(0, joined, tuple(sorted(bad, key=lambda record: record.position)), positions)


def _joined(parts: list[Any]) -> pa.Array:
    """Columns one after the other, a number standing for as many nulls; of several types, all become bytes."""
    types = {part.type for part in parts if not isinstance(part, int)}
    kind = types.pop() if len(types) == 1 else pa.large_binary()
    columns = [
        pa.nulls(part, kind) if isinstance(part, int) else part if part.type == kind else as_bytes(part)
        for part in parts
    ]
    return as_array(pa.chunked_array(columns, kind))


def _with_empty(chunk: Chunk, places: Any, n_values: int) -> Chunk:
    """The chunk with its positions among all values, and the empty ones as bad records."""
    found = places if chunk.positions is None else places[chunk.positions]
    detail = "The message is empty: it does not say whose label is meant."
    empty = np.delete(np.arange(n_values), places).tolist()
    bad = [BadRecord(place, "", EMPTY_MESSAGE, detail) for place in empty]
    bad += [BadRecord(int(places[one.position]), one.record, one.reason, one.detail) for one in chunk.bad]
    return Chunk(0, chunk.columns, tuple(sorted(bad, key=lambda record: record.position)), found)


def _read_json(values: Sequence[bytes], columns: Mapping[str, str]) -> tuple[list[Piece], list[BadRecord]]:
    names = {name: columns.get(name, name) for name in ("task", "worker", "label", "op")}
    names |= {"time": columns["time"]} if "time" in columns else {name: name for name in _TIME_NAMES}
    bad: list[BadRecord] = []
    found = _at_once(values, names)
    if found is not None:
        return [(range(len(values)), _timed(found))], bad
    trimmed = [value.strip(_BLANKS).removeprefix(_BOM).lstrip(_BLANKS) for value in values]
    pieces = [(places, _timed(piece)) for places, piece in _halved(trimmed, 0, names, bad)]
    return pieces, bad


def _halved(values: Sequence[bytes], first: int, names: dict[str, str], bad: list[BadRecord]) -> Iterator[Piece]:
    """The messages in pieces that can be read at once; the last few one by one, what is no object goes to `bad`."""
    found = _at_once(values, names)
    if found is not None:
        yield range(first, first + len(values)), found
    elif len(values) > _FEW:
        middle = len(values) // 2
        yield from _halved(values[:middle], first, names, bad)
        yield from _halved(values[middle:], first + middle, names, bad)
    else:
        yield from _one_by_one(values, first, names, bad)


def _at_once(values: Sequence[bytes], names: dict[str, str]) -> Columns | None:
    """The columns of messages that are one object each, on one line each.

    A message that begins and ends with a brace holds whole objects or none: a newline cannot stand in a text, and an
    object cannot follow on a closing brace inside another. So as many rows as messages are one row each.
    """
    block = b"\n".join(values)
    if not block:
        return None
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)) + 1) - 1
    signs = np.frombuffer(block, np.uint8)
    closed = signs[0] == _OPEN and (signs[ends - 1] == _CLOSE).all() and (signs[ends[:-1] + 1] == _OPEN).all()
    if not closed or block.count(b"\n") != len(values) - 1:
        return None
    return jsonl.read_objects(block, len(values), names)


def _one_by_one(values: Sequence[bytes], first: int, names: dict[str, str], bad: list[BadRecord]) -> Iterator[Piece]:
    places, records = [], []
    for place, value in enumerate(values, first):
        record = jsonl.parsed(value)
        if isinstance(record, dict):
            places.append(place)
            records.append(record)
        else:
            bad.append(BadRecord(place, shown(value), MALFORMED_MESSAGE, "The message is not a JSON object."))
    if places:
        yield places, {name: column_of(record.get(column) for record in records) for name, column in names.items()}


def _timed(columns: Columns) -> Columns:
    """The columns with one time: the first that a message has."""
    if "time" in columns and _TIME_NAMES[0] not in columns:
        return columns
    first, second = (columns.pop(name) for name in _TIME_NAMES)
    if second.null_count == len(second):
        time = first
    elif first.null_count == len(first):
        time = second
    else:
        time = pc.coalesce(as_bytes(first), as_bytes(second))
    return {**columns, "time": time}


def shown(value: bytes) -> str:
    """A message as text, its beginning if it is long."""
    text = value[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
