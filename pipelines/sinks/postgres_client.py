"""Postgres as a client sees it: addresses without passwords, connections, rows copied in."""

import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow as pa

from pipelines.addresses import is_secret
from pipelines.errors import InvalidSettingError, first_line
from pipelines.sinks.postgres_copy import HEADER, TRAILER, copy_rows
from pipelines.sinks.postgres_tables import waiting_sql

SCHEMA = "crowdbeam"
FORM = "postgresql://USER@HOST:PORT/DATABASE"
_CONNECT_S = 10
_PIECE_BYTES = 1 << 20
SECRET_WORDS = ("scram",)  # in names of libpq's options; its files of keys are no secrets
_NAMES_A_DATABASE = ("PGDATABASE", "PGSERVICE")


def psycopg() -> Any:
    """The client library."""
    try:
        import psycopg
    except ImportError as error:
        raise InvalidSettingError("Postgres needs the psycopg package: pip install 'crowdbeam[postgres]'.") from error
    return psycopg


def connect(dsn: str) -> Any:
    """A new connection; raises `InvalidSettingError` when libpq does not know an option of the address."""
    try:
        psycopg().conninfo.conninfo_to_dict(dsn)
    except psycopg().ProgrammingError as error:
        raise InvalidSettingError(
            f"The address of Postgres cannot be used: {first_line(error)}. It takes libpq's options, and schema=NAME."
        ) from error
    options = {"connect_timeout": _CONNECT_S, "application_name": "crowdbeam", "client_encoding": "utf8"}
    return psycopg().connect(dsn, **options)


def parse_address(text: str, what: str) -> tuple[str, str]:
    """The address as libpq takes it, and the schema; options of libpq may follow the address, and schema=NAME.

    Raises `InvalidSettingError`, which calls the address `what`, when it names no database.

    >>> parse_address("postgres://me@h/crowd?sslmode=require&schema=nights", "sink")
    ('postgresql://me@h/crowd?sslmode=require', 'nights')
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise InvalidSettingError(f"The {what}'s address cannot be read: {error}.") from error
    options = parse_qsl(parts.query, keep_blank_values=True)
    named = parts.path.strip("/") or any(name in ("dbname", "service") for name, _ in options)
    if parts.fragment or not (named or any(os.environ.get(name) for name in _NAMES_A_DATABASE)):
        raise InvalidSettingError(
            f"The {what} names no database; the form is {FORM}, for example postgresql://me@localhost:5432/crowd."
        )
    schemas = [value for name, value in options if name == "schema"]
    rest = urlencode([(name, value) for name, value in options if name != "schema"])
    return f"postgresql://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}", schemas[-1] if schemas else SCHEMA


def check_address(dsn: str, schema: str) -> None:
    """Refuses an address with a password, and a schema without a name."""
    if _holds_password(dsn):
        raise InvalidSettingError(
            "The address of Postgres holds a password, which every program on this machine could read. Leave it "
            "out and set PGPASSWORD, or write it to ~/.pgpass or a service file."
        )
    if not schema.strip() or "\x00" in schema:
        raise InvalidSettingError(f"The schema's name for Postgres is empty; leave it out for {SCHEMA!r}.")


def copy_waiting(cursor: Any, name: str, fields: Sequence[pa.Field], table: pa.Table) -> str:
    """Copies rows into the table in which rows of `name` wait, which is made; gives the statement that removes it."""
    columns, rows = copy_rows(table)
    create, copy, drop = waiting_sql(name, fields, columns)
    cursor.execute(create)
    with cursor.copy(copy) as target:
        target.write(HEADER)
        for at in range(0, rows.size, _PIECE_BYTES):
            target.write(memoryview(rows)[at : at + _PIECE_BYTES])
        target.write(TRAILER)
    return drop


def _holds_password(dsn: str) -> bool:
    if not re.match(r"\w+://", dsn):
        return any(is_secret(name, *SECRET_WORDS) for name in re.findall(r"(\w+)\s*=", dsn))
    parts = urlsplit(dsn)
    names = [name for name, _ in parse_qsl(parts.query)]
    return ":" in parts.netloc.rpartition("@")[0] or any(is_secret(name, *SECRET_WORDS) for name in names)
