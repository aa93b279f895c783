"""Loads that are killed: at any line, at any commit, between writes. The next one leaves one copy of the run."""

import pytest
from test_warehouse_folders import assert_same_run
from test_warehouses import WAREHOUSES, held
from warehouse_runs import (
    LEDGER,
    after_first,
    after_second,
    first_night,
    load_and_die,
    load_killed,
    moments_of,
    second_night,
)

from pipelines.sinks.loads import RUNS
from pipelines.sinks.run_folders import FolderWarehouse
from pipelines.sinks.warehouses import warehouse_of

FOLDERS = "sinks/run_folders.py"


@pytest.fixture(params=[pytest.param(name, id=name) for name in WAREHOUSES])
def place(request, tmp_path):
    return WAREHOUSES[request.param](tmp_path, request)


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


def test_a_load_killed_at_any_moment_is_completed_by_the_next(place, nights, tmp_path, request):
    first, second = nights
    warehouse_of(place.address).load(first)
    functions = load_killed(second, place.address, place.module, 0)
    expected, seen = held(place), set()
    assert expected == after_second(first, second)
    for moment in moments_of(functions):
        there = type(place)(tmp_path, request)
        warehouse = warehouse_of(there.address)
        warehouse.load(first)
        load_killed(second, there.address, there.module, moment)
        seen.add(warehouse.last_run(LEDGER).version)
        assert not there.at_once or held(there) in (after_first(first), expected)
        warehouse.load(second)
        assert held(there) == expected
        assert [row["run_id"] for row in there.rows(RUNS)] == ["night-1", "night-2"]
    assert seen == {1, 2}  # some were killed before the commit, some after it


def test_a_load_killed_at_any_commit_or_between_its_writes_leaves_one_copy(place, nights, tmp_path, request):
    first, second = nights
    warehouse_of(place.address).load(first)
    n_commits = load_and_die(second, place.address, place.commits)
    expected, seen = held(place), set()
    kills = [(place.commits, call, False) for call in range(1, n_commits + 1)] + [(place.commits, n_commits, True)]
    kills += [(place.writes, call, True) for call in (1, 3)]
    for points, call, after in kills:
        there = type(place)(tmp_path, request)
        warehouse = warehouse_of(there.address)
        warehouse.load(first)
        load_and_die(second, there.address, points, call, after)
        seen.add(warehouse.last_run(LEDGER).version)
        assert not there.at_once or held(there) in (after_first(first), expected)
        warehouse.load(second)
        assert held(there) == expected == after_second(first, second), (points, call, after)
        assert [row["run_id"] for row in there.rows(RUNS)] == ["night-1", "night-2"]
    assert seen == {1, 2}


def test_a_folders_load_killed_at_any_moment_is_completed_by_the_next(nights, tmp_path):
    lines = len(load_killed(nights[0], str(tmp_path / "whole"), FOLDERS, 0))
    expected = [one.name for one in sorted((tmp_path / "whole").rglob("*"))]
    seen = set()
    for moment in (2, lines // 2, lines - 20, lines - 3, lines - 1, lines):
        warehouse = FolderWarehouse(str(tmp_path / f"killed-{moment}"))
        load_killed(nights[0], warehouse.path, FOLDERS, moment)
        seen.add(warehouse.last_run(LEDGER).version)
        warehouse.load(nights[0])
        assert [one.name for one in sorted((tmp_path / f"killed-{moment}").rglob("*"))] == expected
        assert_same_run(tmp_path / f"killed-{moment}" / "run-000001", nights[0])
    assert seen == {0, 1}


@pytest.mark.parametrize("damage", [None, "", "{"])
def test_a_folders_load_killed_between_any_renames_leaves_one_copy(nights, tmp_path, damage):
    """A file that is written is renamed, and so is the run; before that what is left of a damaged one goes aside."""

    def prepared(name):
        warehouse = FolderWarehouse(str(tmp_path / name))
        warehouse.load(nights[0])
        if damage is not None:
            warehouse.load(nights[1])
            manifest = tmp_path / name / "run-000002" / "manifest.json"
            manifest.write_text(damage) if damage else manifest.unlink()
        return warehouse

    points = ("replace", "rename")
    n_calls, seen = load_and_die(nights[1], prepared("counted").path, points), set()
    assert n_calls == 8 + (damage is not None)  # six files of tables, the manifest, the run
    for call, after in [*((one, False) for one in range(1, n_calls + 1)), (n_calls, True)]:
        warehouse = prepared(f"{call}-{after}")
        load_and_die(nights[1], warehouse.path, points, call, after)
        seen.add(warehouse.last_run(LEDGER).version)
        warehouse.load(nights[1])
        found = tmp_path / f"{call}-{after}"
        assert_same_run(found / "run-000002", nights[1])
        assert sorted(path.name for path in found.iterdir()) == ["run-000001", "run-000002"]
    assert seen == {1, 2}
