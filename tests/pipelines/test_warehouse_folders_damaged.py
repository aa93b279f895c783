"""A folder of run folders whose runs are damaged, or hold what no run wrote; and what a power cut leaves of them."""

import os

import pytest
from test_warehouse_folders import assert_same_run
from test_warehouses import digest
from warehouse_runs import LEDGER, first_night, score, second_night, write_run

from pipelines.errors import InputError, RunError
from pipelines.sinks.run_folders import FolderWarehouse


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


def test_a_damaged_run_leaves_nothing_that_looks_like_a_run(nights, tmp_path):
    (tmp_path / "first" / "rejects" / "part-00000.parquet").write_bytes(b"PAR1")
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    with pytest.raises(InputError, match="cannot be read"):
        warehouse.load(nights[0])
    assert warehouse.last_run(LEDGER).version == 0
    assert not (tmp_path / "all" / "run-000001").exists()


@pytest.mark.parametrize("damage", ["", "{", '{"format_version": 1}'])
def test_a_damaged_last_run_is_loaded_again_in_its_place(nights, tmp_path, damage):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    for run in nights:
        warehouse.load(run)
    (tmp_path / "all" / "run-000002" / "manifest.json").write_text(damage)
    assert (warehouse.last_run(LEDGER).version, warehouse.ledgers()) == (1, {LEDGER})
    assert warehouse.load(nights[0]) == {}
    assert warehouse.load(nights[1])
    assert warehouse.load(nights[1]) == {}
    assert_same_run(tmp_path / "all" / "run-000002", nights[1])
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["run-000001", "run-000002"]


def test_a_last_run_whose_manifest_was_removed_is_loaded_again_in_its_place(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    for run in nights:
        warehouse.load(run)
    (tmp_path / "all" / "run-000002" / "manifest.json").unlink()
    assert warehouse.last_run(LEDGER).version == 1
    assert warehouse.load(nights[1])
    assert_same_run(tmp_path / "all" / "run-000002", nights[1])
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["run-000001", "run-000002"]


@pytest.mark.parametrize("strange", ["notes.txt", "scores/mine.txt", "scores/deep/part-0", "empty/"])
@pytest.mark.parametrize("damage", [None, "{"])
def test_a_folder_with_something_that_no_run_wrote_is_never_removed(nights, tmp_path, strange, damage):
    place = tmp_path / "all" / "run-000001"
    (place / strange).parent.mkdir(parents=True)
    (place / strange).mkdir() if strange.endswith("/") else (place / strange).write_text("mine")
    if damage:
        (place / "manifest.json").write_text(damage)
    before = digest(tmp_path / "all")
    with pytest.raises(RunError, match=r"run-000001 is no finished run, and .* is not of one, .* move it away"):
        FolderWarehouse(str(tmp_path / "all")).load(nights[0])
    assert digest(tmp_path / "all") == before
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["run-000001"]


def test_a_file_or_a_link_in_the_place_of_a_run_stays(nights, tmp_path):
    place = tmp_path / "all" / "run-000001"
    place.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    for make in (lambda: place.write_text("mine"), lambda: place.symlink_to(tmp_path / "elsewhere")):
        make()
        with pytest.raises(RunError, match="is no finished run"):
            FolderWarehouse(str(tmp_path / "all")).load(nights[0])
        place.unlink()


def test_all_of_a_run_is_on_the_disk_before_it_is_in_its_place(nights, tmp_path, monkeypatch):
    synced, at_rename, sync, rename = [], [], os.fsync, os.rename

    def noted_sync(file):
        sync(file)
        synced.append(os.fstat(file).st_ino)

    def noted_rename(source, place):
        at_rename.append(set(synced))
        synced.clear()
        rename(source, place)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "rename", noted_rename)
    FolderWarehouse(str(tmp_path / "all")).load(nights[0])
    (known,) = at_rename
    place = tmp_path / "all" / "run-000001"
    assert {path.stat().st_ino for path in (place, *place.rglob("*"))} <= known
    assert synced == [(tmp_path / "all").stat().st_ino]  # that the run has its name


def test_a_damaged_run_of_no_ledger_is_loaded_again_in_its_place(tmp_path):
    run = write_run(tmp_path / "run", "5f0ce1", scores=[[score("t")]])
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    warehouse.load(run)
    (tmp_path / "all" / "5f0ce1" / "manifest.json").write_text("")
    assert warehouse.load(run)
    assert_same_run(tmp_path / "all" / "5f0ce1", run)


def test_of_earlier_nights_nothing_is_opened(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    for run in nights:
        warehouse.load(run)
    (tmp_path / "all" / "run-000001" / "manifest.json").write_text('{"format_version": 99}')
    assert (warehouse.last_run(LEDGER).version, warehouse.ledgers()) == (2, {LEDGER})
    third = write_run(tmp_path / "third", "night-3", 3, whole=False, scores=[[score("t4")]])
    assert warehouse.load(third)["scores"] == 1
    assert warehouse.last_run(LEDGER).version == 3


def test_a_last_run_of_a_later_format_is_not_taken_for_damaged(nights, tmp_path):
    warehouse = FolderWarehouse(str(tmp_path / "all"))
    warehouse.load(nights[0])
    (tmp_path / "all" / "run-000001" / "manifest.json").write_text('{"format_version": 99}')
    before = digest(tmp_path / "all")
    for run in nights:
        with pytest.raises(InputError, match="no manifest of this version of crowdbeam"):
            warehouse.load(run)
    assert digest(tmp_path / "all") == before
