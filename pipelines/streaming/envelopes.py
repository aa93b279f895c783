"""Envelopes: what travels between the stages of the stream, as bytes whose first one tells the kind."""

import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

EVENTS, CLOCK, CLOSING, MODEL, MARKER, CHANGES, REPORT = b"E", b"W", b"C", b"M", b"K", b"D", b"R"
DRAIN, SNAPSHOT, BOOTSTRAP = "drain", "snapshot", "bootstrap"
_CLOCK = struct.Struct("<Hq")
_MODEL = struct.Struct("<q?q")
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
    """

    kind: str
    id: str
    folder: str = ""
    sender: int = 0


@dataclass(frozen=True)
class Skills:
    """A model on its way to the shards.

    Attributes:
        version: of the model.
        settled: whether it was solved from scratch while nothing changed: the batch's own solution.
        n_events: events that it rests on.
        frame: of the `Model`.
    """

    version: int
    settled: bool
    n_events: int
    frame: Any


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
    return b"".join([MODEL, _MODEL.pack(skills.version, skills.settled, skills.n_events), skills.frame])


def unpack_skills(envelope: bytes) -> Skills:
    """The model of `pack_skills`."""
    version, settled, n_events = _MODEL.unpack_from(envelope, 1)
    return Skills(version, settled, n_events, memoryview(envelope)[1 + _MODEL.size :])


def pack_marker(marker: Marker) -> bytes:
    """A request."""
    return MARKER + json.dumps(asdict(marker)).encode()


def unpack_marker(envelope: bytes) -> Marker:
    """The request of `pack_marker`."""
    return Marker(**json.loads(envelope[1:]))


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
