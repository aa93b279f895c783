"""Tables in real warehouses, made from an Arrow table."""

from contextlib import contextmanager

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
from pyiceberg.catalog import load_catalog

from crowdcore.simulate import simulate_crowd

CATALOG = "tests"


def crowd_table(n_tasks=4_000, labels_per_task=5):
    """Labels of 60 workers, in disorder, with the time of each."""
    crowd = simulate_crowd(
        n_tasks=n_tasks,
        n_workers=60,
        labels_per_task=labels_per_task,
        n_classes=3,
        skills="hammer-spammer:0.3",
        rng=np.random.default_rng(11),
    )
    order = np.random.default_rng(12).permutation(len(crowd.task))
    return pa.table(
        {
            "task": [f"t{task:05d}" for task in crowd.task[order]],
            "worker": [f"w{worker:02d}" for worker in crowd.worker[order]],
            "label": [f"c{label}" for label in crowd.label[order]],
            "time": pa.array(1_700_000_000_000_000 + order, pa.timestamp("us")),
            "note": [f"unused {place}" for place in range(len(order))],
        }
    )


def write_duckdb(path, table, name="labels"):
    """Puts the rows into a table of a DuckDB file; returns the file's address, without an option."""
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute(f'CREATE TABLE "{name}" AS FROM given')
    return f"duckdb://{path}"


def write_postgres(dsn, table, name, types):
    """Puts the rows into a new table of Postgres, whose columns have these types; a null is an empty field."""
    columns = ", ".join(f'"{column}" {kind}' for column, kind in zip(table.column_names, types, strict=True))
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(include_header=False))
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
        cursor.execute(f'CREATE TABLE "{name}" ({columns})')
        with cursor.copy(f'COPY "{name}" FROM STDIN (FORMAT csv)') as copy:
            copy.write(sink.getvalue().to_pybytes())
    return dsn


@contextmanager
def iceberg_catalog(folder, monkeypatch):
    """A SQL catalog in a file of sqlite, which pyiceberg finds by the environment."""
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__TYPE", "sql")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__URI", f"sqlite:///{folder}/catalog.db")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__WAREHOUSE", f"file://{folder}")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", _config())
    catalog = load_catalog(CATALOG)
    catalog.create_namespace("crowd")
    try:
        yield catalog
    finally:
        catalog.close()


def _config():
    from pyiceberg.utils.config import Config

    return Config()


def write_iceberg(catalog, table, name="labels", appends=1):
    """Puts the rows into an Iceberg table, in so many appends; returns its address."""
    made = catalog.create_table(f"crowd.{name}", table.schema)
    size = table.num_rows // appends
    for number in range(appends):
        made.append(table.slice(number * size, size))
    return f"iceberg://{CATALOG}/crowd.{name}"
