"""What catalogs of lineage call the places that crowdbeam reads and writes, by OpenLineage's rules of naming.

| place | namespace | name |
|---|---|---|
| a file or folder of this machine | ``file`` | its absolute path |
| ``gs://``, ``s3://`` | scheme and bucket | the path in the bucket |
| Postgres | ``postgres://HOST:PORT`` | ``DATABASE.SCHEMA.TABLE`` |
| BigQuery | ``bigquery`` | ``PROJECT.DATASET.TABLE`` |
| DuckDB | ``duckdb://PATH``, as OpenLineage's integration of dbt has it | ``DATABASE.SCHEMA.TABLE`` |
| Iceberg, for which there is no rule | ``iceberg://CATALOG`` | ``NAMESPACE.TABLE`` |

Names hold neither users nor passwords nor options.
"""

import os
import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_SCHEMAS = {"postgres": "crowdbeam", "duckdb": "main"}  # of our tables, unless the address says otherwise
_USUAL_SCHEMAS = {"postgres": "public", "duckdb": "main"}  # of anybody's
_POSTGRES_PORT = 5432


class DatasetName(NamedTuple):
    """A dataset's namespace and its name in it."""

    namespace: str
    name: str


def file_name(path: str) -> DatasetName:
    """What a file or folder is called.

    >>> file_name("gs://bucket/labels/monday.csv")
    DatasetName(namespace='gs://bucket', name='labels/monday.csv')
    >>> file_name("/data/labels.csv")
    DatasetName(namespace='file', name='/data/labels.csv')
    """
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        return DatasetName("file", os.path.abspath(path))
    parts = urlsplit(path)
    if parts.scheme == "file":
        return DatasetName("file", parts.path)
    inside = parts.path.lstrip("/") if parts.scheme in ("gs", "s3") else parts.path
    return DatasetName(f"{parts.scheme}://{_place(parts)}", inside or "/")


def input_name(address: str) -> DatasetName:
    """What an input is called: a file, or a table of a warehouse; of a query, whose tables are not known, the database.

    >>> input_name("duckdb:///data/crowd.duckdb?table=labels")
    DatasetName(namespace='duckdb:///data/crowd.duckdb', name='crowd.main.labels')
    >>> input_name("bigquery://project/dataset.labels")
    DatasetName(namespace='bigquery', name='project.dataset.labels')
    """
    scheme, parts = warehouse_scheme(address), urlsplit(address)
    if not scheme:
        return file_name(address)
    namespace, database = _database(scheme, parts)
    table = parse_qs(parts.query).get("table", [""])[-1]
    if table and "." not in table:
        table = f"{_USUAL_SCHEMAS[scheme]}.{table}"
    return DatasetName(namespace, f"{database}.{table}" if table else database)


def table_name(target: str, table: str) -> DatasetName:
    """What a table is called in the warehouse, or the folder, that `target` names.

    >>> table_name("postgresql://me@db.example:5433/crowd?sslmode=require", "scores")
    DatasetName(namespace='postgres://db.example:5433', name='crowd.crowdbeam.scores')
    >>> table_name("bigquery://project/dataset", "scores")
    DatasetName(namespace='bigquery', name='project.dataset.scores')
    >>> table_name("/runs/monday", "scores")
    DatasetName(namespace='file', name='/runs/monday/scores')
    """
    scheme, parts = warehouse_scheme(target), urlsplit(target)
    if not scheme:
        folder = file_name(target.partition("?")[0])
        return DatasetName(folder.namespace, f"{folder.name.rstrip('/')}/{table}")
    namespace, database = _database(scheme, parts)
    if scheme in _SCHEMAS:
        table = f"{parse_qs(parts.query).get('schema', [_SCHEMAS[scheme]])[-1]}.{table}"
    return DatasetName(namespace, f"{database}.{table}")


def warehouse_scheme(target: str) -> str:
    """Which warehouse `target` names: postgres, duckdb, bigquery, iceberg; empty for a folder.

    >>> warehouse_scheme("postgresql://localhost/crowd"), warehouse_scheme("runs")
    ('postgres', '')
    """
    scheme = re.match(r"(postgres|duckdb|bigquery|iceberg)(ql)?:", target, re.IGNORECASE)
    return scheme[1].lower() if scheme else ""


def _database(scheme: str, parts: SplitResult) -> tuple[str, str]:
    """The namespace of a warehouse, and what is before the schema, or the table, in the names of its tables."""
    inside = unquote(parts.path).strip("/")
    if scheme == "postgres":
        return f"postgres://{_postgres_place(parts)}", inside
    if scheme == "duckdb":
        path = os.path.abspath(unquote(parts.path))
        return f"duckdb://{path}", os.path.basename(path).partition(".")[0]
    if scheme == "bigquery":
        return "bigquery", ".".join(filter(None, (parts.netloc, inside)))
    return f"iceberg://{parts.netloc}", inside


def _postgres_place(parts: SplitResult) -> str:
    host = parts.hostname or os.environ.get("PGHOST", "localhost")
    return f"{host}:{parts.port or os.environ.get('PGPORT', _POSTGRES_PORT)}"


def _place(parts: SplitResult) -> str:
    """Host and port, without the user."""
    return parts.netloc.rpartition("@")[2]
