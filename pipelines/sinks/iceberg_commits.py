"""Changes of Iceberg tables: rows appended, a table replaced, rows with certain keys exchanged, in one transaction.

Rows with certain keys are exchanged file by file: of the data files whose range of keys permits it the keys are read,
and only files that hold one of them are written again. pyiceberg's own upsert compares row by row, many times slower.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table, Transaction

Marks = Mapping[str, str]


def append(change: Transaction, parts: Iterable[pa.Table], schema: pa.Schema, marks: Marks) -> int:
    """Adds rows, which need not fit into memory; gives how many."""
    reader, n_rows = _reader(parts, schema)
    change.append(reader, dict(marks))
    return n_rows()


def replace(table: Table, change: Transaction, parts: Iterable[pa.Table], schema: pa.Schema, marks: Marks) -> int:
    """Puts rows into the place of all there are; gives how many."""
    if _files(table):
        change.delete(AlwaysTrue(), dict(marks))
    return append(change, parts, schema, marks)


def exchange(
    table: Table, change: Transaction, gone: pa.Table, parts: Iterable[pa.Table], schema: pa.Schema, marks: Marks
) -> int:
    """Takes out the rows whose keys are in `gone` and adds others; files without such rows stay. Gives how many."""
    found = [(file, hits) for file in _files(table, gone) if (hits := _hits(table, file, gone)).any()]
    if found:
        with change.update_snapshot(dict(marks)).overwrite() as overwritten:
            for file, _ in found:
                overwritten.delete_data_file(file.file)
    stay = (_rows(table, file, schema.names).filter(pa.array(~hits)) for file, hits in found)
    n_stay = sum(int(np.count_nonzero(~hits)) for _, hits in found)
    return append(change, chain(stay, parts), schema, marks) - n_stay


def _files(table: Table, gone: pa.Table | None = None) -> list[FileScanTask]:
    """The table's data files; with `gone`, those whose ranges permit one of its keys."""
    if table.current_snapshot() is None or (gone is not None and not gone.num_rows):
        return []
    scan = table.scan()
    if gone is not None:
        first = gone.column_names[0]
        ends = pc.min_max(gone.column(first)).as_py()
        key, low, high = Reference(first), literal(ends["min"]), literal(ends["max"])
        scan = table.scan(And(GreaterThanOrEqual(term=key, value=low), LessThanOrEqual(term=key, value=high)))
    return list(scan.plan_files())


def _hits(table: Table, file: FileScanTask, gone: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """(rows of the file,) whether the row's key is in `gone`."""
    keys = pl.DataFrame(pl.from_arrow(_rows(table, file, gone.column_names)))
    found = keys.with_row_index("row").join(pl.DataFrame(pl.from_arrow(gone)), on=gone.column_names, how="semi")
    hits = np.zeros(keys.height, np.bool_)
    hits[found["row"].to_numpy()] = True
    return hits


def _rows(table: Table, file: FileScanTask, columns: Sequence[str]) -> pa.Table:
    """All rows of a file that count, in their order."""
    schema = table.schema().select(*columns)
    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table([file]).select(columns)


def _reader(parts: Iterable[pa.Table], schema: pa.Schema) -> tuple[pa.RecordBatchReader, Callable[[], int]]:
    """A reader of all parts, and how many rows it has given so far."""
    given = [0]

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            given[0] += part.num_rows
            yield from part.cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches()), lambda: given[0]
