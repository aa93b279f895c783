"""Rows to Postgres: a table each for scores, skills, graph and rejects, with one row an id: the latest.

Rows wait until the flush. It copies them to a temporary table and merges them in one transaction: a row takes the place
of one with a lower revision, and of no other. So it does not matter how often, or in what order, rows are written.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.errors import InputError, InvalidSettingError, RunError, first_line
from pipelines.patience import until_done
from pipelines.sinks import KEYS
from pipelines.sinks.latest import as_rows, latest, rows_schema
from pipelines.sinks.postgres_client import SCHEMA, check_address, connect, copy_waiting, psycopg
from pipelines.sinks.postgres_copy import with_short_ids, without_nul
from pipelines.sinks.postgres_tables import make_tables, merge_sql

PATIENCE_S = 600.0
_MOST_ROWS = 500_000


@dataclass(frozen=True)
class PostgresTarget:
    """Tables of a Postgres database.

    Attributes:
        dsn: an address as libpq takes it, without a password: that comes from PGPASSWORD, ~/.pgpass or a service file.
        schema: the schema of the tables; it is made when it is missing.
        patience_s: how long a server that is away is waited for.
    """

    dsn: str
    schema: str = SCHEMA
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuses a password, and a schema without a name."""
        check_address(self.dsn, self.schema)

    def check(self) -> None:
        """Makes what is missing of the tables, and tries a write without rows; raises when that cannot be done."""
        pg = psycopg()
        try:
            connection = connect(self.dsn)
        except pg.OperationalError as error:
            raise InputError(
                f"Postgres cannot be reached: {first_line(error)}. See that it runs, and that the address, "
                "the user and the password (PGPASSWORD, ~/.pgpass) are right."
            ) from error
        try:
            with connection, connection.cursor() as cursor:
                make_tables(cursor, self.schema)
                for name in KEYS:
                    _merge(cursor, self.schema, name, rows_schema(name).empty_table())
        except pg.Error as error:
            raise InvalidSettingError(
                f"The tables in schema {self.schema} of Postgres cannot be used: {first_line(error)}. "
                "Give the user its rights, or another schema with ?schema=NAME."
            ) from error

    def open(self) -> "PostgresSink":
        """A connection, made at the first flush."""
        return PostgresSink(self)


class PostgresSink:
    """Rows that wait, and a connection; several threads may share it. After a failure it stays failed.

    Attributes:
        retries: how often a transaction was begun anew.
    """

    def __init__(self, target: PostgresTarget) -> None:
        self.retries = 0
        self._target = target
        self._waiting: dict[str, list[pa.Table]] = {name: [] for name in KEYS}
        self._n_waiting = 0
        self._connection: Any = None
        self._failure = ""
        self._lock = threading.RLock()

    def write(self, name: str, table: pa.Table) -> None:
        """Keeps rows for the flush."""
        with self._lock:
            self._raise_if_failed()
            self._waiting[name].append(as_rows(name, table))
            self._n_waiting += table.num_rows
            if self._n_waiting > _MOST_ROWS:
                self.flush()

    def flush(self) -> None:
        """Merges what waits, in one transaction, again and again until it is done or the patience ends."""
        with self._lock:
            self._raise_if_failed()
            tables = {name: _storable(name, found) for name, found in self._waiting.items() if found}
            if tables:
                self._until_done(lambda: self._merge_all(tables))
            self._waiting = {name: [] for name in KEYS}
            self._n_waiting = 0

    def close(self) -> None:
        """Closes the connection; what waits is forgotten."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _merge_all(self, tables: dict[str, pa.Table]) -> None:
        if self._connection is None:
            self._connection = connect(self._target.dsn)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for name, table in tables.items():
                _merge(cursor, self._target.schema, name, table)

    def _until_done(self, action: Callable[[], None]) -> None:
        pg = psycopg()
        away = (pg.OperationalError, pg.InterfaceError, pg.errors.ReadOnlySqlTransaction)
        try:
            until_done(action, "Postgres took no rows", self._target.patience_s, self._begin_anew, away)
        except RunError as error:
            raise self._failed(str(error)) from error
        except pg.Error as error:
            raise self._failed(f"Postgres refused rows: {first_line(error)}.") from error

    def _begin_anew(self) -> None:
        self.close()  # the state of the connection is unknown
        self.retries += 1

    def _failed(self, sentence: str) -> RunError:
        self._failure = sentence
        return RunError(sentence)

    def _raise_if_failed(self) -> None:
        if self._failure:
            raise RunError(self._failure)


def _storable(name: str, tables: list[pa.Table]) -> pa.Table:
    """The rows that are to be merged, in the order of ids: two writers then never wait for each other."""
    return latest(name, with_short_ids(without_nul(pa.concat_tables(tables)), KEYS[name]))


def _merge(cursor: Any, schema: str, name: str, table: pa.Table) -> None:
    drop = copy_waiting(cursor, name, rows_schema(name), table)
    cursor.execute(merge_sql(schema, name))
    cursor.execute(drop)
