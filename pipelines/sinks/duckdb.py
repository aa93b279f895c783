"""Runs in a DuckDB file: Arrow tables straight in, one transaction a run.

DuckDB lets one process at a time write a file; a loader waits for the other to let go of it, and then gives up.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

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
    table_doc,
    table_schema,
)
from pipelines.sinks.sql import RunsTable, create_statements, extend_statements, listed, place_of, quoted
from pipelines.sinks.warehouse import LastRun, LoadedRun, refuse_others, refuse_strange, refuse_torn

PATIENCE_S = 60.0
SCHEMA = "main"
_TYPES = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.float64(): "DOUBLE"}
_TYPES |= {pa.bool_(): "BOOLEAN", pa.map_(pa.string(), pa.float64()): "MAP(VARCHAR, DOUBLE)"}
_SIGN, _SIGN_AT = b"DUCK", 8  # behind a checksum
_PAUSE_S = 0.2
_HELD = "Could not set lock"  # DuckDB's words, of a file that another process has open
_ONE_AT_A_TIME = threading.Lock()  # the file's own lock keeps other processes out, but not other threads
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class DuckDbWarehouse:
    """Tables of a DuckDB file.

    Attributes:
        path: the file; it is made when it is missing.
        schema: the schema of the tables; it is made when it is missing.
        patience_s: how long a file that another process holds is waited for.
    """

    path: str
    schema: str = SCHEMA
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuses names that are empty."""
        if not self.path.strip() or not self.schema.strip():
            raise InvalidSettingError("The file or the schema of DuckDB has no name; write duckdb:PATH?schema=NAME.")

    def __str__(self) -> str:
        return f"duckdb:{self.path}" + ("" if self.schema == SCHEMA else f"?schema={self.schema}")

    @property
    def local_path(self) -> str:
        """The file."""
        return self.path

    @property
    def has_state(self) -> bool:
        """Loads change the tables of the current state."""
        return True

    def check(self) -> None:
        """Makes what is missing of the tables; raises `InvalidSettingError` when they cannot be used."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise InvalidSettingError(f"The folder {folder} of the DuckDB file is not there; make it first.")
        if os.path.isfile(self.path) and not _is_database(self.path):
            raise InvalidSettingError(f"{self.path} is no DuckDB file. Give one, or a name that is free.")
        try:
            self._connected(self._make_tables)
        except duckdb().Error as error:
            raise InvalidSettingError(f"{self} cannot be used: {first_line(error)}.") from error

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded: of its highest version."""
        return self._told_by_runs(lambda runs, torn: runs.last(ledger)._replace(torn=torn), LastRun())

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded."""
        return self._told_by_runs(lambda runs, _: runs.ledgers(), frozenset())

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there."""
        tables = LoadTables.of(run)
        try:
            return self._connected(lambda connection: self._load(connection, tables))
        except duckdb().Error as error:
            raise RunError(
                f"{self} did not take run {run.run_id}: {first_line(error)}. Load it again: a run is loaded "
                "wholly or not at all, and never twice."
            ) from error

    def _told_by_runs(self, question: Callable[[RunsTable, bool], _Found], nothing: _Found) -> _Found:
        """What the table of runs answers, told whether a table is gone; `nothing` when there is no such table."""
        if not os.path.exists(self.path):
            return nothing
        try:
            return self._connected(lambda one: question(self._runs(one), bool(self._gone(one))), read_only=True)
        except duckdb().CatalogException:
            return nothing
        except duckdb().Error as error:
            raise RunError(f"{self} does not tell which runs it holds: {first_line(error)}.") from error

    def _runs(self, connection: Any) -> RunsTable:
        return RunsTable(place_of(self.schema, RUNS), partial(_rows, connection), "?")

    def _connected(self, action: Callable[[Any], _Found], *, read_only: bool = False) -> _Found:
        """What `action` gives for a connection, in one transaction."""
        with _ONE_AT_A_TIME, closing(self._connect(read_only)) as connection:
            connection.begin()
            found = action(connection)
            connection.commit()
            return found

    def _connect(self, read_only: bool) -> Any:
        began = time.monotonic()
        while True:
            try:
                return duckdb().connect(self.path, read_only=read_only)
            except duckdb().IOException as error:
                if _HELD not in str(error) or time.monotonic() - began > self.patience_s:
                    raise
            time.sleep(_PAUSE_S)

    def _load(self, connection: Any, tables: LoadTables) -> Mapping[str, int]:
        self._make_tables(connection)
        runs, gone = self._runs(connection), self._gone(connection)
        refuse_others(self, runs.ledgers(), tables.run)
        there = runs.holds(tables.run)
        refuse_torn(self, gone, tables.run, runs.last(tables.run.ledger), there=there)
        if there and not gone:
            return {}
        for name in gone:
            self._make_table(connection, name)
        if there:
            return {name: self._load_table(connection, name, tables, ()) for name in CURRENT}
        stayed = {}
        for name in schemas.TABLES:
            appended = [one for one, made_of in APPENDED.items() if made_of == name]
            stayed[name] = self._load_table(connection, name, tables, appended)
        self._insert(connection, RUNS, tables.run_row())
        return rows_written(tables, {name: stayed[name] for name in CURRENT})

    def _load_table(self, connection: Any, name: str, tables: LoadTables, appended: Sequence[str]) -> int:
        """Brings the run's table `name` to where it belongs, part by part; gives the rows in the current state."""
        if name in CURRENT and tables.replaces(name):
            _rows(connection, f"DELETE FROM {place_of(self.schema, name)}")  # noqa: S608 - ours, quoted
        n_rows = 0
        for part in tables.parts(name):
            if name in CURRENT:
                if not tables.replaces(name):
                    self._delete(connection, name, part)
                n_rows += self._insert(connection, name, part, STAYS.get(name, "true"))
            for one in appended:
                self._insert(connection, one, part)
        return n_rows

    def _make_tables(self, connection: Any) -> None:
        """Makes the schema, the tables and the columns that are missing; what is there stays as it is.

        A table of the current state that was dropped is made by the load that fills it.
        """
        _rows(connection, f"CREATE SCHEMA IF NOT EXISTS {quoted(self.schema)}")
        gone = self._gone(connection)
        for name in TABLES:
            if name not in gone:
                self._make_table(connection, name)

    def _make_table(self, connection: Any, name: str) -> None:
        names = self._columns_there(connection, name)
        if names and "run_id" not in names:
            raise InvalidSettingError(
                f"The schema {self.schema} of {self.path} holds a table {name} of something else. "
                "Give another schema for what is loaded, with ?schema=NAME."
            )
        place, fields = place_of(self.schema, name), table_schema(name)
        kinds, missing = {one.name: _TYPES[one.type] for one in fields}, [f for f in fields if f.name not in names]
        strange = self._columns_there(connection, name, "is_nullable = 'NO' AND column_default IS NULL")
        refuse_strange(f"{name} of {self}", sorted(strange - set(fields.names)), [one.name for one in missing])
        key = ("run_id",) if name == RUNS else ()
        made = [] if names else create_statements(place, fields, kinds, key, table_doc(name))
        for statement in made or extend_statements(place, missing, kinds):
            _rows(connection, statement)

    def _columns_there(self, connection: Any, name: str, which: str = "true") -> set[str]:
        """The columns of a table, or such of them; none when there is no such table."""
        sql = (
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database()"  # noqa: S608 - ours
            f" AND table_schema = ? AND table_name = ? AND {which}"
        )
        return {row[0] for row in _rows(connection, sql, [self.schema, name])}

    def _gone(self, connection: Any) -> list[str]:
        """Tables of the current state that were dropped after runs were loaded."""
        if not self._columns_there(connection, RUNS) or not self._runs(connection).ledgers():
            return []
        return [name for name in CURRENT if not self._columns_there(connection, name)]

    def _delete(self, connection: Any, name: str, part: pa.Table) -> None:
        """Removes the rows that have a key of `part`."""
        same = " AND ".join(f"kept.{quoted(one)} = part.{quoted(one)}" for one in CURRENT[name])
        connection.register("part", part)
        _rows(connection, f"DELETE FROM {place_of(self.schema, name)} AS kept USING part WHERE {same}")  # noqa: S608 - ours, quoted

    def _insert(self, connection: Any, name: str, part: pa.Table, which: str = "true") -> int:
        columns = listed(table_schema(name).names)
        into = f"INSERT INTO {place_of(self.schema, name)} ({columns})"
        connection.register("part", part)
        found = f"SELECT {columns} FROM part WHERE {which}"  # noqa: S608 - ours, quoted
        return int(_rows(connection, f"{into} {found}")[0][0])


def duckdb() -> Any:
    """The client library."""
    try:
        import duckdb
    except ImportError as error:
        raise InvalidSettingError("DuckDB needs the duckdb package: pip install 'crowdbeam[duckdb]'.") from error
    return duckdb


def _rows(connection: Any, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs a statement to its end; gives its rows, or how many it changed."""
    found: list[tuple[Any, ...]] = connection.execute(sql, list(values)).fetchall()
    return found


def _is_database(path: str) -> bool:
    """Whether a file begins as DuckDB's do: it would open some others as tables, and forget what is loaded."""
    with open(path, "rb") as file:
        begin = file.read(_SIGN_AT + len(_SIGN))
    return begin[_SIGN_AT:] == _SIGN
