"""What every warehouse must do, each on the real thing.

A warehouse is put to these tests by a class with an `address`, `rows(table)` as they are in it, its `module`, and
`snapshot()`: everything that a second load of the same run must leave as it is. `at_once`: all tables change together.
`commits` and `writes` are the points of its client, of `kill_points.py`, at which it is killed.
"""

import hashlib
import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest
from lake_places import InBigQuery, InIceberg
from psycopg.rows import dict_row
from warehouse_runs import (
    LEDGER,
    after_first,
    after_second,
    first_night,
    in_order,
    score,
    second_night,
    skill,
    write_run,
)  # fmt: skip

from pipelines.errors import InputError, InvalidSettingError
from pipelines.sinks.loads import APPENDED, CURRENT, RUNS, TABLES, loaded_run_of
from pipelines.sinks.warehouses import warehouse_of

HELD = (*CURRENT, *APPENDED)


class InDuckDb:
    """A DuckDB file."""

    module = "sinks/duckdb.py"
    at_once = True
    commits, writes = ("duckdb commit",), ("duckdb statement",)

    def __init__(self, folder, request):
        self.path = folder / f"{uuid.uuid4().hex}.duckdb"
        self.address = f"duckdb://{self.path}"

    def rows(self, name):
        with duckdb.connect(str(self.path), read_only=True) as connection:
            found = connection.sql(f"SELECT * FROM {name}").to_arrow_table()  # noqa: S608
        return in_order(found.to_pylist(maps_as_pydicts="strict"))

    def snapshot(self):
        return {name: self.rows(name) for name in TABLES}


class InPostgres:
    """A schema of a Postgres server."""

    module = "sinks/postgres_warehouse.py"
    at_once = True
    commits, writes = ("postgres commit",), ("postgres copy",)

    def __init__(self, folder, request):
        self.dsn = request.getfixturevalue("postgres").dsn
        self.schema = f"crowd_{uuid.uuid4().hex}"
        self.address = f"{self.dsn}?schema={self.schema}"

    def query(self, sql):
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            connection.execute(f'SET search_path TO "{self.schema}"')
            return connection.execute(sql).fetchall()

    def rows(self, name):
        return in_order(self.query(f"SELECT * FROM {name}"))  # noqa: S608

    def snapshot(self):
        return {name: in_order(self.query(f"SELECT xmin::text, * FROM {name}")) for name in TABLES}  # noqa: S608


WAREHOUSES = {"duckdb": InDuckDb, "postgres": InPostgres, "iceberg": InIceberg, "bigquery": InBigQuery}


@pytest.fixture(params=[pytest.param(name, id=name) for name in WAREHOUSES])
def place(request, tmp_path):
    return WAREHOUSES[request.param](tmp_path, request)


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


def held(place):
    return {name: place.rows(name) for name in HELD}


def test_a_run_is_loaded_as_it_is_and_said_to_be(place, nights):
    warehouse = warehouse_of(place.address)
    warehouse.check()
    assert warehouse.last_run(LEDGER).version == 0
    written = warehouse.load(nights[0])
    assert held(place) == after_first(nights[0])
    assert written == {name: len(place.rows(name)) for name in TABLES}
    assert warehouse.last_run(LEDGER).version == 1
    assert warehouse.last_run("another").version == 0
    assert warehouse.ledgers() == {LEDGER}
    (row,) = place.rows(RUNS)
    assert row.pop("loaded_at_us") > 1_600_000_000_000_000
    assert row == {
        "run_id": "night-1", "ledger": LEDGER, "version": 1, "whole": True, "labels_read": 12, "labels_used": 9,
        "labels_repeated": 1, "labels_rejected": 1, "labels_withdrawn": 1, "scores": 3, "skills": 3,
        "edges": 3, "rejects": 2, "started_at_us": 1, "finished_at_us": 2,
    }  # fmt: skip


def test_tables_that_nobody_made_are_made_by_the_load(place, nights):
    warehouse = warehouse_of(place.address)
    assert warehouse.last_run(LEDGER).version == 0
    assert warehouse.ledgers() == set()
    warehouse.load(nights[0])
    assert held(place) == after_first(nights[0])


def test_what_changed_takes_its_place_and_what_is_gone_goes(place, nights):
    warehouse = warehouse_of(place.address)
    warehouse.load(nights[0])
    written = warehouse.load(nights[1])
    assert held(place) == after_second(*nights)
    assert written == {
        "scores": 2, "skills": 2, "edges": 1, "graph": 1,
        "score_history": 3, "skill_history": 2, "rejects": 1, "runs": 1,
    }  # fmt: skip
    assert warehouse.last_run(LEDGER).version == 2


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_tables_that_come_in_many_parts_are_loaded_as_in_one(place, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("pipelines.run_tables._PART_ROWS", 2)
    warehouse = warehouse_of(place.address)
    tasks = [f"t{n}" for n in range(7)]
    warehouse.load(write_run(tmp_path / "1", "night-1", 1, kind=kind, scores=[[score(one) for one in tasks]]))
    changed = [score("t0", "no"), score("t1", status="no-labels"), score("t5", "no"), score("t8"), score("t9")]
    warehouse.load(write_run(tmp_path / "2", "night-2", 2, whole=False, kind=kind, scores=[changed]))
    found = {row["task"]: row["label"] for row in place.rows("scores")}
    assert found == {**dict.fromkeys(("t2", "t3", "t4", "t6", "t8", "t9"), "yes"), "t0": "no", "t5": "no"}
    assert len(place.rows("score_history")) == 12


def test_a_run_that_is_loaded_again_changes_nothing(place, nights):
    warehouse = warehouse_of(place.address)
    for run in nights:
        warehouse.load(run)
    before = place.snapshot()
    for run in nights:
        assert warehouse.load(run) == {}
    warehouse.check()
    assert place.snapshot() == before


def test_an_older_version_after_a_newer_one_changes_nothing(place, nights, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(nights[1])
    before = place.snapshot()
    assert warehouse.load(nights[0]) == {}
    assert warehouse.load(replace(nights[1], run_id="night-2-again")) == {}
    assert place.snapshot() == before
    assert warehouse.load(write_run(tmp_path / "third", "night-3", 3, scores=[[score("t9")]])) != {}


def test_a_whole_run_takes_the_place_of_everything_but_history(place, nights, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(nights[0])
    whole = write_run(
        tmp_path / "third",
        "night-3",
        3,
        scores=[[score("t9"), score("t8", status="no-labels")]],
        skills=[[skill("eva")]],
    )
    warehouse.load(whole)
    assert [row["task"] for row in place.rows("scores")] == ["t9"]
    assert [row["worker"] for row in place.rows("skills")] == ["eva"]
    assert place.rows("edges") == place.rows("graph") == []
    assert len(place.rows("score_history")) == 5
    assert len(place.rows("rejects")) == 2


def test_runs_of_no_ledger_follow_one_another(place, tmp_path):
    warehouse = warehouse_of(place.address)
    runs = [write_run(tmp_path / name, name, scores=[[score(name)]]) for name in ("a", "b")]
    for run in [*runs, runs[0]]:
        warehouse.load(run)
    assert [row["task"] for row in place.rows("scores")] == ["b"]
    assert [row["run_id"] for row in place.rows(RUNS)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["avro", "csv", "jsonl"])
def test_runs_of_every_format_are_loaded(place, tmp_path, kind):
    probabilities = {"yes": 0.5, "no": 0.5}
    run = write_run(tmp_path / "run", "r", kind=kind, scores=[[score("a", probabilities=probabilities), score("b")]])
    warehouse_of(place.address).load(run)
    found = {row["task"]: row["probabilities"] for row in place.rows("scores")}
    assert found == {"a": probabilities, "b": None}


def test_hard_ids_stay_as_they_are(place, tmp_path):
    ids = ['say "hi"', "it's", "two\nlines", "tab\tand\\", "snow ☃ 😀", "", " ", "NULL", "\\N", "$1 %s {x}"]
    run = write_run(tmp_path / "run", "r", scores=[[score(one, label=one, probabilities={one: 1.0}) for one in ids]])
    warehouse_of(place.address).load(run)
    found = [(row["task"], row["label"], row["probabilities"]) for row in place.rows("scores")]
    assert sorted(found, key=str) == sorted([(one, one, {one: 1.0}) for one in ids], key=str)


def test_two_loaders_at_once_load_a_run_once(place, nights):
    warehouse_of(place.address).load(nights[0])
    gate = threading.Barrier(4)

    def load(_):
        gate.wait()
        return warehouse_of(place.address).load(nights[1])

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(load, range(4)))
    if place.at_once:
        assert sorted(map(len, written)) == [0, 0, 0, len(TABLES)]
    assert sum(one.get("score_history", 0) for one in written) == 3
    assert held(place) == after_second(*nights)


def test_a_run_that_is_damaged_changes_nothing(place, nights):
    warehouse = warehouse_of(place.address)
    warehouse.load(nights[0])
    before = place.snapshot()
    last = sorted(Path(nights[1].path, "rejects").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:20])
    with pytest.raises(InputError, match=f"{last.name} cannot be read"):
        warehouse.load(nights[1])
    assert place.snapshot() == before


def test_a_run_with_other_rows_than_its_manifest_says_changes_nothing(place, nights):
    warehouse = warehouse_of(place.address)
    warehouse.load(nights[0])
    before = place.snapshot()
    path = Path(nights[1].path, "manifest.json")
    manifest = json.loads(path.read_text("utf-8"))
    next(one for one in manifest["outputs"] if one["path"].startswith("edges/"))["rows"] += 1
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match="holds 3 rows, but the manifest of its run says 4"):
        warehouse.load(nights[1])
    assert place.snapshot() == before


def test_runs_that_cannot_be_told_are_refused(place, nights):
    warehouse = warehouse_of(place.address)
    for changed, said in (({"run_id": "a/b"}, "it takes letters"), ({"version": 0}, "versions begin with 1")):
        with pytest.raises(InvalidSettingError, match=said):
            warehouse.load(replace(nights[0], **changed))
    with pytest.raises(InputError, match="holds no finished run"):
        warehouse.load(replace(nights[0], path=str(Path(nights[0].path) / "scores")))


def test_a_manifest_tells_its_run(nights):
    assert [loaded_run_of(run.path) for run in nights] == list(nights)


def digest(folder):
    """Every file of a folder, with its checksum and when it was written."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}
