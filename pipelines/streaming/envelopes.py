"""Envelopes: what travels between the stages of the stream, as bytes whose first one tells the kind."""

import dataclasses
import json
import re
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

EVENTS, CLOCK, LABELS, CLOSING, MODEL, MARKER, CHANGES, REPORT = b"E", b"W", b"L", b"C", b"M", b"K", b"D", b"R"
DRAIN, SNAPSHOT, BOOTSTRAP = "drain", "snapshot", "bootstrap"
BOOTSTRAPPED = "events_bootstrapped"
NO_SHARD = (1 << 32) - 1
_CLOCK = struct.Struct("<Hq")
_MODEL = struct.Struct("<q?qq")
_CHANGE = struct.Struct("<Iqq")
_SIZE = struct.Struct("<I")


@dataclass(frozen=True)
class Marker:
    """A request that travels behind all that was read before it.

    Attributes:
        kind: "drain": answer everything read, then tell; "snapshot": write your state; "bootstrap": read the state that
            lies in `folder`.
        id: of the request.
        folder: where files go or are.
        sender: number of the reader or shard it comes from.
        events: how many events the sender has passed on before it; runners may bring them in another order.
        sent: how many envelopes the shard's tracker has sent to its board before.
        version: of the model that the board must have.
    """

    kind: str
    id: str
    folder: str = ""
    sender: int = 0
    events: int = 0
    sent: int = 0
    version: int = 0


@dataclass(frozen=True)
class Skills:
    """A model on its way to the shards.

    Attributes:
        version: of the model.
        settled: whether it was solved from scratch while nothing changed: the batch's own solution.
        n_events: events that it rests on.
        frame: of the `Model`.
        sent: how many envelopes of the shard it rests on.
    """

    version: int
    settled: bool
    n_events: int
    frame: Any
    sent: int = 0


@dataclass(frozen=True)
class Change:
    """What a shard's events do to the counts.

    Attributes:
        shard: the shard; `NO_SHARD` for counts that no shard has labels of.
        events, sent: how many events the shard has tracked, and envelopes sent to its board, up to this one.
        frame: of the change.
    """

    shard: int
    events: int
    sent: int
    frame: bytes


def pack_events(frame: bytes, reader: int, watermark_us: int) -> bytes:
    """Label events (the frame of a `LabelBlock`) of one reader, and how far it has read."""
    return EVENTS + _CLOCK.pack(reader, watermark_us) + frame


def pack_clock(reader: int, watermark_us: int) -> bytes:
    """How far a reader has read."""
    return CLOCK + _CLOCK.pack(reader, watermark_us)


def unpack_clock(envelope: bytes) -> tuple[int, int, Any]:
    """Reader, watermark and frame of `pack_events` or `pack_clock`."""
    reader, watermark_us = _CLOCK.unpack_from(envelope, 1)
    return reader, watermark_us, memoryview(envelope)[1 + _CLOCK.size :]


def pack_skills(skills: Skills) -> bytes:
    """A model."""
    head = _MODEL.pack(skills.version, skills.settled, skills.n_events, skills.sent)
    return b"".join([MODEL, head, skills.frame])


def unpack_skills(envelope: bytes) -> Skills:
    """The model of `pack_skills`."""
    version, settled, n_events, sent = _MODEL.unpack_from(envelope, 1)
    return Skills(version, settled, n_events, memoryview(envelope)[1 + _MODEL.size :], sent)


def pack_shard_change(change: Change) -> bytes:
    """A change."""
    return CHANGES + _CHANGE.pack(change.shard, change.events, change.sent) + change.frame


def unpack_shard_change(envelope: bytes) -> Change:
    """The change of `pack_shard_change`."""
    shard, events, sent = _CHANGE.unpack_from(envelope, 1)
    return Change(shard, events, sent, envelope[1 + _CHANGE.size :])


def pack_marker(marker: Marker) -> bytes:
    """A request."""
    return MARKER + json.dumps(asdict(marker)).encode()


def unpack_marker(envelope: bytes) -> Marker:
    """The request of `pack_marker`."""
    return Marker(**json.loads(envelope[1:]))


def requested(known: Any) -> Marker:
    """The request that somebody asked for in a file; fields that are not known are left alone.

    Raises `ValueError` when it is none.

    >>> requested({"kind": "drain", "id": "d", "urgent": True}).id
    'd'
    """
    if not isinstance(known, dict) or known.get("kind") not in (DRAIN, SNAPSHOT):
        raise ValueError(f"it is neither of kind {DRAIN} nor {SNAPSHOT}")
    fields = {one.name: known[one.name] for one in dataclasses.fields(Marker) if one.name in known}
    texts, numbers = [fields.pop(name, "") for name in ("kind", "id", "folder")], fields.values()
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise ValueError("its fields are not of their types")
    if not re.fullmatch(r"[\w-]+", texts[1]):
        raise ValueError("it has no id of letters, digits and dashes")
    return Marker(*texts, **fields)


def join(parts: Iterable[bytes]) -> bytes:
    """Several envelopes as one."""
    return b"".join(_SIZE.pack(len(part)) + part for part in parts)


def split(data: bytes) -> list[bytes]:
    """The envelopes of `join`.

    >>> split(join([b"a", b"", b"bcd"]))
    [b'a', b'', b'bcd']
    """
    parts, at = [], 0
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        parts.append(data[at : at + size])
        at += size
    return parts
