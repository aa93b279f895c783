"""SQL that Postgres and DuckDB both take: names, texts, tables with their documentation, and which runs are there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.sinks.warehouse import LastRun, LoadedRun


def quoted(name: str) -> str:
    """A name as SQL takes it: in quotes, those within it doubled."""
    return '"' + name.replace('"', '""') + '"'


def place_of(schema: str, name: str) -> str:
    """A table in its schema."""
    return f"{quoted(schema)}.{quoted(name)}"


def listed(columns: Sequence[str]) -> str:
    """Columns, as a list.

    >>> listed(["task", "label"])
    '"task", "label"'
    """
    return ", ".join(map(quoted, columns))


def literal(text: str) -> str:
    """A text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def create_statements(
    place: str, fields: Sequence[pa.Field], kinds: Mapping[str, str], key: Sequence[str], doc: str
) -> list[str]:
    """Statements that make a table, with the type of each column in `kinds`, and document it."""
    columns = [f"{quoted(one.name)} {kinds[one.name]}{'' if one.nullable else ' NOT NULL'}" for one in fields]
    if key:
        columns.append(f"PRIMARY KEY ({listed(key)})")
    return [
        f"CREATE TABLE IF NOT EXISTS {place} ({', '.join(columns)})",
        f"COMMENT ON TABLE {place} IS {literal(doc)}",
        *_comments(place, fields),
    ]


def extend_statements(place: str, missing: Sequence[pa.Field], kinds: Mapping[str, str]) -> list[str]:
    """Statements that add the columns that are missing, and document them."""
    added = [f"ALTER TABLE {place} ADD COLUMN IF NOT EXISTS {quoted(one.name)} {kinds[one.name]}" for one in missing]
    return added + _comments(place, missing)


@dataclass(frozen=True)
class RunsTable:
    """The table of the runs that were loaded.

    Attributes:
        place: where it is.
        ask: gives the rows of a query with its values.
        mark: what stands in a query for a value.
    """

    place: str
    ask: Callable[[str, Sequence[Any]], Sequence[tuple[Any, ...]]]
    mark: str

    def holds(self, run: LoadedRun) -> bool:
        """Whether the run, or a later one of its ledger, was loaded."""
        if self.ask(f"SELECT 1 FROM {self.place} WHERE run_id = {self.mark}", (run.run_id,)):  # noqa: S608 - ours, quoted
            return True
        return bool(run.ledger) and self.last(run.ledger).version >= run.version

    def last(self, ledger: str) -> LastRun:
        """The last run of a ledger."""
        of_ledger = f"FROM {self.place} WHERE ledger = {self.mark}"
        sql = f"SELECT version, run_id {of_ledger} ORDER BY version DESC, loaded_at_us DESC LIMIT 1"
        found = self.ask(sql, (ledger,))
        return LastRun(*found[0]) if found else LastRun()

    def ledgers(self) -> frozenset[str]:
        """The ids of all ledgers; "" for runs of none."""
        return frozenset(row[0] for row in self.ask(f"SELECT DISTINCT ledger FROM {self.place}", ()))  # noqa: S608 - ours, quoted


def _comments(place: str, fields: Sequence[pa.Field]) -> list[str]:
    return [
        f"COMMENT ON COLUMN {place}.{quoted(one.name)} IS {literal(one.metadata[b'doc'].decode())}" for one in fields
    ]
