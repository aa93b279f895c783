"""Sources: one file format a module, all with the same two functions.

`columns_of(path)` names the columns, none when there is nothing in the file; `chunks_of(part)` gives the chunks of a
file, each as a function yet to be called, so that what costs most can be done in threads. Damage in a file is no error:
what could be read counts, and a bad record says where the rest was lost.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MALFORMED_RECORD, UNREADABLE_BLOCK, UNREADABLE_REST = "malformed-record", "unreadable-block", "unreadable-rest"
MALFORMED_MESSAGE, EMPTY_MESSAGE, UNKNOWN_SCHEMA = "malformed-message", "empty-message", "unknown-schema"
LOST_OFFSETS, FILE_CHANGED = "lost-offsets", "file-changed"
READ_ERRORS = (OSError, EOFError, ValueError, zlib.error, pa.ArrowException)


@dataclass(frozen=True)
class BadRecord:
    """A record that could not be read at all, or the first of several."""

    position: int
    record: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Chunk:
    """Some records of a file, in their order, with the types they have there.

    Attributes:
        first: position of the first record in the file, counted from 0: in lines for JSON lines, else in records.
        columns: the fields asked for (task, worker, label, time), each an Arrow array.
        bad: the records that could not be read.
        positions: positions of the records in `columns`, when they are not consecutive.
    """

    first: int
    columns: dict[str, Any]
    bad: tuple[BadRecord, ...] = ()
    positions: Any = None


LazyChunk = Callable[[], Chunk]


@dataclass(frozen=True)
class FilePart:
    """A file, or a part of one, that one worker reads.

    Attributes:
        path: the file.
        source: number of the file among the inputs.
        role: "labels" or "gold".
        format: parquet, avro, csv or jsonl.
        columns: (field, column) pairs: what to read, and what it is called in the file.
        first: position of the part's first record in the file.
        row_groups: (first, last + 1) row groups of a Parquet file; all when None.
        span: (first, last + 1) bytes of plain CSV or JSON lines, whole records; all when None.
        address: of the warehouse that the file was fetched from; empty when it is nobody's copy.
    """

    path: str
    source: int
    role: str
    format: str
    columns: tuple[tuple[str, str], ...]
    first: int = 0
    row_groups: tuple[int, int] | None = None
    address: str = ""
    span: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """What a person calls the source."""
        return self.address or self.path


def as_array(column: Any) -> pa.Array:
    """One Arrow array of a column that may be in pieces."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        column = column.cast(pa.large_binary())
    return column.combine_chunks()


def is_damage(error: BaseException) -> bool:
    """Whether `error` tells of a file's content: Arrow's plain OSError does, an error of the system may go away."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    return isinstance(error, READ_ERRORS)


def unreadable_rest(position: int, error: BaseException | str) -> Chunk:
    """What stands for all records from `position` on."""
    why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    detail = f"From here on the file cannot be read: {why}. The records before were read."
    return Chunk(position, {}, (BadRecord(position, "", UNREADABLE_REST, detail),))


def unreadable_block(position: int, n_records: int, error: BaseException) -> BadRecord:
    """What stands for a damaged block of a file whose other blocks can be read."""
    why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    detail = f"A block of {n_records} records cannot be read: {why}. The records before and after it were read."
    return BadRecord(position, "", UNREADABLE_BLOCK, detail)
