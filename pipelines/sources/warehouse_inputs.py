"""Labels from warehouses: fetched into a Parquet file, which is then read like any other.

Batches go from the client to the file as they come, so a large table needs no more memory than a small one. Types stay
as they are wherever Parquet has them; the others become the texts that `pipelines.texts` makes of them.

The checksum is a sum over rows, since a warehouse gives them in any order: the number of rows and the sum of a 64-bit
hash of each, of the texts that its values stand for. The same rows have the same checksum in every warehouse.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.blocks import hash_texts
from pipelines.errors import InputError
from pipelines.sources import storage
from pipelines.sources.warehouse_addresses import WarehouseAddress, is_address, near_form, parse_address
from pipelines.sources.warehouse_rows import WarehouseRows
from pipelines.table_files import write_file
from pipelines.texts import as_bytes

__all__ = ["FetchedInput", "fetch", "is_address", "near_form", "parse_address"]

Columns = Sequence[tuple[str, str]]
_MODULES = {kind: f"pipelines.sources.{kind}_rows" for kind in ("duckdb", "postgres", "iceberg", "bigquery")}
_MIX, _FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class FetchedInput:
    """Rows of a warehouse in a Parquet file.

    Attributes:
        path: the file; there is none when there are no rows.
        address: where they came from, without anything secret.
        kind: "duckdb", "postgres", "iceberg" or "bigquery".
        rows: how many.
        checksum: ``rows:`` and 32 hexadecimal digits: the number of rows, and the sum of their hashes.
        size_bytes: of the file.
        columns: (field, column) pairs: what was fetched.
    """

    path: str
    address: str
    kind: str
    rows: int
    checksum: str
    size_bytes: int
    columns: tuple[tuple[str, str], ...]


def fetch(address: str, folder: str, columns: Callable[[list[str]], Columns]) -> FetchedInput:
    """Fetches a table, or the result of a query, into a file in `folder`.

    `columns` is given the names of all columns and gives (field, column) pairs, what to fetch; it may raise. Raises
    `InputError` when the rows cannot be had: there is no file then, but there may be the beginning of one.
    """
    parsed = parse_address(address)
    opened: AbstractContextManager[WarehouseRows] = import_module(_MODULES[parsed.kind]).open_rows(parsed)
    with opened as rows:
        chosen = tuple(columns(rows.names))
        names = list(dict.fromkeys(column for _, column in chosen))
        writing = _Writing(rows.batches(names), parsed)
        if not writing.is_empty:
            name = hashlib.sha256(repr((address, chosen)).encode()).hexdigest()[:16]
            path = storage.join(folder, f"{parsed.kind}-{name}.parquet")
            try:
                write_file(path, lambda sink: writing.write(sink, _repeated(chosen)))
            except OSError as error:
                raise InputError(f"{address} cannot be kept in {folder}: {error.strerror or error}.") from error
    if writing.is_empty:
        return FetchedInput("", address, parsed.kind, 0, writing.checksum, 0, chosen)
    return FetchedInput(path, address, parsed.kind, writing.n_rows, writing.checksum, storage.size_of(path), chosen)


class _Writing:
    """Batches on their way to a file, counted and hashed."""

    def __init__(self, batches: Iterator[pa.RecordBatch], address: WarehouseAddress) -> None:
        self._address = address
        self._batches = (_storable(batch) for batch in batches if batch.num_rows)
        self._first = next(self._batches, None)
        self.n_rows = self._sum = 0

    @property
    def is_empty(self) -> bool:
        return self._first is None

    @property
    def checksum(self) -> str:
        return f"rows:{self.n_rows:016x}{self._sum:016x}"

    def write(self, sink: Any, repeated: list[str]) -> None:
        """Writes all batches, nothing when there are none; those of `repeated` columns hold few values."""
        batch = self._first
        if batch is None:
            return
        options = {"use_dictionary": repeated, "compression": "lz4", "write_statistics": False}
        with pq.ParquetWriter(sink, batch.schema, **options) as writer:
            while batch is not None:
                self._add(batch)
                try:
                    writer.write_batch(batch)
                except pa.ArrowException as error:
                    raise InputError(f"The rows of {self._address.text} cannot be kept: {error}.") from error
                batch = next(self._batches, None)

    def _add(self, batch: pa.RecordBatch) -> None:
        self.n_rows += batch.num_rows
        self._sum = (self._sum + int(row_hashes(batch).sum(dtype=np.uint64))) & _MASK


def row_hashes(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """(rows,) a hash of each row's values as texts, in the order of the columns; a null is an empty text."""
    mixed = np.zeros(batch.num_rows, np.uint64)
    for column in batch.columns:
        mixed *= _MIX
        mixed += hash_texts(as_bytes(column).fill_null(b""))
        mixed ^= mixed >> np.uint64(31)
    mixed *= _FINISH
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _repeated(chosen: Columns) -> list[str]:
    return list(dict.fromkeys(column for field, column in chosen if field in ("worker", "label", "op")))


def _storable(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_kept(column) for column in batch.columns], names=batch.schema.names)


def _kept(column: pa.Array) -> pa.Array:
    """The column in a type that Parquet has; times with a zone are in UTC, for the zone is the session's."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind) or pa.types.is_union(kind):
        return as_bytes(column)
    return column
