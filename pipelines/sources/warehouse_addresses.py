"""Addresses of labels in a warehouse: a table, or a SQL query that is in a file.

| warehouse | address |
|---|---|
| DuckDB | ``duckdb:///PATH?table=TABLE``, or ``duckdb:PATH?table=TABLE`` for a file beside you |
| Postgres | ``postgresql://USER@HOST:PORT/DATABASE?table=TABLE``, with options of libpq behind it |
| Iceberg | ``iceberg://CATALOG/NAMESPACE.TABLE``, with ``?filter=ROW_FILTER`` |
| BigQuery | ``bigquery://PROJECT/DATASET.TABLE`` |

``?query=FILE.sql`` takes the place of a table, but not in Iceberg. No address holds a password.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from pipelines.addresses import is_secret
from pipelines.errors import InputError

FORMS = {
    "duckdb": "duckdb:///PATH?table=TABLE",
    "postgresql": "postgresql://USER@HOST:PORT/DATABASE?table=TABLE",
    "postgres": "postgres://USER@HOST:PORT/DATABASE?table=TABLE",
    "iceberg": "iceberg://CATALOG/NAMESPACE.TABLE",
    "bigquery": "bigquery://PROJECT/DATASET.TABLE",
}
_BEGINS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(duckdb|postgres|postgresql|iceberg|bigquery):", re.IGNORECASE)
_PASSWORDS = {
    "postgres": "set PGPASSWORD, or write it to ~/.pgpass or a service file",
    "duckdb": "a DuckDB file needs none",
    "iceberg": "write it to pyiceberg's own configuration, or to its PYICEBERG_CATALOG__… variables",
    "bigquery": "the client finds its own credentials, see GOOGLE_APPLICATION_CREDENTIALS",
}
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class WarehouseAddress:
    """Where labels are in a warehouse; it holds nothing secret.

    Attributes:
        text: the address as it was given.
        kind: "duckdb", "postgres", "iceberg" or "bigquery".
        place: the file, the address as libpq takes it, the catalog, or the project.
        table: the parts of the table's name; none when there is a query.
        query: the file with the query; empty when there is a table.
        filter: of Iceberg: which rows; empty: all.
    """

    text: str
    kind: str
    place: str
    table: tuple[str, ...] = ()
    query: str = ""
    filter: str = ""

    @property
    def table_name(self) -> str:
        """The table's name as it is written in an address."""
        return ".".join(self.table)

    def sql(self) -> str:
        """The query, without the semicolon at its end; raises `InputError` when its file cannot be used."""
        try:
            text = Path(self.query).read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The query {self.query} of {self.text} cannot be read: {_reason(error)}.") from error
        text = text.rstrip("; \t\r\n")
        if not text:
            raise InputError(f"The query {self.query} of {self.text} is empty; write a SELECT into it.")
        return text


def is_address(text: str) -> bool:
    """Whether `text` is the address of a warehouse, and not of files.

    >>> is_address("duckdb:///data/crowd.duckdb?table=labels"), is_address("labels.csv"), is_address("gs://b/x.csv")
    (True, False, False)
    """
    begins = _BEGINS.match(text)
    return begins is not None and (begins[1] or begins[2]).lower() in FORMS


def near_form(text: str) -> str:
    """The form of the warehouse's address that somebody may have meant; empty when there is none.

    >>> near_form("duckbd:///crowd.duckdb")
    'duckdb:///PATH?table=TABLE'
    """
    begins = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", text)
    near = difflib.get_close_matches(begins[1].lower(), FORMS, 1, 0.7) if begins else []
    return FORMS[near[0]] if near else ""


def parse_address(text: str) -> WarehouseAddress:
    """The address that `text` is; raises `InputError` when it cannot be used, or holds a password.

    >>> parse_address("duckdb:crowd.duckdb?table=main.labels").table
    ('main', 'labels')
    """
    begins = _BEGINS.match(text)
    if begins is None or (begins[1] or begins[2]).lower() not in FORMS:
        raise InputError(f"{text!r} is no address of a warehouse; there are {', '.join(FORMS.values())}.")
    scheme = (begins[1] or begins[2]).lower()
    kind = "postgres" if scheme == "postgresql" else scheme
    try:
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as error:
        raise InputError(f"An address of {kind} cannot be read: {error}. The form is {FORMS[scheme]}.") from error
    _refuse_passwords(kind, scheme, parts, [name for name, _ in options])
    if parts.fragment:
        raise InputError(f"{text!r} holds a #; write it as %23. The form is {FORMS[scheme]}.")
    if kind in ("duckdb", "postgres"):
        return _with_option(text, kind, scheme, parts, options)
    return _with_path(text, kind, parts, dict(options))


def _with_option(
    text: str, kind: str, scheme: str, parts: SplitResult, options: Sequence[tuple[str, str]]
) -> WarehouseAddress:
    """A table or a query that an option names."""
    named = {name: value for name, value in options if name in ("table", "query")}
    rest = [(name, value) for name, value in options if name not in named]
    if len(named) != 1 or not all(named.values()):
        form = FORMS[scheme].partition("?")[0]
        raise InputError(f"{text!r} names no labels; write {form}?table=TABLE, or {form}?query=FILE.sql.")
    table = _table(text, named["table"]) if "table" in named else ()
    if kind == "postgres":
        dsn = f"postgresql://{parts.netloc}{parts.path}{'?' if rest else ''}{urlencode(rest)}"
        return WarehouseAddress(text, kind, dsn, table, named.get("query", ""))
    if rest:
        _refuse_option(text, rest[0][0], "table=TABLE or query=FILE.sql")
    path = unquote(parts.path)
    if parts.netloc or not path.strip("/"):
        raise InputError(f"{text!r} names no file; the form is {FORMS[kind]}, or duckdb:PATH for one beside you.")
    return WarehouseAddress(text, kind, path, table, named.get("query", ""))


def _with_path(text: str, kind: str, parts: SplitResult, options: dict[str, str]) -> WarehouseAddress:
    """A table that the path names; in BigQuery a query may take its place."""
    known = "filter" if kind == "iceberg" else "query"
    for name in options:
        if name != known:
            _refuse_option(text, name, "filter=ROW_FILTER" if kind == "iceberg" else "query=FILE.sql")
    path = unquote(parts.path).strip("/")
    table = _table(text, path) if path else ()
    query = options.get("query", "")
    if not parts.netloc or (kind == "bigquery" and query and table) or (len(table) < 2 and not query):
        also = " or bigquery://PROJECT?query=FILE.sql" if kind == "bigquery" else ""
        raise InputError(f"{text!r} names no labels; the form is {FORMS[kind]}{also}.")
    return WarehouseAddress(text, kind, parts.netloc, table, query, options.get("filter", ""))


def _refuse_passwords(kind: str, scheme: str, parts: SplitResult, names: Sequence[str]) -> None:
    """Refuses what a list of processes would show to everybody; libpq's files of keys are no secrets."""
    user = parts.netloc.rpartition("@")[0]
    if kind == "postgres":
        found = ":" in user or any(is_secret(name, "scram") for name in names)
    else:
        found = bool(user) or any(is_secret(name, "key") for name in names)
    if found:
        raise InputError(
            f"An address of {kind} holds a user or a password, which every program on this machine could read. The "
            f"form is {FORMS[scheme]}; as to a password: {_PASSWORDS[kind]}."
        )


def _refuse_option(text: str, name: str, known: str) -> None:
    raise InputError(f"{text!r} has the option {name!r}, which is not known; it takes {known}.")


def _table(text: str, name: str) -> tuple[str, ...]:
    """The parts of a table's name; a part with a dot is in double quotes, as in SQL."""
    found = tuple((one[1] or "").replace('""', '"') or one[2] for one in _NAME.finditer(name))
    if not found or re.sub(_NAME, "x", name).split(".") != ["x"] * len(found):
        raise InputError(f"{text!r} names the table {name!r}; write NAME or SCHEMA.NAME.")
    return found


def _reason(error: BaseException) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no UTF-8 text"
