"""The tables in Postgres, from the schemas: made, extended, filled by merging."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import schemas
from pipelines.errors import InvalidSettingError
from pipelines.sinks import KEYS
from pipelines.sinks.latest import rows_schema

_TYPES = {pa.string(): "text", pa.int64(): "bigint", pa.int32(): "integer", pa.float64(): "double precision"}
_TYPES |= {pa.bool_(): "boolean", pa.map_(pa.string(), pa.float64()): "jsonb"}
_LOCK = 0x63726F7764  # "crowd": two that make tables at once take turns


def make_tables(cursor: Any, schema: str) -> None:
    """Makes the schema, the tables and the columns that are missing; what is there stays as it is."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s), current_setting('server_encoding')", (_LOCK,))
    encoding = cursor.fetchone()[1]
    if encoding != "UTF8":
        raise InvalidSettingError(f"The database has the encoding {encoding}, which lacks letters; use one with UTF8.")
    cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    if cursor.fetchone() is None:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for name in KEYS:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
            (schema, name),
        )
        there = {row[0] for row in cursor.fetchall()}
        missing = [field for field in rows_schema(name) if field.name not in there]
        for statement in _extend(schema, name, missing) if there else _create(schema, name):
            cursor.execute(statement)


def waiting_sql(name: str, columns: Sequence[str]) -> tuple[str, str, str]:
    """Statements that make a table for rows that wait, that copy them there, and that remove it."""
    waiting, names = quoted(f"waiting_{name}"), _listed(columns)
    kinds = ", ".join(f"{quoted(one.name)} {_TYPES[one.type]}" for one in rows_schema(name))
    return (
        f"CREATE TEMPORARY TABLE {waiting} ({kinds}) ON COMMIT DROP",
        f"COPY pg_temp.{waiting} ({names}) FROM STDIN (FORMAT BINARY)",
        f"DROP TABLE pg_temp.{waiting}",
    )


def merge_sql(schema: str, name: str) -> str:
    """The statement that merges the rows that wait into the table."""
    columns = rows_schema(name).names
    names, place = _listed(columns), f"{quoted(schema)}.{quoted(name)}"
    insert = f"INSERT INTO {place} AS kept ({names}) SELECT {names} FROM pg_temp.{quoted(f'waiting_{name}')}"  # noqa: S608 - names are ours, quoted
    if name == "rejects":
        return f"{insert} ON CONFLICT DO NOTHING"
    others = [one for one in columns if one not in KEYS[name]]
    changes = ", ".join(f"{quoted(one)} = excluded.{quoted(one)}" for one in others)
    return (
        f"{insert} ON CONFLICT ({_listed(KEYS[name])}) DO UPDATE SET {changes} WHERE excluded.revision > kept.revision"
    )


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _create(schema: str, name: str) -> list[str]:
    place = f"{quoted(schema)}.{quoted(name)}"
    columns = [_column(field, name) + ("" if field.nullable else " NOT NULL") for field in rows_schema(name)]
    if name != "rejects":
        columns.append(f"PRIMARY KEY ({_listed(KEYS[name])})")
    statements = [f"CREATE TABLE IF NOT EXISTS {place} ({', '.join(columns)})"]
    if name == "rejects":  # several may be of one place, or of none that is known
        index = '"source", "position", "reason", hashtextextended("record", 0)'
        statements.append(f"CREATE UNIQUE INDEX IF NOT EXISTS {quoted('rejects_key')} ON {place} ({index})")
    doc = schemas.avro_schema(schemas.TABLES[name])["doc"]
    statements.append(f"COMMENT ON TABLE {place} IS {_text(doc)}")
    return statements + _comments(schema, name, list(rows_schema(name)))


def _extend(schema: str, name: str, missing: Sequence[pa.Field]) -> list[str]:
    place = f"{quoted(schema)}.{quoted(name)}"
    added = [f"ALTER TABLE {place} ADD COLUMN IF NOT EXISTS {_column(field, name)}" for field in missing]
    return added + _comments(schema, name, missing)


def _column(field: pa.Field, name: str) -> str:
    collation = ' COLLATE "C"' if field.name in KEYS[name] and field.type == pa.string() else ""
    return f"{quoted(field.name)} {_TYPES[field.type]}{collation}"


def _comments(schema: str, name: str, fields: Sequence[pa.Field]) -> list[str]:
    place = f"{quoted(schema)}.{quoted(name)}"
    return [
        f"COMMENT ON COLUMN {place}.{quoted(field.name)} IS {_text(field.metadata[b'doc'].decode())}"
        for field in fields
    ]


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
