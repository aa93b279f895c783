"""Sources: one file format a module, all with the same two functions.

`columns_of(path)` names the columns; `chunks_of(part)` gives the chunks of a file, each as a function yet to be called,
so that what costs most can be done in threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class BadRecord:
    """A record that could not be read at all."""

    position: int
    record: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Chunk:
    """Some records of a file, in their order, with the types they have there.

    Attributes:
        first: position of the first record in the file, counted from 0.
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
    """

    path: str
    source: int
    role: str
    format: str
    columns: tuple[tuple[str, str], ...]
    first: int = 0
    row_groups: tuple[int, int] | None = None


def as_array(column: Any) -> pa.Array:
    """One Arrow array of a column that may be in pieces."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks()
