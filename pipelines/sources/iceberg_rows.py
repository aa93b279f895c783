"""Labels from an Iceberg table, by pyiceberg; the catalog is one of its own configuration."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from pipelines.errors import InputError, first_line
from pipelines.sources.warehouse_addresses import WarehouseAddress
from pipelines.sources.warehouse_rows import missing_package, no_table

_SHOWN = 40
_Told: TypeAlias = Callable[[], AbstractContextManager[None]]  # errors of the client become sentences without secrets


class IcebergRows:
    """The rows of a table, or of those of them that a filter lets through."""

    def __init__(self, table: Any, address: WarehouseAddress, told: _Told) -> None:
        self._table, self._told = table, told
        self._filter = _filter_of(table, address)
        self.names: list[str] = [field.name for field in table.schema().fields]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the current snapshot, file by file."""
        with self._told():
            scan = self._table.scan(row_filter=self._filter, selected_fields=tuple(columns))
            for batch in scan.to_arrow_batch_reader():
                yield batch.select(list(columns))


@contextmanager
def open_rows(address: WarehouseAddress) -> Iterator[IcebergRows]:
    """The rows of the address; nothing stays open, and no error holds a secret of the catalog."""
    try:
        from pyiceberg import exceptions

        from pipelines.sinks.iceberg_tables import opened, secrets_of, told
    except ImportError as error:
        raise missing_package(address, "pyiceberg") from error
    with opened(address.place, InputError) as catalog:
        failure = f"The table {address.table_name} of {address.text} cannot be read"
        tell: _Told = partial(told, failure, InputError, secrets_of(catalog), ValueError)
        with tell():
            try:
                table = catalog.load_table(address.table)
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError) as error:
                raise no_table(address, _tables(catalog, exceptions.NoSuchNamespaceError)) from error
        yield IcebergRows(table, address, tell)


def _filter_of(table: Any, address: WarehouseAddress) -> Any:
    """The filter, bound to the table's columns once, so that a wrong one is known before anything is read."""
    from pyiceberg.expressions import AlwaysTrue, parser
    from pyiceberg.expressions.visitors import bind
    from pyparsing import ParseException

    if not address.filter:
        return AlwaysTrue()
    try:
        found = parser.parse(address.filter)
        bind(table.schema(), found, case_sensitive=True)
    except (ParseException, ValueError, TypeError) as error:
        said = first_line(error)
        if isinstance(error, ParseException):  # whose own words are the whole grammar
            said = f"it cannot be read from {address.filter[error.loc :][:_SHOWN]!r} on"
        raise InputError(
            f"The filter of {address.text} cannot be used: {said}. Write one as pyiceberg reads it, for "
            "example ?filter=day >= '2026-01-31'."
        ) from error
    return found


def _tables(catalog: Any, no_namespace: type[Exception]) -> list[tuple[str, ...]]:
    """The tables of all namespaces, as far as they can be listed."""
    try:
        return [table for namespace in catalog.list_namespaces() for table in catalog.list_tables(namespace)]
    except no_namespace:  # one has gone meanwhile
        return []
