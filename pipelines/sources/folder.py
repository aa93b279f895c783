"""A growing folder: new files are read in the order of their names, large ones over several polls.

A file is expected to be whole when it gets its name: write it as NAME.tmp or NAME.partial and rename it. Two kinds of
file may still change after they were read: plain CSV and JSON lines may grow, and what was added is read. On this
machine reading goes on at the byte where a file ended. Elsewhere, and where its last line was cut off, it is read from
its first line on, and its last record comes again. A file of lines that ends in the middle of one is left
alone for ten seconds after it was written to. A file of which nothing could be read is tried again when
it changes. Any other change is told once, as a reject, and what is new in the file is not read.
"""

import logging
import math
import os
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from apache_beam.io.filesystem import BeamIOError

from pipelines import inputs
from pipelines.errors import InputError, first_line
from pipelines.events import EventSettings, parse_events
from pipelines.records import Origin, Parsed
from pipelines.sources import FILE_CHANGED, READ_ERRORS, BadRecord, Chunk, is_damage, unreadable_rest
from pipelines.sources.folder_files import OpenFile, is_whole
from pipelines.sources.folder_position import FolderPosition, Under
from pipelines.sources.storage import compression_of, is_local
from pipelines.sources.unbounded import CAUGHT_UP, Polled, refuse_readers

LIST_S, TORN_S, LONGEST_S = 1.0, 10.0, 2.0
_LINES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_UNFINISHED = (".tmp", ".partial")
_HIDDEN = ("_", ".")
_MAY_GROW = ("csv", "jsonl")
_SIGNS = "*?["
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FolderSource:
    """Files of label events that appear in a folder.

    Attributes:
        pattern: a folder, or a pattern of names, of any file system that Beam knows.
        events: what the records look like.
        readers: how many readers share the files, by a hash of their names.
    """

    pattern: str
    events: EventSettings = field(default_factory=EventSettings)
    readers: int = 1

    def __post_init__(self) -> None:
        refuse_readers(self.readers)

    @property
    def n_readers(self) -> int:
        """How many readers share the files."""
        return self.readers

    def check(self) -> None:
        """Raises `InputError` when there is no such folder; it may be empty yet."""
        self.files()

    def files(self) -> dict[str, int]:
        """The files that are there and finished, by name, with their sizes; `InputError` when there is no folder."""
        if is_local(self.pattern):
            folder = Path(self.pattern)
            if any(sign in self.pattern for sign in _SIGNS) and not folder.exists():
                folder = folder.parent
            if not any(sign in str(folder) for sign in _SIGNS) and not folder.exists():
                raise InputError(f"There is no folder {str(folder)!r}. Make it, or check the path.")
        found = inputs.match_files(self.pattern)
        return {path: size for path, size in sorted(found) if size and _is_finished(path)}

    def reader(self, number: int) -> "FolderReader":
        """Reader `number`."""
        return FolderReader(self, number)


def _is_finished(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return not name.startswith(_HIDDEN) and not name.lower().endswith(_UNFINISHED)


def _is_torn(path: str) -> bool:
    """Whether a file of lines ends in the middle of one and was written to just now: the rest is on its way."""
    if not is_local(path) or not path.lower().endswith(_LINES):
        return False
    try:
        if time.time() - os.path.getmtime(path) > TORN_S:
            return False
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) not in b"\r\n"
    except OSError:
        return False


class FolderReader:
    """The files whose names hash to `number`."""

    def __init__(self, source: FolderSource, number: int) -> None:
        self._source, self._number = source, number
        self._open: OpenFile | None = None
        self._latest_us = 0
        self._away = ""
        self._files: dict[str, int] = {}  # as they were listed last
        self._listed_at = -math.inf
        self._waiting: list[tuple[str, int]] = []  # to be read, that under way first; (name, size)
        self._place: tuple[bytes, FolderPosition] | None = None
        self._left: set[str] = set()  # files that are there and wait though others are read
        self._held_us: int | None = None  # the latest time read before a file was left
        self._refused: dict[str, str] = {}  # why a file cannot be read now, by its name

    def poll(self, position: bytes, max_events: int, timeout_s: float) -> Polled:
        """The next events, of one file or several; the folder is listed once a second, however often it is polled."""
        known, self._place = self._place, None  # taken out: if this poll fails, nobody goes on half through it
        is_known = known is not None and known[0] == position
        place = known[1] if known is not None and is_known else FolderPosition.of(position)
        found: list[Parsed] = []
        deadline = time.monotonic() + timeout_s
        while True:
            if not is_known or time.monotonic() >= self._listed_at + LIST_S:
                self._list()  # also when it is set back, or on: what it knows may be older than the position
                self._waiting, is_known = self._unread(place), True
            if self._waiting:
                found, position = self._take(place, max_events), place.to_bytes()
            wake_at = min(self._listed_at + LIST_S, deadline)
            if not (found or self._waiting):
                time.sleep(max(wake_at - time.monotonic(), 0.0))
            if found or self._waiting or wake_at >= deadline:
                break
        self._place = position, place
        return self._polled(found, position, bool(self._waiting))

    def _take(self, place: FolderPosition, max_events: int) -> list[Parsed]:
        """Reads of the files that wait, and moves `place` on; a file that cannot be reached now waits for a listing.

        Small files cost more than their events: it ends in time, so that the stream hears what it is asked.
        """
        found: list[Parsed] = []
        until = time.monotonic() + LONGEST_S
        while self._waiting and _n_read(found) < max_events and (not found or time.monotonic() < until):
            name, size = self._waiting[0]
            read = self._step(name, size, place, max_events - _n_read(found))
            found += read or []
            if read is None and place.under:
                self._waiting = []
            elif read is None:
                self._waiting.pop(0)
            elif place.under is None and place.size_of(name) == size:
                self._waiting.pop(0)
                self._left.discard(name)
                self._refused.pop(name, None)
        return found

    def confirm(self, position: bytes) -> None:
        """Nothing is to be told to a folder."""

    def close(self) -> None:
        """Lets go of the file under way."""
        self._open = None

    def _polled(self, found: list[Parsed], position: bytes, more: bool) -> Polled:
        counts: Counter[str] = Counter()
        before_us = self._latest_us
        for one in found:
            counts.update(one.counts)
            if one.block is not None and one.block.time is not None:
                self._latest_us = max(self._latest_us, int(one.block.time.max()))
        return Polled(
            tuple(one.block for one in found if one.block is not None),
            position,
            tuple(one.rejects for one in found if one.rejects is not None),
            dict(counts),
            more,
            watermark_us=self._watermark_us(before_us, more),
            away=self._away or "; ".join(self._refused.values()),
        )

    def _watermark_us(self, before_us: int, more: bool) -> int:
        """How far the reader is; no further than before it left a file, whatever is read meanwhile."""
        if not self._left:
            self._held_us = None
            return self._latest_us if more or self._away else CAUGHT_UP
        self._held_us = before_us if self._held_us is None else self._held_us
        return self._held_us

    def _list(self) -> None:
        """Looks which of this reader's files are there."""
        try:
            self._files = {name: size for name, size in self._source.files().items() if self._is_mine(name)}
            self._refused = {name: why for name, why in self._refused.items() if name in self._files}
            self._away = ""
        except InputError as error:
            if not self._away:
                _log.warning("%s Waiting for it.", error)
            self._away = f"The source cannot be read: {error}"
        self._listed_at = time.monotonic()

    def _unread(self, place: FolderPosition) -> list[tuple[str, int]]:
        """The files to be read, that under way first; (name, size)."""
        if self._away:
            return []
        unread = [(name, size) for name, size in self._files.items() if place.size_of(name) != size]
        torn = {name for name, _ in unread if _is_torn(name)}
        self._left = (self._left & {name for name, _ in unread}) | torn
        waiting = [one for one in unread if one[0] not in torn]
        under = place.under
        if under is not None:
            waiting = [one for one in waiting if one[0] != under.name]
            waiting.insert(0, (under.name, self._files.get(under.name, 0)))
        return waiting

    def _is_mine(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self._source.readers == self._number

    def _step(self, name: str, size: int, place: FolderPosition, max_events: int) -> list[Parsed] | None:
        """Reads a piece of a file, and moves `place` on; None when the file cannot be reached now."""
        try:
            return self._read(name, size, place, max_events)
        except (*READ_ERRORS, BeamIOError) as error:
            self._open = None
            if is_damage(error):
                return [self._give_up(name, size, place, unreadable_rest(0, error))]
            if name not in self._refused:
                _log.warning("%s cannot be read now: %s; it is tried again.", name, error)
            self._refused[name] = f"The file {name} of the source cannot be read: {first_line(error)}"
            self._left.add(name)
            place.set_aside()
            return None

    def _read(self, name: str, size: int, place: FolderPosition, max_events: int) -> list[Parsed]:
        before = place.under.size if place.under else place.size_of(name)
        may_grow = _may_grow(name, self._source.events)
        if before not in (None, size) and not (place.is_unread(name) or (may_grow and (before or 0) < size)):
            detail = f"The file had {before} bytes when it was read, now it has {size}. Give changed files a new name."
            changed = Chunk(0, {}, (BadRecord(0, "", FILE_CHANGED, detail),))
            return [self._give_up(name, size, place, changed, read=True)]
        under = place.begin(name, lambda n_bytes: may_grow and is_whole(name, n_bytes), size)
        opened = self._opened(under, place.number)
        if isinstance(opened, Chunk):
            return [self._give_up(name, size, place, opened)]
        chunk = opened.take(max_events)
        if chunk is None:
            place.finish(opened.end)
            self._open = None
            return []
        place.under = opened.under
        return [opened.parse(chunk, self._source.events)]

    def _opened(self, under: Under, number: int) -> OpenFile | Chunk:
        """The file under way, where it was left; what is to be told when it is no file of labels."""
        if self._open is not None and self._open.under == under:
            return self._open
        try:
            self._open = OpenFile(under, number, self._source.events)
        except InputError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and not is_damage(cause):
                raise cause from error
            return unreadable_rest(0, error)
        return self._open

    def _give_up(self, name: str, size: int, place: FolderPosition, told: Chunk, read: bool = False) -> Parsed:
        """The file is done, whatever is in it; one that was never `read` is tried again when it changes."""
        place.begin(name, lambda _: False, size)
        origin = Origin(place.number, name)
        place.give_up(size, read)
        self._open = None
        return parse_events(told, origin, np.empty(0, np.int64), self._source.events)


def _n_read(found: list[Parsed]) -> int:
    return sum(one.counts["events_read"] for one in found)


def _may_grow(path: str, settings: EventSettings) -> bool:
    """Whether the file may be written on at its end."""
    kind = inputs.SUFFIXES.get(inputs.ending_of(path))
    kind = kind if settings.input_format == "auto" else settings.input_format
    return kind in _MAY_GROW and compression_of(path) is None
