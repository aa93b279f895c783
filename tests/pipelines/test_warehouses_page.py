"""docs/warehouses.md: its tables are those of the schemas, its queries run."""

import re
from pathlib import Path

import duckdb
import psycopg
import pytest
from warehouse_runs import first_night, second_night

import schemas
from pipelines.sinks.loads import CURRENT, TABLES
from pipelines.sinks.warehouses import FORMS, warehouse_of

PAGE = (Path(__file__).parents[2] / "docs" / "warehouses.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.S)


def rows_after(header):
    """The cells of the table that begins with `header`."""
    table = PAGE[PAGE.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_table_is_on_the_page_with_its_key():
    found = {row[0].strip("`"): row[2].replace("`", "") for row in rows_after("| table | holds")}
    assert tuple(found) == TABLES
    assert {name: tuple(found[name].split(", ")) for name in CURRENT} == CURRENT


@pytest.mark.parametrize(
    ("header", "record"), [("| column of every table", "loaded"), ("| column of `runs`", "loaded_run")]
)
def test_columns_are_described_as_in_the_schemas(header, record):
    expected = [[f"`{field['name']}`", field["doc"]] for field in schemas.avro_schema(record)["fields"]]
    assert rows_after(header) == expected


def test_every_kind_of_warehouse_has_an_address_and_a_chapter():
    addresses = " ".join(row[0] for row in rows_after("| `--to`"))
    for scheme in FORMS:
        assert scheme in addresses
    for chapter in ("Postgres", "DuckDB", "Iceberg", "BigQuery", "Folders", "Credentials"):
        assert f"\n## {chapter}\n" in PAGE


def test_the_queries_give_what_they_promise(tmp_path):
    warehouse = warehouse_of(f"duckdb:{tmp_path / 'crowd.duckdb'}")
    for run in (first_night(tmp_path / "first"), second_night(tmp_path / "second")):
        warehouse.load(run)
    with duckdb.connect(warehouse.path) as connection:
        connection.execute("UPDATE skills SET skill_high = 0.1, skill = 0.0 WHERE worker = 'cem'").fetchall()
        found = [connection.execute(one).fetchall() for one in QUERIES]
    assert found == [
        [("t1", "no", 0.9), ("t3", "yes", 0.9), ("t4", "yes", 0.9)],
        [("cem", 0.0, 9)],
        [("t1", "no", 2), ("t2", "yes", 2)],
        [(1, 0.5), (2, 0.7)],
        [("night-1", 12, 8.3), ("night-2", 12, 8.3)],
        [("night-1", "not-json", 2), ("night-2", "not-json", 1)],
    ]


def test_the_queries_run_on_postgres_too(postgres, tmp_path):
    warehouse = warehouse_of(f"{postgres.dsn}?schema=page_of_warehouses")
    warehouse.load(first_night(tmp_path / "first"))
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("SET search_path TO page_of_warehouses")
        assert [len(connection.execute(one).fetchall()) for one in QUERIES] == [3, 0, 0, 1, 1, 1]
