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
    LoadTables,
    rows_written,
    table_schema,
)
from pipelines.sinks.sql import listed, place_of, quoted
from pipelines.sinks.sql_tables import SqlTables
from pipelines.sinks.warehouse import LastRun, LoadedRun

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
        return self._asked(lambda tables: tables.last_run(ledger), LastRun())

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded."""
        return self._asked(SqlTables.ledgers, frozenset())

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

    def _asked(self, question: Callable[[SqlTables], _Found], nothing: _Found) -> _Found:
        """What the tables answer; `nothing` when there is no file."""
        if not os.path.exists(self.path):
            return nothing
        try:
            return self._connected(lambda one: question(self._tables(one)), read_only=True)
        except duckdb().Error as error:
            raise RunError(f"{self} does not tell which runs it holds: {first_line(error)}.") from error

    def _tables(self, connection: Any) -> SqlTables:
        return SqlTables(
            str(self),
            self.path,
            self.schema,
            partial(_rows, connection),
            "?",
            lambda fields, _: {one.name: _TYPES[one.type] for one in fields},
            {RUNS: ("run_id",)},
            lambda *_: "of something else",
            folds_case=True,
        )

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

    def _load(self, connection: Any, loads: LoadTables) -> Mapping[str, int]:
        self._make_tables(connection)
        tables = self._tables(connection)
        if tables.is_there(loads.run):
            return {}
        tables.make_again()
        if tables.runs.holds(loads.run):
            return {name: self._load_table(connection, name, loads, ()) for name in CURRENT}
        stayed = {}
        for name in schemas.TABLES:
            appended = [one for one, made_of in APPENDED.items() if made_of == name]
            stayed[name] = self._load_table(connection, name, loads, appended)
        self._insert(connection, RUNS, loads.run_row())
        return rows_written(loads, {name: stayed[name] for name in CURRENT})

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
        """Makes the schema, the tables and the columns that are missing."""
        _rows(connection, f"CREATE SCHEMA IF NOT EXISTS {quoted(self.schema)}")
        self._tables(connection).make()

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
