"""A night that is killed at a commit of a warehouse, of every kind, and run again, or followed by the next one."""

import tempfile

import pytest
from kill_farm import KillFarm
from nights import crowd_nights, write_nights
from test_warehouses import HELD, WAREHOUSES


@pytest.fixture
def nights(tmp_path):
    return write_nights(tmp_path / "labels", crowd_nights(3, n_tasks=60, n_workers=8))


@pytest.fixture
def loaded(nights, tmp_path, request):
    """Runs nights, each given by its number and when it is killed, with a new ledger and warehouse; gives that.

    And the calls of its commit in the last night.
    """

    def run(kind, *parts):
        place = WAREHOUSES[kind](tmp_path, request)  # a stand-in's address is in the environment: the farm comes after
        options = ("--ledger", tempfile.mkdtemp(dir=tmp_path), "--output", place.address, "--quiet")
        with KillFarm() as farm:
            for number, call in parts:
                told = farm.run("nightly", *nights[number], *options, point=place.commits[0], call=call)
                assert told["code"] == (-9 if call else 0)
        return place, told["calls"].get(place.commits[0])

    return run


def told_by(place):
    """What a warehouse holds, but for ids of runs and the moment of loading."""
    found = {name: [row | {"run_id": ""} for row in place.rows(name)] for name in HELD}
    return found | {"versions": sorted(row["version"] for row in place.rows("runs"))}


@pytest.mark.parametrize("kind", WAREHOUSES)
def test_a_night_killed_at_a_commit_of_its_warehouse_is_loaded_once(kind, loaded):
    two, n_commits = loaded(kind, (0, 0), (1, 0))
    for call in sorted({1, n_commits // 2 + 1, n_commits}):
        place, _ = loaded(kind, (0, 0), (1, call), (1, 0))
        assert told_by(place) == told_by(two), call
    three, _ = loaded(kind, (0, 0), (1, 0), (2, 0))
    place, _ = loaded(kind, (0, 0), (1, n_commits), (2, 0))
    assert told_by(place) == told_by(three)
