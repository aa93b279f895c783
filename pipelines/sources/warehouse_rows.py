"""What a warehouse has to give that is read: the names of its columns, then some of them in batches.

A module for each warehouse has one function, ``open_rows(address)``, a context manager that gives `WarehouseRows`. It
raises `InputError` when the warehouse cannot be reached, when the table is not there, or when the query is wrong.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pipelines.errors import InputError, first_line
from pipelines.sources.warehouse_addresses import WarehouseAddress

ROWS_PER_BATCH = 1 << 16
_SHOWN = 5
_SCHEMA_AND_TABLE = 2
_LIKE = 0.6


class WarehouseRows(Protocol):
    """The rows of a table or of a query, while the connection is open."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns, in the order in which the warehouse gives them; all of one schema."""


def no_table(address: WarehouseAddress, tables: Iterable[Sequence[str]]) -> InputError:
    """What to say when the table is not among `tables`, each the parts of a name: it names those that are near.

    They are named with their schema: without it a table may not be found, and those of several schemas look alike.
    """
    names = sorted({tuple(parts[-max(len(address.table), _SCHEMA_AND_TABLE) :]) for parts in tables})
    near = _near(address.table, names) or [name for name in names if name[-1] == address.table[-1]]
    shown = near or names
    there = ", ".join([".".join(name) for name in shown[:_SHOWN]] + ["…"] * (len(shown) > _SHOWN))
    hint = f"Did you mean {there}?" if near else f"There are {there}." if there else "There are no tables."
    hint = hint.replace("….", "…")
    return InputError(f"{address.text} names the table {address.table_name}, which is not there. {hint}")


def _near(wanted: Sequence[str], names: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The names like `wanted` in each of their parts, the nearest first: a schema in common makes no tables alike."""

    def likeness(name: Sequence[str]) -> list[float]:
        pairs = zip(reversed(wanted), reversed(name), strict=False)
        return [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]

    alike = [name for name in names if min(likeness(name)) >= _LIKE]
    return sorted(alike, key=lambda name: -sum(likeness(name)))


def refused(address: WarehouseAddress, error: BaseException) -> InputError:
    """What to say when the warehouse refuses a query, or stops in the middle of it."""
    what = f"The query {address.query}" if address.query else f"The table {address.table_name}"
    return InputError(f"{what} of {address.text} cannot be read: {first_line(error)}.")


def missing_package(address: WarehouseAddress, package: str) -> InputError:
    """What to say when the client library is not installed."""
    return InputError(f"{address.text} needs the {package} package: pip install 'crowdbeam[{address.kind}]'.")
