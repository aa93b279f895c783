"""CSV and TSV: the first record names the columns; values are texts, never guessed at."""

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from pipelines.sources import (
    MALFORMED_RECORD,
    READ_ERRORS,
    BadRecord,
    Chunk,
    FilePart,
    LazyChunk,
    is_damage,
    unreadable_rest,
)
from pipelines.sources.storage import compression_of, open_span, open_stream

BLOCK_BYTES = 32 << 20
_PEEK_BYTES = 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_END, _NUL, _NOT_UTF8 = "\ue000crowdbeam:end\ue000", "\ufffd\ue000\ufffd", "\ufffd\ue001\ufffd"


def columns_of(path: str) -> list[str]:
    """The names in the first record."""
    with open_stream(path) as stream:
        head = stream.read(_PEEK_BYTES)
        if b"\n" not in head and b"\r" not in head:
            stream.read(1)  # raises when the stream is cut off in its first line
    if head.startswith(_UTF16):
        raise ValueError("it is UTF-16 text; save it as UTF-8")
    text = io.StringIO(head.decode("utf-8-sig", "replace"), newline="")
    try:
        return next((record for record in csv.reader(text, delimiter=_delimiter(path)) if record), [])
    except csv.Error as error:
        raise ValueError(f"its first line does not name columns ({error})") from error


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The records of `part`; one with too few or too many values is a bad record."""
    names = columns_of(part.path)
    places = {name: f"f{names.index(column)}" for name, column in part.columns}
    delimiter = _delimiter(part.path)
    with open_span(part.path, part.span, f"{delimiter.join(['f'] * len(names))}\n".encode()) as stream:
        for chunk in _Records(stream, places, len(names), delimiter, part.first).chunks():
            yield lambda chunk=chunk: chunk  # type: ignore[misc]


class _MarkedStream(io.RawIOBase):
    """A stream for Arrow's reader, all of it valid UTF-8, with a line of its own at the end.

    Arrow has read all records when it finds that line by itself. When it does not, the last record is cut off: the
    stream is damaged, or a quote was never closed. Bytes that are not UTF-8 become `_NOT_UTF8`, since Arrow cannot show
    a wrong line that holds them, and zeros become `_NUL`, since Arrow may overlook a quote or a comma after them.
    """

    def __init__(self, stream: Any, end: str) -> None:
        self._stream, self._end = stream, end
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready = b""
        self._ended = False
        self.damage: BaseException | None = None
        self.replaced = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._ready) <= size and not self._ended:
            self._ready += self._next(size + 1 - len(self._ready))
        size -= self._ready[size - 1 : size + 1] == b"\r\n"  # Arrow loses a \n that begins a block
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def _next(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except READ_ERRORS as error:
            if not is_damage(error):
                raise
            self._ended, self.damage = True, error
            return f"{self._end}\n".encode()
        self._ended = not data
        end = f"\n{self._end}\n" if self._ended else ""
        if data.isascii() and b"\0" not in data and not self._decoder.getstate()[0]:
            return data or end.encode()
        text = self._decoder.decode(data, self._ended)
        if "\0" in text:
            self.replaced, text = True, text.replace("\0", _NUL)
        try:
            return (text + end).encode()
        except UnicodeEncodeError:
            self.replaced = True
            return (re.sub("[\udc80-\udcff]+", _NOT_UTF8, text) + end).encode()


class _Records:
    """The records of a file, batch by batch, and where they stand; Arrow's reader runs ahead of what it gives."""

    def __init__(self, stream: Any, places: dict[str, str], n_columns: int, delimiter: str, first: int) -> None:
        self._places, self._first = places, first
        self._end = _END + delimiter * (n_columns == 1)
        self._stream = _MarkedStream(stream, self._end)
        self._delimiter = delimiter
        self._position = first - 1  # that of the header
        self._bad: deque[BadRecord] = deque()
        self._whole = False
        self._cut = False

    def chunks(self) -> Iterator[Chunk]:
        """All records; the last chunk says whether the rest is missing."""
        held, error = None, None
        try:
            for batch in self._reader():
                if batch.num_rows:
                    if held is not None:
                        yield self._chunk(held)
                    held = batch
        except READ_ERRORS as found:
            if not is_damage(found):
                raise
            error = found
        error = error or self._stream.damage
        if held is not None:
            cut = error is self._stream.damage and not self._whole and not self._cut
            yield self._chunk(held.slice(0, held.num_rows - cut))
        if self._bad:
            yield self._bad_chunk()
        if error or not self._whole:
            yield unreadable_rest(max(self._position, self._first), error or "a quote is opened and never closed")

    def _chunk(self, batch: pa.RecordBatch) -> Chunk:
        first, end = self._position, self._position + batch.num_rows
        bad = []
        while self._bad and self._bad[0].position < end:
            bad.append(self._bad.popleft())
            end += 1
        self._position = end
        columns = {name: self._restored(batch.column(place)) for name, place in self._places.items()}
        positions = np.delete(np.arange(first, end), [record.position - first for record in bad]) if bad else None
        if first < self._first:
            columns = {name: column.slice(1) for name, column in columns.items()}
            positions = positions if positions is None else positions[1:]
        return Chunk(max(first, self._first), columns, tuple(bad), positions)

    def _bad_chunk(self) -> Chunk:
        bad = tuple(self._bad)
        self._position = bad[-1].position + 1
        return Chunk(bad[0].position, {}, bad)

    def _restored(self, column: pa.Array) -> pa.Array:
        """The values, with the zeros they had, and no UTF-8 where they were none."""
        if not self._stream.replaced:
            return column
        column = pc.replace_substring(column, _NUL, "\0")
        return pc.if_else(pc.match_substring(column, _NOT_UTF8), pa.scalar(b"\xff", column.type), column)

    def _skip(self, row: Any) -> str:
        if self._end in row.text:
            self._whole, self._cut = row.text == self._end, row.text != self._end
        else:
            detail = f"The line has {row.actual_columns} values; the header has {row.expected_columns}."
            text = row.text.replace(_NUL, "\0").replace(_NOT_UTF8, "\ufffd")
            self._bad.append(BadRecord(self._first + row.number - 2, text, MALFORMED_RECORD, detail))
        return "skip"

    def _reader(self) -> Any:
        wanted = list(dict.fromkeys(self._places.values()))
        return pv.open_csv(
            pa.PythonFile(self._stream, "r"),
            pv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False, autogenerate_column_names=True),
            pv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._skip),
            pv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(wanted, pa.binary()),
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )


def _delimiter(path: str) -> str:
    name = Path(path.lower())
    suffix = name.with_suffix("").suffix if compression_of(path) else name.suffix
    return "\t" if suffix == ".tsv" else ","
