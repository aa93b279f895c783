"""Values of every type are, from each warehouse, what a Parquet file with the same values gives."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warehouse_tables import iceberg_catalog, write_duckdb, write_iceberg, write_postgres

from pipelines.inputs import plan_inputs
from pipelines.settings import BatchSettings
from pipelines.sources.formats import chunks_of
from pipelines.texts import texts_of
from pipelines.times import times_of

UUIDS = [UUID(int=1), UUID("12345678-9abc-def0-1234-56789abcdef0"), UUID(int=(1 << 128) - 1)]
ZONE = timezone(timedelta(hours=2))
MOMENTS = [datetime(2024, 1, 2, 3, 4, 5), datetime(2024, 1, 2, 3, 4, 5, 120000), datetime(1969, 12, 31, 23, 59, 59, 1)]
# name: (Arrow array, type of DuckDB, type of Postgres)
VALUES = {
    "text": (pa.array(["é😀", ' a "quoted", one ', "two\nlines\r\nof \\N"]), "VARCHAR", "text"),
    "empty": (pa.array(["", None, "x"]), "VARCHAR", "text"),
    "int2": (pa.array([1, -2, None], pa.int16()), "SMALLINT", "int2"),
    "int8": (pa.array([1 << 60, -5, None], pa.int64()), "BIGINT", "int8"),
    "float8": (pa.array([1.0, 0.1, 1e300]), "DOUBLE", "float8"),
    "whole float8": (pa.array([1e16, -0.0, None]), "DOUBLE", "float8"),
    "odd float8": (pa.array([float("nan"), float("inf"), -1e-7]), "DOUBLE", "float8"),
    "float4": (pa.array([0.1, 2.0, None], pa.float32()), "FLOAT", "float4"),
    "bool": (pa.array([True, False, None]), "BOOLEAN", "bool"),
    "numeric": (
        pa.array([Decimal("1.50"), Decimal("-100.00"), Decimal("0.01")], pa.decimal128(12, 2)),
        "DECIMAL(12,2)",
        "numeric(12,2)",
    ),
    "date": (pa.array([date(2024, 1, 2), date(1901, 12, 31), None]), "DATE", "date"),
    "timestamp": (pa.array(MOMENTS, pa.timestamp("us")), "TIMESTAMP", "timestamp"),
    "timestamptz": (
        pa.array([moment.replace(tzinfo=ZONE) for moment in MOMENTS], pa.timestamp("us", "UTC")),
        "TIMESTAMPTZ",
        "timestamptz",
    ),
    "uuid": (pa.array([one.bytes for one in UUIDS], pa.uuid()), "UUID", "uuid"),
    "bytes": (pa.array([b"abc", "é".encode(), b"\xff\x00"]), "BLOB", "bytea"),
}
TIMES = ("int8", "float8", "numeric", "date", "timestamp", "timestamptz")


def table_of(name):
    values = VALUES[name][0]
    return pa.table({"task": values, "worker": ["u", "v", "w"], "label": values, "time": values})


def chunk_of(source, folder):
    """The columns as the road reads them."""
    plan = plan_inputs(BatchSettings((str(source),), "run"), str(folder / "in"))
    (chunk,) = [lazy() for part in plan.parts for lazy in chunks_of(part)]
    return chunk.columns


def as_read(source, folder):
    """The texts of task and label with what is wrong with them, and the times."""
    columns = chunk_of(source, folder)
    texts = [texts_of(columns[name]) for name in ("task", "label")]
    return [(found.to_pylist(), flags.tolist()) for found, flags in texts], times_of(columns["time"])[0].tolist()


@pytest.fixture(params=VALUES)
def name(request):
    return request.param


@pytest.fixture
def expected(name, tmp_path):
    pq.write_table(table_of(name), tmp_path / "labels.parquet")
    return as_read(tmp_path / "labels.parquet", tmp_path)


def assert_same(name, found, expected):
    assert found[0] == expected[0]
    if name in TIMES:
        assert found[1] == expected[1]


def printable(name):
    """The table as CSV can hold it."""
    table = table_of(name)
    if name not in ("uuid", "bytes"):
        return table
    texts = (
        [str(one) for one in UUIDS] if name == "uuid" else ["\\x" + one.hex() for one in VALUES[name][0].to_pylist()]
    )
    return pa.table({"task": texts, "worker": table["worker"], "label": texts, "time": texts})


def test_duckdb(name, expected, tmp_path):
    import duckdb

    kind = VALUES[name][1]
    table = printable(name) if name == "uuid" else table_of(name)
    address = write_duckdb(tmp_path / "x.duckdb", table, "given")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        columns = ", ".join(f"{column}::{kind} AS {column}" for column in ("task", "label", "time"))
        connection.execute(f"CREATE TABLE labels AS SELECT worker, {columns} FROM given")  # noqa: S608
        described = connection.execute("DESCRIBE labels").fetchall()
    assert {one[1].replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ") for one in described[1:]} == {kind}
    assert_same(name, as_read(f"{address}?table=labels", tmp_path), expected)


def test_postgres(name, expected, tmp_path, postgres):
    kind = VALUES[name][2]
    write_postgres(postgres.dsn, printable(name), "typed", [kind, "text", kind, kind])
    assert_same(name, as_read(f"{postgres.dsn}?table=typed", tmp_path), expected)


def test_iceberg(name, expected, tmp_path, monkeypatch):
    with iceberg_catalog(tmp_path, monkeypatch) as catalog:
        table = table_of(name)
        if name == "int2":  # Iceberg has none
            table = table.set_column(0, "task", table["task"].cast(pa.int32()))
            table = table.set_column(2, "label", table["label"].cast(pa.int32()))
            table = table.set_column(3, "time", table["time"].cast(pa.int32()))
        found = as_read(write_iceberg(catalog, table), tmp_path)
    assert_same(name, found, expected)


@pytest.mark.parametrize("name", ["timestamptz"])
def test_a_session_of_another_zone_changes_nothing(expected, name, tmp_path, postgres, monkeypatch):
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    monkeypatch.setenv("PGDATESTYLE", "German")
    write_postgres(postgres.dsn, table_of(name), "typed", ["timestamptz", "text", "timestamptz", "timestamptz"])
    assert_same(name, as_read(f"{postgres.dsn}?table=typed", tmp_path), expected)


def test_what_parquet_cannot_hold_becomes_text(tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TYPE answer AS ENUM ('yes', 'no')")
        connection.execute(
            "CREATE TABLE labels AS SELECT INTERVAL 3 DAY AS task, 'yes'::answer AS label, [1, 2] AS worker"
        )
    found = chunk_of(f"duckdb://{tmp_path}/x.duckdb?table=labels", tmp_path)
    assert [texts_of(found[field])[0].to_pylist() for field in ("label", "worker")] == [["yes"], ["[1, 2]"]]
    assert texts_of(found["task"])[0].to_pylist() == ["[0, 3, 0]"]  # months, days, nanoseconds


def test_postgres_types_without_a_counterpart_are_their_texts(tmp_path, postgres):
    import psycopg

    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS odd")
        connection.execute("DROP TYPE IF EXISTS mood")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        connection.execute(
            "CREATE TABLE odd AS SELECT '{\"a\": 1}'::jsonb AS task, 'ab'::char(4) AS worker, 'glad'::mood AS label, "
            "'infinity'::timestamptz AS time"
        )
    found = chunk_of(f"{postgres.dsn}?table=odd", tmp_path)
    texts = [texts_of(found[field])[0][0].as_py() for field in ("task", "worker", "label")]
    assert texts == ['{"a": 1}', "ab", "glad"]
    assert times_of(found["time"])[1].tolist() == [4]  # it is a reject: a time without a place among others
