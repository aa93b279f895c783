"""The tables of a warehouse that takes SQL, on an open connection: what is there, what is refused, what is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.errors import InvalidSettingError
from pipelines.sinks.loads import CURRENT, RUNS, TABLES, table_doc, table_schema
from pipelines.sinks.sql import RunsTable, create_statements, extend_statements, place_of
from pipelines.sinks.warehouse import LastRun, LoadedRun, refuse_others, refuse_strange, refuse_torn

_NEEDED = (
    "is_nullable = 'NO' AND column_default IS NULL"
    " AND is_identity IS DISTINCT FROM 'YES' AND is_generated IS DISTINCT FROM 'ALWAYS'"
)


@dataclass(frozen=True)
class SqlTables:
    """The tables in a schema.

    Attributes:
        warehouse: the address of the warehouse.
        database: what it is called in a sentence.
        schema: the schema of the tables.
        ask: runs a statement with its values; gives the rows of a query.
        mark: what stands in a query for a value.
        kinds_of: the type of each column, with those of the key.
        keys: the key of each table that gets one.
        whose: of whom a table is that has these columns, and is none of loads.
        folds_case: whether names are the same that differ in upper and lower case, also in quotes.
    """

    warehouse: str
    database: str
    schema: str
    ask: Callable[[str, Sequence[Any]], Sequence[tuple[Any, ...]]]
    mark: str
    kinds_of: Callable[[Sequence[pa.Field], Sequence[str]], Mapping[str, str]]
    keys: Mapping[str, Sequence[str]]
    whose: Callable[[str, set[str]], str]
    folds_case: bool = False

    @property
    def runs(self) -> RunsTable:
        """The table of the runs that were loaded."""
        return RunsTable(place_of(self.schema, RUNS), self.ask, self.mark)

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded; none when nothing was."""
        return self.runs.last(ledger)._replace(torn=bool(self.gone())) if self._columns(RUNS) else LastRun()

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded; empty when nothing was."""
        return self.runs.ledgers() if self._columns(RUNS) else frozenset()

    def gone(self) -> list[str]:
        """Tables of the current state that were dropped after runs were loaded."""
        return [name for name in CURRENT if not self._columns(name)] if self.ledgers() else []

    def is_there(self, run: LoadedRun) -> bool:
        """Whether there is nothing to do for the run; raises `RunError` when it cannot be loaded to what is there."""
        gone = self.gone()
        refuse_others(self.warehouse, self.runs.ledgers(), run)
        there = self.runs.holds(run)
        refuse_torn(self.warehouse, gone, run, self.runs.last(run.ledger), there=there)
        return there and not gone

    def make_again(self) -> None:
        """Makes the tables that were dropped: for the load that fills them."""
        for name in self.gone():
            self._make(name)

    def make(self) -> None:
        """Makes the tables and the columns that are missing; what is there stays as it is.

        A table of the current state that was dropped is made by the load that fills it.
        """
        gone = self.gone()
        for name in TABLES:
            if name not in gone:
                self._make(name)

    def _make(self, name: str) -> None:
        there = self._columns(name)
        if there and "run_id" not in there:
            raise InvalidSettingError(
                f"The schema {self.schema} of {self.database} holds a table {name} {self.whose(name, there)}. "
                "Give another schema for what is loaded, with ?schema=NAME."
            )
        place, fields, key = place_of(self.schema, name), table_schema(name), self.keys.get(name, ())
        kinds, missing = self.kinds_of(fields, key), [field for field in fields if field.name not in there]
        strange = self._columns(name, _NEEDED) - set(fields.names)
        refuse_strange(f"{place} of {self.database}", sorted(strange), [one.name for one in missing])
        made = [] if there else create_statements(place, fields, kinds, key, table_doc(name))
        for statement in made or extend_statements(place, missing, kinds):
            self.ask(statement, ())

    def _columns(self, name: str, which: str = "true") -> set[str]:
        """The columns of a table, or such of them; none when there is no such table."""
        same = "lower({}) = lower({})" if self.folds_case else "{} = {}"
        here = f"{same.format('table_schema', self.mark)} AND {same.format('table_name', self.mark)}"
        sql = (
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database()"  # noqa: S608 - ours
            f" AND {here} AND {which}"
        )
        return {row[0] for row in self.ask(sql, (self.schema, name))}
