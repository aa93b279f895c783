"""DuckDB as a warehouse: what is its own."""

import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from warehouse_runs import first_night, score, second_night, write_run

from pipelines.errors import InvalidSettingError, RunError
from pipelines.sinks.duckdb import DuckDbWarehouse
from pipelines.sinks.loads import TABLES, table_doc, table_schema
from pipelines.sinks.warehouse import LastRun

_HOLD = """\
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def query(path, sql):
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def held(tmp_path):
    """A file that another process holds, and that process."""
    path = tmp_path / "crowd.duckdb"
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    yield path, other
    other.communicate("\n")


def test_tables_and_columns_are_documented(tmp_path):
    DuckDbWarehouse(str(tmp_path / "a.duckdb"), "crowd nights").check()
    tables = query(tmp_path / "a.duckdb", "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal")
    assert dict(tables) == {name: table_doc(name) for name in TABLES}
    columns = query(
        tmp_path / "a.duckdb",
        "SELECT column_name, comment, data_type FROM duckdb_columns() WHERE table_name = 'scores'"
        " ORDER BY column_index",
    )
    assert [(name, doc) for name, doc, _ in columns] == [
        (one.name, one.metadata[b"doc"].decode()) for one in table_schema("scores")
    ]
    assert {name: kind for name, _, kind in columns}["probabilities"] == "MAP(VARCHAR, DOUBLE)"


def test_a_file_that_another_process_holds_is_waited_for(held, tmp_path):
    path, other = held
    run = first_night(tmp_path / "run")
    with pytest.raises(RunError, match=r"did not take run night-1: IO Error: Could not set lock .*Load it again"):
        DuckDbWarehouse(str(path), patience_s=0.3).load(run)
    with pytest.raises(InvalidSettingError, match="cannot be used: IO Error: Could not set lock"):
        DuckDbWarehouse(str(path), patience_s=0.3).check()
    other.stdin.write("\n")
    other.stdin.flush()
    began = time.monotonic()
    assert DuckDbWarehouse(str(path)).load(run)["scores"] == 3
    assert time.monotonic() - began < 30


def test_a_file_that_is_not_duckdbs_is_not_waited_for_whatever_its_path_says(tmp_path):
    path = tmp_path / "blocks" / "lock.duckdb"
    path.parent.mkdir()
    path.write_text("Could not be a database")
    began = time.monotonic()
    with pytest.raises(InvalidSettingError, match="is no DuckDB file"):
        DuckDbWarehouse(str(path)).check()
    assert time.monotonic() - began < 30


def test_columns_of_a_later_version_are_added_and_rows_kept(tmp_path):
    warehouse = DuckDbWarehouse(str(tmp_path / "a.duckdb"))
    warehouse.load(write_run(tmp_path / "1", "one", scores=[[score("old")]]))
    with duckdb.connect(warehouse.path) as connection:
        connection.execute("ALTER TABLE score_history DROP COLUMN probabilities")
    warehouse.check()
    warehouse.load(write_run(tmp_path / "2", "two", scores=[[score("new", probabilities={"yes": 1.0})]]))
    found = query(warehouse.path, "SELECT task, probabilities FROM score_history ORDER BY task")
    assert found == [("new", {"yes": 1.0}), ("old", None)]


def test_a_column_that_somebody_renamed_is_told_before_anything_is_loaded(tmp_path):
    warehouse = DuckDbWarehouse(str(tmp_path / "a.duckdb"))
    warehouse.check()
    with duckdb.connect(warehouse.path) as connection:
        connection.execute("ALTER TABLE rejects RENAME COLUMN reason TO why")
    for action in (warehouse.check, lambda: warehouse.load(first_night(tmp_path / "run"))):
        with pytest.raises(
            InvalidSettingError, match=r"rejects\" of .*a\.duckdb has the column why, .* If it was reason"
        ):
            action()
    assert query(warehouse.path, "SELECT count(*) FROM runs") == [(0,)]


def test_tables_of_something_else_are_refused(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE scores (player VARCHAR)")
    with pytest.raises(InvalidSettingError, match=r"holds a table scores of something else. Give another schema"):
        DuckDbWarehouse(str(tmp_path / "a.duckdb")).check()
    assert query(tmp_path / "a.duckdb", "SELECT table_name FROM duckdb_tables()") == [("scores",)]


def test_files_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "text").write_text("no database, but a text that is long enough to be looked at" * 100)
    with pytest.raises(InvalidSettingError, match=r"text is no DuckDB file. Give one, or a name that is free."):
        DuckDbWarehouse(str(tmp_path / "text")).check()
    with pytest.raises(InvalidSettingError, match="is not there; make it first"):
        DuckDbWarehouse(str(tmp_path / "no" / "a.duckdb")).check()


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "empty"])
def test_a_file_of_labels_is_no_warehouse_though_duckdb_opens_it(tmp_path, name):
    """DuckDB would make tables in memory, and what was loaded would be gone with them."""
    table, path = pa.table({"task": ["t"], "worker": ["ann"], "label": ["a"]}), str(tmp_path / name)
    Path(path).touch()
    if name != "empty":
        (csv.write_csv if name.endswith("csv") else pq.write_table)(table, path)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(InvalidSettingError, match="is no DuckDB file"):
        DuckDbWarehouse(str(tmp_path / name)).check()
    assert (tmp_path / name).read_bytes() == before


def test_a_schema_is_the_same_in_upper_and_lower_case(tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    DuckDbWarehouse(str(tmp_path / "a.duckdb"), "Crowd").load(first)
    warehouse = DuckDbWarehouse(str(tmp_path / "a.duckdb"), "crowd")
    assert warehouse.last_run("nights") == LastRun(1, "night-1")
    warehouse.load(second)
    with duckdb.connect(warehouse.path) as connection:
        connection.execute("DROP TABLE crowd.edges")
    assert warehouse.last_run("nights") == LastRun(2, "night-2", torn=True)
