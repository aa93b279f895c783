"""Where runs are loaded to, from the text a user gives."""

import os
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pipelines.addresses import FILE_SCHEMES, meant
from pipelines.errors import InvalidSettingError
from pipelines.sinks.warehouse import Warehouse
from pipelines.sources.storage import is_local

FORMS = {
    "postgresql": "postgresql://USER@HOST:PORT/DATABASE",
    "postgres": "postgres://USER@HOST:PORT/DATABASE",
    "duckdb": "duckdb:///PATH",
    "iceberg": "iceberg://CATALOG/NAMESPACE",
    "bigquery": "bigquery://PROJECT/DATASET",
}
_EXTRAS = {"pyiceberg": "iceberg", "google": "bigquery", "sqlalchemy": "iceberg"}


def warehouse_of(text: str) -> Warehouse:
    """The warehouse that `text` names: Postgres, DuckDB, Iceberg, BigQuery, or else a folder of run folders.

    Raises `InvalidSettingError` when it names none, or when it holds a password.

    >>> str(warehouse_of("duckdb:crowd.duckdb"))
    'duckdb:crowd.duckdb'
    """
    if not text.strip():
        raise InvalidSettingError(f"The warehouse is empty; give a folder, or one of {', '.join(FORMS.values())}.")
    begins = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)  # one letter is a disk of Windows
    scheme = begins[1].lower() if begins else "file"
    if scheme in _READERS:
        try:
            return _READERS[scheme](text)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise InvalidSettingError(f"{text} needs another package: pip install 'crowdbeam[{extra}]'.") from error
    if scheme in FILE_SCHEMES:
        return _folder_of(text)
    hint = meant(scheme, FORMS, f"There are {', '.join(FORMS)}://.")
    raise InvalidSettingError(f"The warehouse begins with {scheme}:, which is not known. {hint}")


def warehouses_of(texts: Sequence[str], option: str) -> list[Warehouse]:
    """The warehouses that `texts` name; raises `InvalidSettingError` when two are one place, however they are spelled.

    >>> [str(one) for one in warehouses_of(["out", "duckdb:crowd.duckdb"], "--to")]
    ['out', 'duckdb:crowd.duckdb']
    """
    found: dict[str, Warehouse] = {}
    for warehouse in map(warehouse_of, texts):
        other = found.setdefault(_place_of(warehouse), warehouse)
        if other is not warehouse:
            raise InvalidSettingError(
                f"{option} names a warehouse twice, as {other} and as {warehouse}; name each once."
            )
    return list(found.values())


def _place_of(warehouse: Warehouse) -> str:
    """What is the same for all spellings of one place on this machine; a folder is one place in every format."""
    text, path = str(warehouse), warehouse.local_path
    if not path:
        return text
    where = os.path.realpath(path) if is_local(path) else path.rstrip("/")
    return f"{where}?{text.partition('?schema=')[2]}"


def _postgres_of(text: str) -> Warehouse:
    from pipelines.sinks.postgres_client import parse_address
    from pipelines.sinks.postgres_warehouse import PostgresWarehouse

    return PostgresWarehouse(*parse_address(text, "warehouse"))


def _duckdb_of(text: str) -> Warehouse:
    from pipelines.sinks.duckdb import SCHEMA, DuckDbWarehouse

    address, _, query = text.partition("?")
    path = re.sub(r"^duckdb:(//(?=/))?", "", address, flags=re.IGNORECASE)
    options = _options(query, "schema")
    if path.startswith("//") or not path or path == ":memory:":
        raise InvalidSettingError(
            f"The warehouse {address} names no file; the form is {FORMS['duckdb']}, or duckdb:PATH for one beside you."
        )
    return DuckDbWarehouse(unquote(path), options.get("schema", SCHEMA))


def _iceberg_of(text: str) -> Warehouse:
    parts = _split(text)
    _options(parts.query)
    namespace = unquote(parts.path).strip("/")
    _refuse_user(parts, "iceberg")
    if not parts.netloc or not namespace:
        raise InvalidSettingError(f"The warehouse is not of the form {FORMS['iceberg']}: {text}.")
    made: Warehouse = import_module("pipelines.sinks.iceberg").IcebergWarehouse(parts.netloc, namespace)
    return made


def _bigquery_of(text: str) -> Warehouse:
    parts = _split(text)
    options = _options(parts.query, "location")
    dataset = unquote(parts.path).strip("/")
    _refuse_user(parts, "bigquery")
    if not parts.netloc or not dataset:
        raise InvalidSettingError(f"The warehouse is not of the form {FORMS['bigquery']}: {text}.")
    made: Warehouse = import_module("pipelines.sinks.bigquery").BigQueryWarehouse(parts.netloc, dataset, **options)
    return made


def _folder_of(text: str) -> Warehouse:
    from pipelines.sinks.run_folders import FolderWarehouse

    path, _, query = text.partition("?")
    if "@" in re.sub(r"^[A-Za-z0-9+.-]+://", "", path).partition("/")[0] and "://" in path:
        raise InvalidSettingError(
            "The warehouse's address holds a user. Credentials come from the configuration of the file system."
        )
    return FolderWarehouse(path.removeprefix("file://"), **_options(query, "format"))


def _options(query: str, *known: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            hint = f"it takes ?{'=…, ?'.join(known)}=…" if known else "it takes none"
            raise InvalidSettingError(f"The warehouse's address has the option {name!r}; {hint}.")
    return options


def _refuse_user(parts: SplitResult, scheme: str) -> None:
    if "@" in parts.netloc:
        raise InvalidSettingError(
            f"The warehouse's address holds a user; the form is {FORMS[scheme]}. Credentials come from the "
            "warehouse's own configuration."
        )


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise InvalidSettingError(f"The warehouse's address cannot be read: {error}.") from error


_READERS: dict[str, Callable[[str], Warehouse]] = {
    "postgresql": _postgres_of,
    "postgres": _postgres_of,
    "duckdb": _duckdb_of,
    "iceberg": _iceberg_of,
    "bigquery": _bigquery_of,
}
