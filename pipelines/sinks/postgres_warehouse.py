"""Runs in Postgres: rows are copied into temporary tables, then one transaction changes all tables, or none.

A loader holds a lock while its transaction lasts, so a second one waits and then sees what the first has loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import schemas
from pipelines.errors import InvalidSettingError, RunError, first_line
from pipelines.sinks.loads import (
    APPENDED,
    CURRENT,
    RUNS,
    STAYS,
    TABLES,
    LoadTables,
    rows_written,
    table_schema,
)
from pipelines.sinks.postgres_client import SCHEMA, check_address, connect, copy_waiting, psycopg
from pipelines.sinks.postgres_copy import with_short_ids, without_nul
from pipelines.sinks.postgres_tables import kinds_of, make_schema, waiting
from pipelines.sinks.sql import listed, place_of, quoted
from pipelines.sinks.sql_tables import SqlTables
from pipelines.sinks.warehouse import LastRun, LoadedRun

_KEYS = {**CURRENT, RUNS: ("run_id",)}
_LOCK = 0x63726F77  # "crow": with the schema's name, one loader at a time
PATIENCE_S = 60.0
_RIGHTS = ("SELECT", "INSERT", "DELETE")
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class PostgresWarehouse:
    """Tables of a Postgres database.

    Attributes:
        dsn: an address as libpq takes it, without a password: that comes from PGPASSWORD, ~/.pgpass or a service file.
        schema: the schema of the tables; it is made when it is missing.
        patience_s: how long a table that others have locked is waited for.
    """

    dsn: str
    schema: str = SCHEMA
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuses a password, and a schema without a name."""
        check_address(self.dsn, self.schema)

    def __str__(self) -> str:
        if self.schema == SCHEMA:
            return self.dsn
        return f"{self.dsn}{'&' if '?' in self.dsn else '?'}schema={self.schema}"

    @property
    def local_path(self) -> str:
        """Nothing: it is no file."""
        return ""

    @property
    def has_state(self) -> bool:
        """Loads change the tables of the current state."""
        return True

    def check(self) -> None:
        """Makes what is missing of the tables; raises `InvalidSettingError` when they cannot be used."""
        pg = psycopg()
        try:
            with closing(self._connect()) as connection, connection.transaction(), connection.cursor() as cursor:
                self._make_tables(cursor)
                self._check_rights(cursor)
        except pg.errors.LockNotAvailable as error:
            raise RunError(self._locked("cannot be used")) from error
        except pg.OperationalError as error:
            raise InvalidSettingError(
                f"Postgres cannot be reached: {first_line(error)}. See that it runs, and that the address, "
                "the user and the password (PGPASSWORD, ~/.pgpass) are right."
            ) from error
        except pg.Error as error:
            raise InvalidSettingError(
                f"The tables in schema {self.schema} of Postgres cannot be used: {first_line(error)}. "
                "Give the user its rights, or another schema with ?schema=NAME."
            ) from error

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded: of its highest version."""
        return self._asked(lambda tables: tables.last_run(ledger))

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded."""
        return self._asked(SqlTables.ledgers)

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there."""
        tables = LoadTables.of(run)
        pg = psycopg()
        try:
            with closing(self._connect()) as connection:
                connection.autocommit = True
                return self._load(connection, tables)
        except pg.errors.LockNotAvailable as error:
            raise RunError(self._locked(f"did not take run {run.run_id}")) from error
        except pg.Error as error:
            raise RunError(
                f"Postgres did not take run {run.run_id}: {first_line(error)}. Load it again: a run is loaded "
                "wholly or not at all, and never twice."
            ) from error

    def _asked(self, question: Callable[[SqlTables], _Found]) -> _Found:
        """What the tables answer."""
        pg = psycopg()
        try:
            with closing(self._connect()) as connection, connection.cursor() as cursor:
                return question(self._tables(cursor))
        except pg.errors.LockNotAvailable as error:
            raise RunError(self._locked("does not tell which runs it holds")) from error
        except pg.Error as error:
            raise RunError(f"Postgres does not tell which runs it holds: {first_line(error)}.") from error

    def _connect(self) -> Any:
        """A connection that waits no longer for a lock than there is patience."""
        connection = connect(self.dsn)
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{self.patience_s * 1000:.0f}ms",))
        connection.commit()
        return connection

    def _locked(self, failure: str) -> str:
        return (
            f"{self} {failure}: others have had a table in schema {self.schema} locked for {self.patience_s:g} s. "
            "See who in pg_locks and pg_stat_activity, have them end their transaction, and run it again; nothing has "
            "changed."
        )

    def _tables(self, cursor: Any) -> SqlTables:
        return SqlTables(str(self), "Postgres", self.schema, partial(_rows, cursor), "%s", kinds_of, _KEYS, _whose)

    def _load(self, connection: Any, loads: LoadTables) -> Mapping[str, int]:
        with connection.cursor() as cursor:
            tables = self._tables(cursor)
            with connection.transaction():
                self._make_tables(cursor)
            if tables.is_there(loads.run):
                return {}
            for name in schemas.TABLES:
                _copy(cursor, name, loads)
            with connection.transaction():
                self._wait_for_turn(cursor)
                if tables.is_there(loads.run):
                    return {}
                refilled = tables.runs.holds(loads.run)
                tables.make_again()
                stayed = {name: self._replace(cursor, name, whole=loads.replaces(name)) for name in CURRENT}
                if refilled:
                    return stayed
                for name, made_of in APPENDED.items():
                    self._insert(cursor, name, made_of)
                self._insert_run(cursor, loads)
        return rows_written(loads, stayed)

    def _wait_for_turn(self, cursor: Any) -> None:
        """Waits for other loaders, however long: they have their patience with locked tables."""
        cursor.execute("SELECT set_config('lock_timeout', '0', true)")
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self.schema))
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{self.patience_s * 1000:.0f}ms",))

    def _make_tables(self, cursor: Any) -> None:
        """Makes the schema, the tables and the columns that are missing."""
        make_schema(cursor, self.schema)
        self._tables(cursor).make()

    def _check_rights(self, cursor: Any) -> None:
        gone = self._tables(cursor).gone()
        for name in (one for one in TABLES if one not in gone):
            place = place_of(self.schema, name)
            for right in _RIGHTS:
                cursor.execute("SELECT current_user, has_table_privilege(%s, %s)", (place, right))
                user, granted = cursor.fetchone()
                if not granted:
                    raise InvalidSettingError(
                        f"The user {user} of Postgres may not {right} in {place}. Give the right: "
                        f"GRANT {', '.join(_RIGHTS)} ON ALL TABLES IN SCHEMA {quoted(self.schema)} TO {quoted(user)}."
                    )

    def _replace(self, cursor: Any, name: str, *, whole: bool) -> int:
        """The rows that wait take the place of those of their key, or of all; gives how many there are of them."""
        place, key = place_of(self.schema, name), CURRENT[name]
        if whole:
            cursor.execute(f"DELETE FROM {place}")  # noqa: S608 - ours, quoted
        else:
            same = " AND ".join(f"kept.{quoted(one)} = new.{quoted(one)}" for one in key)
            cursor.execute(f"ANALYZE {waiting(name)}")
            cursor.execute(f"DELETE FROM {place} AS kept USING {waiting(name)} AS new WHERE {same}")  # noqa: S608 - ours, quoted
        return self._insert(cursor, name, name, f"WHERE {STAYS.get(name, 'true')} ON CONFLICT DO NOTHING")

    def _insert(self, cursor: Any, name: str, made_of: str, which: str = "") -> int:
        names = listed(table_schema(name).names)
        into, found = f"INSERT INTO {place_of(self.schema, name)} ({names})", f"SELECT {names} FROM {waiting(made_of)}"  # noqa: S608 - ours, quoted
        cursor.execute(f"{into} {found} {which}")
        return int(cursor.rowcount)

    def _insert_run(self, cursor: Any, tables: LoadTables) -> None:
        (row,) = tables.run_row().to_pylist()
        values = ", ".join("%s" for _ in row)
        into = f"INSERT INTO {place_of(self.schema, RUNS)} ({listed(list(row))}) VALUES ({values})"  # noqa: S608 - ours, quoted
        cursor.execute(into, list(row.values()))


def _copy(cursor: Any, name: str, tables: LoadTables) -> None:
    """Copies the run's table `name` to where its rows wait; of no rows too, so that there is such a place."""
    fields = table_schema(name)
    copy_waiting(cursor, name, fields, fields.empty_table())
    for part in tables.parts(name):
        copy_waiting(cursor, name, fields, with_short_ids(without_nul(part), CURRENT.get(name, ())))


def _rows(cursor: Any, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs a statement; gives its rows, if it has any."""
    cursor.execute(sql, values or None)
    return cursor.fetchall() if cursor.description else []


def _whose(name: str, columns: set[str]) -> str:
    return "of a stream" if "revision" in columns or name == "rejects" else "of something else"
