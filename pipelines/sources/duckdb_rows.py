"""Labels from a DuckDB file, which is opened to be read only."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pipelines.errors import InputError, first_line
from pipelines.sinks.sql import listed, quoted
from pipelines.sources.warehouse_addresses import WarehouseAddress
from pipelines.sources.warehouse_rows import ROWS_PER_BATCH, missing_package, no_table, refused

_TABLES = "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"


class DuckDbRows:
    """The rows of a query to an open file."""

    def __init__(self, connection: Any, address: WarehouseAddress, query: str) -> None:
        self._connection, self._address, self._query = connection, address, query
        self.names: list[str] = list(self._relation("*").columns)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows; DuckDB makes Arrow's batches itself, as they are asked for."""
        import duckdb

        try:
            relation = self._relation(listed(columns))
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # until DuckDB 1.4
            yield from reader(ROWS_PER_BATCH)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise refused(self._address, error) from error

    def _relation(self, columns: str) -> Any:
        return self._connection.sql(f"SELECT {columns} FROM ({self._query}\n) AS labels")  # noqa: S608 - the user's own


@contextmanager
def open_rows(address: WarehouseAddress) -> Iterator[DuckDbRows]:
    """The rows of the address, as long as the file is open."""
    try:
        import duckdb
    except ImportError as error:
        raise missing_package(address, "duckdb") from error
    query = address.sql() if address.query else f"FROM {'.'.join(map(quoted, address.table))}"
    if not os.path.isfile(address.place):
        raise InputError(f"{address.text} names the file {address.place}, which is not there. Check the path.")
    try:
        connection = duckdb.connect(address.place, read_only=True)
    except duckdb.Error as error:
        raise InputError(
            f"The DuckDB file {address.place} cannot be opened: {first_line(error)}. If another program writes to it, "
            "wait for its end; if it is none of DuckDB's files, give another."
        ) from error
    with connection:
        connection.execute("SET python_enable_replacements = false")  # a table is a table, no variable of ours
        connection.execute("SET enable_progress_bar = false")
        try:
            rows = DuckDbRows(connection, address, query)
        except duckdb.CatalogException as error:
            if address.query:
                raise refused(address, error) from error
            raise no_table(address, connection.execute(_TABLES).fetchall()) from error
        except duckdb.Error as error:
            raise refused(address, error) from error
        yield rows
