"""Iceberg on a real SQL catalog: what a load leaves, what one that was killed leaves, and what two at once do."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lake_places import InIceberg
from pyiceberg.exceptions import CommitFailedException
from warehouse_runs import LEDGER, after_first, after_second, first_night, load_and_die, score, second_night, write_run

from pipelines.errors import InvalidSettingError, RunError
from pipelines.sinks import iceberg, read_through
from pipelines.sinks.iceberg import LEDGER as BEARS_LEDGER
from pipelines.sinks.iceberg import LOADING, RUN_ID, TRIES, VERSION, IcebergWarehouse
from pipelines.sinks.iceberg_tables import table_of, told
from pipelines.sinks.loads import CURRENT, TABLES, loaded_run_of
from pipelines.sinks.warehouses import warehouse_of


@pytest.fixture
def place(request, tmp_path):
    return InIceberg(tmp_path, request)


@pytest.fixture
def warehouse(place):
    made = warehouse_of(place.address)
    made.check()
    return made


@pytest.fixture
def table(place):
    with place.catalog() as catalog:
        yield lambda name: catalog.load_table(f"crowd.{name}")


@pytest.fixture
def contents(place):
    """Everything but the moment of loading."""

    def read():
        return {name: [row | {"loaded_at_us": 0} for row in place.rows(name)] for name in TABLES}

    return read


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


def short_night(folder, run_id, version, *tasks):
    return write_run(folder, run_id, version, whole=False, scores=[[score(task) for task in tasks]])


def test_snapshots_bear_the_run_and_versions_are_a_property(warehouse, table, nights):
    for run in nights:
        warehouse.load(run)
    for name in set(TABLES) - {"runs"}:
        found = [one.summary for one in table(name).metadata.snapshots]
        assert {one[RUN_ID] for one in found} == {"night-1", "night-2"}, name
        assert {(one[VERSION], one[BEARS_LEDGER]) for one in found} == {("1", LEDGER), ("2", LEDGER)}
    assert warehouse.last_run(LEDGER).version == 2
    assert warehouse.last_run("dogs").version == 0
    assert LOADING not in table("runs").properties


def test_files_without_a_changed_task_are_not_written_again(warehouse, table, tmp_path):
    warehouse.load(short_night(tmp_path / "1", "a", 1, "t1"))
    warehouse.load(short_night(tmp_path / "2", "b", 2, "t2"))
    before = {one.file.file_path for one in table("scores").scan().plan_files()}
    warehouse.load(short_night(tmp_path / "3", "c", 3, "t2", "t0"))
    after = {one.file.file_path for one in table("scores").scan().plan_files()}
    assert len(before & after) == 1
    assert len(after) == 2


@pytest.mark.parametrize("commit", [2, 5, 9])  # the announcement, four current tables, three histories, runs
def test_a_load_killed_at_a_commit_is_completed_by_a_later_run(place, tmp_path, contents, warehouse, nights, commit):
    first, second = nights
    third = short_night(tmp_path / "3", "night-3", 3, "t1")
    for run in (first, second, third):
        warehouse.load(run)
    expected = contents()
    with place.catalog() as catalog:
        for name in TABLES:
            catalog.drop_table(f"crowd.{name}")
    warehouse.load(first)
    load_and_die(second, place.address, place.commits, commit)
    warehouse.load(third)
    assert contents() == expected


def test_a_broken_load_whose_folder_is_gone_stops_the_next_with_a_sentence(
    place, warehouse, contents, nights, tmp_path
):
    first, second = nights
    load_and_die(first, place.address, place.commits, 3)
    Path(first.path).rename(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"run night-1 .* was broken off .* no manifest.json in it. Load that run from"):
        warehouse.load(second)
    warehouse.load(loaded_run_of(str(tmp_path / "elsewhere")))
    warehouse.load(second)
    assert len(contents()["score_history"]) == 6


def test_a_whole_run_of_the_same_ledger_goes_on_where_a_broken_one_is_lost(place, warehouse, table, contents, nights):
    first, second = nights
    load_and_die(first, place.address, place.commits, 3)
    shutil.rmtree(first.path)
    whole = replace(second, whole=True)
    with pytest.raises(RunError, match="holds the runs of another ledger"):
        warehouse.load(replace(whole, ledger="another"))
    assert warehouse.load(whole)["runs"] == 1
    assert {row["run_id"] for row in contents()["scores"]} == {second.run_id}
    assert LOADING not in table("runs").properties
    assert warehouse.last_run(LEDGER).version == second.version
    assert warehouse.load(whole) == {}


def test_a_broken_load_is_not_doubled_when_its_snapshots_have_expired(place, warehouse, table, nights):
    first, second = nights
    warehouse.load(first)
    load_and_die(second, place.address, place.commits, 7)  # score_history has its rows
    history = table("score_history")
    history.append(history.schema().as_arrow().empty_table())  # somebody's maintenance
    now = history.metadata.current_snapshot_id
    old = [one.snapshot_id for one in history.metadata.snapshots if one.snapshot_id != now]
    history.maintenance.expire_snapshots().by_ids(old).commit()
    assert [one.summary[RUN_ID] for one in table("score_history").metadata.snapshots] == [None]
    assert len(place.rows("score_history")) == 6
    warehouse.load(second)
    assert {name: place.rows(name) for name in CURRENT} == {name: after_second(*nights)[name] for name in CURRENT}
    assert place.rows("score_history") == after_second(*nights)["score_history"]


def test_runs_that_do_not_fit_into_memory_are_read_again(monkeypatch, place, warehouse, nights):
    monkeypatch.setattr(read_through, "MOST_BYTES", 0)
    for run in nights:
        assert read_through.ReadThrough.of(run).kept == {}
        warehouse.load(run)
    expected = after_second(*nights)
    assert {name: place.rows(name) for name in expected} == expected


def test_loaders_at_once_load_a_night_once(warehouse, contents, nights):
    first, second = nights
    warehouse.load(first)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(warehouse.load, [second] * 4))
    found = contents()
    assert sorted(row["run_id"] for row in found["runs"]) == ["night-1", "night-2"]
    assert len(found["score_history"]) == 6
    assert {row["task"] for row in found["scores"]} == {"t1", "t3", "t4"}


def test_runs_of_no_ledger_that_are_loaded_at_once_are_each_loaded_once(warehouse, contents, tmp_path):
    free = [write_run(tmp_path / name, name, whole=False, scores=[[score(name)]]) for name in ("x", "y")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(warehouse.load, free * 2))
    assert sorted(row["run_id"] for row in contents()["runs"]) == ["x", "y"]
    assert {row["task"] for row in contents()["scores"]} == {"x", "y"}


def test_a_table_that_others_change_all_the_time_is_given_up_with_a_sentence(
    warehouse, table, contents, nights, monkeypatch
):
    append, tries = iceberg.append, []

    def overtaken(change, parts, schema, marks):
        """Another writer commits to the same table, really, between our look at it and our commit."""
        if schema.names[0] == "record":
            tries.append(1)
            table("rejects").append(schema.empty_table())
        return append(change, parts, schema, marks)

    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "_FIRST_PAUSE_S", 0.0)
        patch.setattr(iceberg, "append", overtaken)
        with pytest.raises(RunError, match=f"table rejects of iceberg://.*was changed .* each of {TRIES} tries"):
            warehouse.load(nights[0])
    assert len(tries) == TRIES
    warehouse.load(nights[0])
    assert len(contents()["rejects"]) == 2


def test_a_commit_that_comes_too_late_is_not_repeated_by_the_client(warehouse, place, table):
    with place.catalog() as catalog:
        stale = table_of(catalog, "crowd", "rejects")
        schema = stale.schema().as_arrow()
        table("rejects").append(schema.empty_table())
        with pytest.raises(CommitFailedException):
            stale.append(schema.empty_table())
    assert "commit.retry.num-retries" not in table("rejects").properties


def test_a_table_of_an_older_version_gets_its_new_columns(warehouse, place, nights):
    with place.catalog() as catalog:
        catalog.drop_table("crowd.skills")
        catalog.create_table("crowd.skills", pa.schema([("worker", pa.string())]))
    warehouse.check()
    warehouse.load(nights[0])
    assert place.rows("skills") == after_first(nights[0])["skills"]


def test_a_table_of_something_else_is_refused(warehouse, place):
    with place.catalog() as catalog:
        catalog.drop_table("crowd.skills")
        catalog.create_table("crowd.skills", pa.schema([("worker", pa.int64())]))
    with pytest.raises(InvalidSettingError, match="column worker of the table skills is"):
        warehouse.check()


def test_a_column_that_somebody_renamed_is_told_before_anything_is_loaded(warehouse, place, table):
    with table("scores").update_schema() as update:
        update.rename_column("label", "lbl")
    before = table("scores").schema()
    with pytest.raises(InvalidSettingError, match=r"scores has the column lbl, .* If it was label, rename it back"):
        warehouse.check()
    assert table("scores").schema() == before


def test_a_catalog_that_is_not_described_is_refused(place):
    with pytest.raises(InvalidSettingError, match=r"no Iceberg catalog called 'pond'.*lake.*CATALOG__POND__URI"):
        IcebergWarehouse("pond", "crowd").check()
    with pytest.raises(InvalidSettingError, match="names no catalog"):
        IcebergWarehouse("lake", "crowd.")


def test_a_catalog_that_goes_away_after_the_check_is_no_bad_setting(warehouse, place, nights, monkeypatch):
    monkeypatch.delenv(f"PYICEBERG_CATALOG__{place.name.upper()}__URI")
    monkeypatch.delenv(f"PYICEBERG_CATALOG__{place.name.upper()}__WAREHOUSE")
    for ask in (lambda: warehouse.load(nights[0]), warehouse.ledgers, lambda: warehouse.last_run(LEDGER)):
        with pytest.raises(RunError, match="no Iceberg catalog called"):
            ask()


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("postgresql+psycopg://me:hush-hush@127.0.0.1:1/nowhere", "sql"),
        ("http://me:hush-hush@127.0.0.1:1", "rest"),
        ("carrier-pigeon://me:hush-hush@roof", ""),
    ],
)
def test_no_credential_is_in_an_error_a_log_or_what_is_stored(monkeypatch, tmp_path, caplog, uri, kind):
    monkeypatch.setenv("PYICEBERG_CATALOG__SAFE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__SAFE__TOKEN", "hush-hush")
    if kind:
        monkeypatch.setenv("PYICEBERG_CATALOG__SAFE__TYPE", kind)
    caplog.set_level(logging.INFO)
    warehouse = IcebergWarehouse("safe", "crowd")
    with pytest.raises((InvalidSettingError, RunError)) as refused:
        warehouse.check()
    assert "safe" in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert "hush-hush" not in f"{refused.value} {warehouse} {warehouse!r} {caplog.text}"


def test_no_half_of_a_credential_is_left_where_a_long_error_is_cut():
    with pytest.raises(RunError) as refused, told("It failed", RunError, {"hush-hush"}):
        raise OSError("x" * 295 + "hush-hush")
    assert "hush" not in str(refused.value)


def test_the_catalog_keeps_no_credential(monkeypatch, warehouse, place, nights, tmp_path):
    for name in ("S3__SECRET_ACCESS_KEY", "TOKEN"):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{place.name.upper()}__{name}", "hush-hush")
    warehouse.load(nights[0])
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.name.endswith(".metadata.json") for file in files)
    assert Path(nights[0].path, "manifest.json") in files
    for file in files:
        assert b"hush-hush" not in file.read_bytes(), file
