"""A file of a growing folder: opened where it was left, read some rows at a time."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from pipelines import inputs
from pipelines.events import EventSettings, parse_events
from pipelines.records import Origin, Parsed, size_of
from pipelines.sources import UNREADABLE_REST, Chunk, LazyChunk
from pipelines.sources.folder_position import Under
from pipelines.sources.formats import chunks_of
from pipelines.sources.storage import PACKED, is_local

_TAIL_BYTES, _FAR = 1 << 16, 1 << 62


class OpenFile:
    """A file, from some row of some chunk on."""

    def __init__(self, under: Under, number: int, settings: EventSettings) -> None:
        file = inputs.checked_file(settings, under.name, under.size, "events")
        self._origin = Origin(number, under.name)
        self._arrived_us = _changed_us(under.name)
        self._chunks = _chunks(number, file, under)
        self._chunk: Chunk | None = None
        for _ in range(under.chunk):
            next(self._chunks, None)
        self.under = under

    def take(self, max_events: int) -> Chunk | None:
        """The next rows; None at the end."""
        if self._chunk is None:
            lazy = next(self._chunks, None)
            if lazy is None:
                return None
            self._chunk = _behind(lazy(), self.under.skip)
        row, size = self.under.row, size_of(self._chunk)
        taken = _rows(self._chunk, row, min(row + max_events, size))
        whole = self.under.whole and not any(record.reason == UNREADABLE_REST for record in self._chunk.bad)
        reached = max(self.under.reached, _end_of(self._chunk))
        place = replace(self.under, row=row + max_events, reached=reached, whole=whole)
        if row + max_events >= size:
            self._chunk = None
            place = replace(place, chunk=place.chunk + 1, row=0)
        self.under = place
        return taken

    def parse(self, chunk: Chunk, settings: EventSettings) -> Parsed:
        """The events of some rows."""
        return parse_events(chunk, self._origin, np.full(size_of(chunk), self._arrived_us), settings)

    @property
    def end(self) -> int:
        """The record at which the file goes on if it grows; the last one comes again where it may have been cut off."""
        return max(self.under.reached - (not self.under.whole), self.under.skip)


def _changed_us(path: str) -> int:
    """When the file was last changed, the arrival of its events."""
    if is_local(path):
        return int(os.stat(path).st_mtime_ns // 1000)
    try:
        return int(FileSystems.get_filesystem(path).last_updated(path) * 1e6)
    except (BeamIOError, NotImplementedError):
        return time.time_ns() // 1000


def _chunks(number: int, file: inputs.InputFile | None, under: Under) -> Iterator[LazyChunk]:
    parts = inputs.parts_of(number, file)[0] if file is not None else []
    if under.at or under.whole:
        span = (under.at, under.size if under.whole else _FAR)
        parts = [replace(part, span=span, first=under.skip if under.at else 0) for part in parts]
    return (lazy for part in parts for lazy in chunks_of(part))


def is_whole(path: str, size: int) -> bool:
    """Whether the first `size` bytes of a file of this machine are plain lines, the last one whole and not blank."""
    if not is_local(path) or size < 1:
        return False
    with open(path, "rb") as file:
        head = file.read(max(map(len, PACKED)))
        file.seek(max(size - _TAIL_BYTES, 0))
        tail = file.read(min(size, _TAIL_BYTES))
    last = tail.removesuffix(b"\n").rpartition(b"\n")[2]
    return tail.endswith(b"\n") and bool(last.strip()) and not head.startswith(PACKED)


def _rows(chunk: Chunk, first: int, last: int) -> Chunk:
    """Some rows of a chunk; the records that could not be read come with the first."""
    n_rows = size_of(chunk)
    if first == 0 and last == n_rows:
        return chunk
    positions = np.arange(n_rows) + chunk.first if chunk.positions is None else np.asarray(chunk.positions, np.int64)
    columns = {name: column.slice(first, last - first) for name, column in chunk.columns.items()}
    return Chunk(chunk.first, columns, chunk.bad if first == 0 else (), positions[first:last])


def _behind(chunk: Chunk, skip: int) -> Chunk:
    """The records from place `skip` on."""
    if not skip or chunk.first >= skip:
        return chunk
    bad = tuple(record for record in chunk.bad if record.position >= skip)
    n_rows = size_of(chunk)
    positions = np.arange(n_rows) + chunk.first if chunk.positions is None else np.asarray(chunk.positions, np.int64)
    first = int(np.searchsorted(positions, skip))
    return replace(_rows(chunk, first, n_rows), bad=bad)


def _end_of(chunk: Chunk) -> int:
    """The place after the last record."""
    n_rows = size_of(chunk)
    last = chunk.first + n_rows - 1 if chunk.positions is None or not n_rows else int(chunk.positions[-1])
    return max([last, *(record.position for record in chunk.bad)]) + 1
