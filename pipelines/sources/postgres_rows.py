"""Labels from Postgres: COPY as CSV, which Arrow reads block by block; no value becomes an object of Python's.

Values are asked for as the texts that the same values give in a file (see `pipelines.texts`). Only floats have to be
numbers for that, and bytes come as hexadecimal digits.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from pipelines.errors import InputError, first_line
from pipelines.sources.warehouse_addresses import WarehouseAddress
from pipelines.sources.warehouse_rows import ROWS_PER_BATCH, missing_package, no_table, refused

_CONNECT_S = 10
_SETTINGS = "SET datestyle = 'ISO'; SET timezone = 'UTC'; SET extra_float_digits = 1; SET bytea_output = 'hex'"
_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
_BOOL, _BYTEA, _BPCHAR, _TIMESTAMPTZ, _NUMERIC = 16, 17, 1042, 1184, 1700
_FLOATS = {700: pa.float32(), 701: pa.float64()}
_AS_TEXT = {
    _BOOL: "{}::text",
    _BPCHAR: "{}::text",
    _BYTEA: "encode({}, 'hex')",
    _NUMERIC: "nullif(trim_scale({})::text, 'NaN')",
    _TIMESTAMPTZ: "({} AT TIME ZONE 'UTC')::text || 'Z'",
}


class PostgresRows:
    """The rows of a query, on an open connection."""

    def __init__(self, connection: Any, address: WarehouseAddress, query: Any) -> None:
        self._connection, self._address = connection, address
        from psycopg import sql

        self._from = sql.SQL(" FROM (") + query + sql.SQL("\n) AS labels")
        found = connection.execute(sql.SQL("SELECT *") + self._from + sql.SQL(" LIMIT 0")).description or []
        self.names: list[str] = [column.name for column in found]
        self._types: dict[str, int] = {column.name: column.type_code for column in found}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, as COPY gives them: a message is a row, some thousands of them are a block."""
        import psycopg

        names = list(columns)
        try:
            with self._connection.cursor() as cursor, cursor.copy(self._copy(names)) as copy:
                messages = iter(copy)
                while rows := list(islice(messages, ROWS_PER_BATCH)):
                    yield from _parsed(b"".join(rows), names, [self._types[name] for name in names])
        except psycopg.Error as error:
            raise refused(self._address, error) from error

    def _copy(self, columns: Sequence[str]) -> Any:
        from psycopg import sql

        wanted = sql.SQL(", ").join(
            sql.SQL(_AS_TEXT.get(self._types[name], "{}")).format(sql.Identifier(name)) for name in columns
        )
        return sql.SQL("COPY (SELECT ") + wanted + self._from + sql.SQL(") TO STDOUT (FORMAT csv)")


@contextmanager
def open_rows(address: WarehouseAddress) -> Iterator[PostgresRows]:
    """The rows of the address, in one transaction that only reads."""
    try:
        import psycopg
        from psycopg import sql
    except ImportError as error:
        raise missing_package(address, "psycopg") from error
    query = sql.SQL(address.sql()) if address.query else sql.SQL("TABLE ") + sql.Identifier(*address.table)
    try:
        connection = psycopg.connect(
            address.place, connect_timeout=_CONNECT_S, application_name="crowdbeam", client_encoding="utf8"
        )
    except psycopg.Error as error:
        raise InputError(
            f"Postgres cannot be reached for {address.text}: {first_line(error)}. See that it runs, and that the "
            "address, the user and the password (PGPASSWORD, ~/.pgpass) are right."
        ) from error
    with connection:
        connection.read_only = True
        connection.execute(_SETTINGS)
        try:
            rows = PostgresRows(connection, address, query)
        except psycopg.errors.UndefinedTable as error:
            connection.rollback()
            if address.query:
                raise refused(address, error) from error
            raise no_table(address, connection.execute(_TABLES).fetchall()) from error
        except psycopg.Error as error:
            raise refused(address, error) from error
        yield rows


def _parsed(data: bytes, names: list[str], types: list[int]) -> list[pa.RecordBatch]:
    """Rows of CSV: what is empty and not in quotes is null."""
    places = [str(place) for place in range(len(names))]
    table = pacsv.read_csv(
        pa.BufferReader(data),
        pacsv.ReadOptions(use_threads=False, block_size=len(data), column_names=places),
        pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pacsv.ConvertOptions(
            column_types={place: _FLOATS.get(kind, pa.binary()) for place, kind in zip(places, types, strict=True)},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for place, kind in enumerate(types):
        if kind == _BYTEA:
            column = [None if one is None else bytes.fromhex(one.decode()) for one in table.column(place).to_pylist()]
            table = table.set_column(place, places[place], pa.array(column, pa.binary()))
    return list(table.rename_columns(names).to_batches())
