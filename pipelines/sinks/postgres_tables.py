"""The tables in Postgres, from the schemas: made, extended, filled by way of tables in which rows wait."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import schemas
from pipelines.errors import InvalidSettingError
from pipelines.sinks import KEYS
from pipelines.sinks.latest import rows_schema
from pipelines.sinks.sql import create_statements, extend_statements, listed, place_of, quoted

_TYPES = {pa.string(): "text", pa.int64(): "bigint", pa.int32(): "integer", pa.float64(): "double precision"}
_TYPES |= {pa.bool_(): "boolean", pa.map_(pa.string(), pa.float64()): "jsonb"}
_LOCK = 0x63726F7764  # "crowd": two that make tables at once take turns
_MARK_OF_LOADS = "run_id"


def make_tables(cursor: Any, schema: str) -> None:
    """Makes the schema, the stream's tables and the columns that are missing; what is there stays as it is."""
    make_schema(cursor, schema)
    for name in KEYS:
        there = columns_there(cursor, schema, name)
        if _MARK_OF_LOADS in there:
            raise InvalidSettingError(
                f"The schema {schema} of Postgres holds tables that runs are loaded into. "
                "Give the stream another schema, with ?schema=NAME."
            )
        place, fields, kinds = place_of(schema, name), rows_schema(name), kinds_of(rows_schema(name), KEYS[name])
        missing = [field for field in fields if field.name not in there]
        statements = extend_statements(place, missing, kinds) if there else _create(schema, name, kinds)
        for statement in statements:
            cursor.execute(statement)


def make_schema(cursor: Any, schema: str) -> None:
    """Makes the schema unless it is there; until the transaction ends nobody else makes tables."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s), current_setting('server_encoding')", (_LOCK,))
    encoding = cursor.fetchone()[1]
    if encoding != "UTF8":
        raise InvalidSettingError(f"The database has the encoding {encoding}, which lacks letters; use one with UTF8.")
    cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    if cursor.fetchone() is None:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")


def columns_there(cursor: Any, schema: str, name: str) -> set[str]:
    """The columns of a table; none when there is no such table."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
        (schema, name),
    )
    return {row[0] for row in cursor.fetchall()}


def kinds_of(fields: Sequence[pa.Field], key: Sequence[str]) -> dict[str, str]:
    """The type of each column; texts of the key are compared byte by byte."""
    collated = {one.name for one in fields if one.name in key and one.type == pa.string()}
    return {one.name: _TYPES[one.type] + (' COLLATE "C"' if one.name in collated else "") for one in fields}


def waiting(name: str) -> str:
    """The table in which rows of the table `name` wait; it ends with the connection."""
    return f"pg_temp.{quoted(f'waiting_{name}')}"


def waiting_sql(name: str, fields: Sequence[pa.Field], columns: Sequence[str]) -> tuple[str, str, str]:
    """Statements that make a table for rows that wait, that copy them there, and that remove it."""
    kinds = ", ".join(f"{quoted(one.name)} {_TYPES[one.type]}" for one in fields)
    return (
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted(f'waiting_{name}')} ({kinds})",
        f"COPY {waiting(name)} ({listed(columns)}) FROM STDIN (FORMAT BINARY)",
        f"DROP TABLE {waiting(name)}",
    )


def merge_sql(schema: str, name: str) -> str:
    """The statements that merge the rows that wait into the stream's table."""
    columns = rows_schema(name).names
    names = listed(columns)
    insert = f"INSERT INTO {place_of(schema, name)} AS kept ({names}) SELECT {names} FROM {waiting(name)}"  # noqa: S608 - names are ours, quoted
    if name == "rejects":
        return f"{insert} ON CONFLICT DO NOTHING"
    others = [one for one in columns if one not in KEYS[name]]
    changes = ", ".join(f"{quoted(one)} = excluded.{quoted(one)}" for one in others)
    merge = (
        f"{insert} ON CONFLICT ({listed(KEYS[name])}) DO UPDATE SET {changes} WHERE excluded.revision > kept.revision"
    )
    if name != "graph":
        return merge
    place = place_of(schema, name)  # components of an earlier verdict are no more
    return f"{merge}; DELETE FROM {place} WHERE revision < (SELECT max(revision) FROM {place})"  # noqa: S608 - see above


def _create(schema: str, name: str, kinds: Mapping[str, str]) -> list[str]:
    place, doc = place_of(schema, name), schemas.avro_schema(schemas.TABLES[name])["doc"]
    if name != "rejects":
        return create_statements(place, rows_schema(name), kinds, KEYS[name], doc)
    index = '"source", "position", "reason", hashtextextended("record", 0)'  # several may be of one place, or of none
    unique = f"CREATE UNIQUE INDEX IF NOT EXISTS {quoted('rejects_key')} ON {place} ({index})"
    return [*create_statements(place, rows_schema(name), kinds, (), doc), unique]
