"""SQL that Postgres and DuckDB both take: names, texts, and tables with their documentation."""

from collections.abc import Mapping, Sequence

import pyarrow as pa


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


def _comments(place: str, fields: Sequence[pa.Field]) -> list[str]:
    return [
        f"COMMENT ON COLUMN {place}.{quoted(one.name)} IS {literal(one.metadata[b'doc'].decode())}" for one in fields
    ]
