"""A folder of run folders as a warehouse: here, and on Beam's other file systems."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import memory_files
import pytest
from test_warehouses import digest
from warehouse_runs import LEDGER, first_night, score, second_night, write_run

import schemas
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.run_tables import read_manifest, read_parts
from pipelines.settings import OUTPUT_FORMATS
from pipelines.sinks.loads import loaded_run_of
from pipelines.sinks.run_folders import FolderWarehouse
from pipelines.sinks.warehouses import warehouse_of

MODULE = "sinks/run_folders.py"
ROWS = {"scores": 3, "skills": 3, "edges": 3, "graph": 2, "rejects": 2}


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


@pytest.fixture
def memory():
    yield memory_files.FILES
    memory_files.FILES.clear()
    memory_files.FAIL_ON.clear()


def rows_of(folder, name):
    parts = read_parts(str(folder), read_manifest(str(folder)), name)
    return sorted((row for part in parts for row in part.to_pylist(maps_as_pydicts="strict")), key=str)


def assert_same_run(folder, run):
    for name in schemas.TABLES:
        assert rows_of(folder, name) == rows_of(run.path, name)
    told, before = read_manifest(str(folder)), read_manifest(run.path)
    assert {**told, "settings": 0, "outputs": 0} == {**before, "settings": 0, "outputs": 0}


@pytest.mark.parametrize("kind", OUTPUT_FORMATS)
def test_each_run_becomes_a_run_folder_of_the_format_asked_for(nights, tmp_path, kind):
    warehouse = warehouse_of(f"{tmp_path}/all?format={kind}")
    warehouse.check()
    assert warehouse.last_run(LEDGER).version == 0
    assert warehouse.load(nights[0]) == ROWS
    warehouse.load(nights[1])
    for run, name in zip(nights, ("run-000001", "run-000002"), strict=True):
        folder = tmp_path / "all" / name
        assert_same_run(folder, run)
        assert {path.suffix for path in folder.rglob("part-*")} == {f".{kind}"}
        for output in read_manifest(str(folder))["outputs"]:
            assert (folder / output["path"]).stat().st_size == output["size_bytes"]
        assert loaded_run_of(str(folder)) == replace(run, path=str(folder))
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["run-000001", "run-000002"]
    assert warehouse.last_run(LEDGER).version == 2


def test_a_run_that_is_loaded_again_changes_no_byte(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    for run in nights:
        warehouse.load(run)
    before = digest(tmp_path / "all")
    for run in (*nights, replace(nights[0], run_id="late")):
        assert warehouse.load(run) == {}
    assert digest(tmp_path / "all") == before


def test_a_run_of_no_ledger_is_named_by_its_id_and_loaded_again_changes_no_byte(tmp_path):
    run = write_run(tmp_path / "run", "5f0ce1", scores=[[score("t")]])
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    warehouse.load(run)
    before = digest(tmp_path / "all")
    assert warehouse.load(run) == {}
    assert digest(tmp_path / "all") == before
    assert_same_run(tmp_path / "all" / "5f0ce1", run)


def test_what_a_killed_load_left_is_removed_by_the_load_of_another_run(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    left = tmp_path / "all" / "_loading-run-000001" / "scores"
    left.mkdir(parents=True)
    (left / "part-00000.parquet").write_bytes(b"half")
    warehouse.load(nights[1])
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["run-000002"]


def test_two_loaders_at_once_load_a_run_once(nights, tmp_path):
    gate = threading.Barrier(4)

    def load(_):
        gate.wait()
        return FolderWarehouse(str(tmp_path / "all")).load(nights[0])

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(load, range(4)))
    assert sorted(written, key=len) == [{}, {}, {}, ROWS]
    assert_same_run(tmp_path / "all" / "run-000001", nights[0])


def test_two_ledgers_do_not_share_a_folder(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    warehouse.load(nights[0])
    before = digest(tmp_path / "all")
    with pytest.raises(RunError, match="holds the runs of another ledger, nights; give one folder a ledger"):
        warehouse.load(replace(nights[1], ledger="others"))
    assert digest(tmp_path / "all") == before


def test_a_run_with_the_name_of_another_one_is_refused(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    warehouse.load(nights[0])
    before = digest(tmp_path / "all")
    alike = write_run(tmp_path / "alike", "run-000001", scores=[[score("t")]])
    with pytest.raises(RunError, match="run-000001 is another run, night-1; move it, or give another folder"):
        warehouse.load(alike)
    assert digest(tmp_path / "all") == before


def test_on_another_file_system_a_damaged_last_run_is_loaded_again(nights, memory):
    warehouse = FolderWarehouse("memory://all")
    for run in nights:
        warehouse.load(run)
    memory["memory://all/run-000002/manifest.json"] = b""
    assert warehouse.last_run(LEDGER).version == 1
    assert warehouse.load(nights[1])
    assert_same_run("memory://all/run-000002", nights[1])


def test_on_another_file_system_what_no_run_wrote_is_not_removed(nights, memory):
    memory["memory://all/run-000001/notes.txt"] = b"mine"
    with pytest.raises(RunError, match=r"notes\.txt is not of one"):
        FolderWarehouse("memory://all").load(nights[0])
    assert memory == {"memory://all/run-000001/notes.txt": b"mine"}


def test_on_another_file_system_the_manifest_is_written_last(nights, memory):
    warehouse = FolderWarehouse("memory://all")
    warehouse.check()
    assert warehouse.load(nights[0]) == ROWS
    assert list(memory)[-1] == "memory://all/run-000001/manifest.json"
    assert_same_run("memory://all/run-000001", nights[0])
    before = dict(memory)
    assert warehouse.load(nights[0]) == {}
    assert memory == before
    assert warehouse.last_run(LEDGER).version == 1


def test_on_another_file_system_a_load_that_broke_off_is_completed(nights, memory):
    warehouse = FolderWarehouse("memory://all")
    memory_files.FAIL_ON.append("rejects/part")
    with pytest.raises(RunError, match=r"memory://all did not take run night-1: .*out of order"):
        warehouse.load(nights[0])
    assert any("run-000001/scores" in path for path in memory)
    assert warehouse.last_run(LEDGER).version == 0
    memory_files.FAIL_ON.clear()
    warehouse.load(nights[0])
    assert_same_run("memory://all/run-000001", nights[0])
    assert not [path for path in memory if path.endswith(".tmp")]


def test_folders_that_cannot_be_used_are_refused(nights, tmp_path):
    (tmp_path / "file").write_text("x")
    for path, said in (
        (tmp_path / "file", "is a file; give a folder"),
        (tmp_path / "file" / "under", "cannot be made"),
        (tmp_path / "first", "is the folder of one run"),
    ):
        with pytest.raises(InvalidSettingError, match=said):
            FolderWarehouse(str(path)).check()
    with pytest.raises(InvalidSettingError, match="'xml'; it takes parquet, avro, csv, jsonl"):
        warehouse_of("all?format=xml")


def test_a_manifest_that_does_not_tell_its_run_is_refused(nights, tmp_path):
    path = tmp_path / "first" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": {"whole": "perhaps"}}))
    with pytest.raises(InputError, match="does not say which run it is"):
        loaded_run_of(str(tmp_path / "first"))
