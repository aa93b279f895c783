"""A night that was killed at any moment and is run again leaves what an undisturbed one leaves, in warehouses, too."""

import itertools
import random
import shutil

import pytest
from kill_farm import KillFarm, moments
from nights import (
    bytes_of,
    crowd_nights,
    ledger_command,
    nightly,
    rows_of,
    run_of,
    state_of,
    warehouse_rows,
    write_nights,
)

from pipelines.ledger.folder import LedgerFolder

N_NIGHTS, KILLS_A_NIGHT = 10, 2
PAIR = ("worker_a", "worker_b")
TABLES = {"scores": "task", "skills": "worker", "edges": PAIR, "graph": "component"}


def options_of(folder):
    """A ledger and two warehouses in a folder."""
    outputs = ("--output", f"duckdb:{folder}/crowd.duckdb", "--output", f"{folder}/answers")
    return ("--ledger", f"{folder}/ledger", "--shards", "3", "--keep-versions", "2", *outputs)


def told_by(folder):
    """All that a ledger and its warehouses say, but for ids and times."""
    ledger = LedgerFolder(f"{folder}/ledger")
    version = ledger.existing()
    found = {"state": state_of(ledger.path), "versions": ledger.numbers(), "number": version.number}
    found["counts"] = {name: n for name, n in version.counts.items() if name != "ledger_bytes_read"}
    for table, key in TABLES.items():
        found[f"run {table}"] = rows_of(run_of(ledger.path), table, key)
        found[f"warehouse {table}"] = warehouse_rows(f"{folder}/crowd.duckdb", table, key)
    for table in ("score_history", "skill_history"):
        key = "task" if table == "score_history" else "worker"
        with_version = warehouse_rows(f"{folder}/crowd.duckdb", table, (key, "version"), keep=("version",))
        found[f"warehouse {table}"] = with_version
    runs = warehouse_rows(f"{folder}/crowd.duckdb", "runs", "version", keep=("version",))
    moments = ("ledger", "started_at_us", "finished_at_us", "loaded_at_us")
    found["runs"] = {n: {name: row[name] for name in row if name not in moments} for n, row in runs.items()}
    for number in found["runs"]:
        for table, key in TABLES.items():
            found[f"folder {number} {table}"] = rows_of(f"{folder}/answers/run-{number:06d}", table, key)
    return found


def files_of(folder):
    """The paths of a ledger's files: nothing is left over, and nothing is missing."""
    return sorted(bytes_of(f"{folder}/ledger"))


def assert_same(folder, expected):
    found = told_by(folder)
    for name, value in expected.items():
        assert found[name] == value, name
    assert ledger_command("verify", f"{folder}/ledger")["sound"]


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    return write_nights(folder / "labels", crowd_nights(N_NIGHTS, n_tasks=400))


@pytest.fixture(scope="module")
def farm():
    with KillFarm() as process:
        yield process


@pytest.fixture(scope="module")
def undisturbed(nights, farm, tmp_path_factory):
    """A folder after each night, undisturbed; and how long the nights took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    after, seconds = [], []
    for number, files in enumerate(nights, 1):
        (folder / "now").mkdir(exist_ok=True)
        told = farm.run("nightly", *files, *options_of(folder / "now"), "--quiet")
        assert told["code"] == 0
        seconds.append(told["seconds"])
        after.append(shutil.copytree(folder / "now", folder / f"after-{number}"))
    return after, seconds


def kill(farm, files, folder, delay):
    """Kills a night after a while; where it was done before that, it is as if it had not been, and dies earlier."""
    before = shutil.copytree(folder, folder.parent / "before")
    while farm.run("nightly", *files, *options_of(folder), "--quiet", delay=delay)["code"] != -9:
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        delay /= 2
    shutil.rmtree(before)


def test_twenty_kills_at_random_moments_of_ten_nights_change_nothing(nights, farm, undisturbed, tmp_path):
    after, seconds = undisturbed
    moments, folder = random.Random(6), tmp_path / "now"
    folder.mkdir()
    for number, files in enumerate(nights):
        for _ in range(KILLS_A_NIGHT):
            kill(farm, files, folder, moments.uniform(0, seconds[number]))
        assert farm.run("nightly", *files, *options_of(folder), "--quiet")["code"] == 0
        if number % 3 == 0 or number == N_NIGHTS - 1:
            assert_same(folder, told_by(after[number]))
            assert files_of(folder) == files_of(after[number])


def test_twenty_kills_at_random_moments_of_one_night_change_nothing(nights, farm, undisturbed, tmp_path):
    after, seconds = undisturbed
    draw, folder = random.Random(7), tmp_path / "now"
    night = draw.randrange(1, N_NIGHTS)
    expected = told_by(after[night])
    for _ in range(20):
        shutil.copytree(after[night - 1], folder)
        kill(farm, nights[night], folder, draw.uniform(0, seconds[night]))
        assert farm.run("nightly", *nights[night], *options_of(folder), "--quiet")["code"] == 0
        assert_same(folder, expected)
        assert files_of(folder) == files_of(after[night])
        shutil.rmtree(folder)


POINTS = {
    "fsync": (1, -1),
    "publish": (1,),
    "duckdb": (1,),
    "duckdb commit": (-1,),  # the others are of what it asks before
    "folder": (1,),
}


def test_a_kill_before_any_change_of_a_file_changes_nothing(nights, farm, undisturbed, tmp_path):
    before, expected = undisturbed[0][2], undisturbed[0][3]
    folder = shutil.copytree(before, tmp_path / "night")
    night, told = ("nightly", *nights[3], *options_of(folder), "--quiet"), told_by(expected)
    changes = farm.run(*night)["changes"]
    assert {change.split()[0] for change in changes} == {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
    for call in moments(changes):
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        assert farm.run(*night, point="change", call=call)["code"] == -9, changes[call - 1]
        assert farm.run(*night)["code"] == 0, changes[call - 1]
        assert_same(folder, told)
        assert files_of(folder) == files_of(expected), changes[call - 1]


@pytest.fixture(scope="module")
def calls(nights, farm, undisturbed, tmp_path_factory):
    """How often each point is passed in the fourth night."""
    folder = tmp_path_factory.mktemp("calls") / "night"
    shutil.copytree(undisturbed[0][2], folder)
    told = farm.run("nightly", *nights[3], *options_of(folder), "--quiet")
    assert set(told["calls"]) == set(POINTS)
    return told["calls"]


@pytest.mark.parametrize(
    ("point", "call", "after"),
    [(point, *when) for point, found in POINTS.items() for when in itertools.product(found, (False, True))],
)
def test_a_kill_before_or_after_any_step_changes_nothing(
    nights, farm, undisturbed, calls, tmp_path, point, call, after
):
    folder = shutil.copytree(undisturbed[0][2], tmp_path / "night")
    at = call if call > 0 else calls[point] + 1 + call
    told = farm.run("nightly", *nights[3], *options_of(folder), "--quiet", point=point, call=at, after=after)
    assert told["code"] == -9
    assert farm.run("nightly", *nights[3], *options_of(folder), "--quiet")["code"] == 0
    assert_same(folder, told_by(undisturbed[0][3]))
    assert files_of(folder) == files_of(undisturbed[0][3])


def test_a_first_night_that_was_killed_is_run_again_whatever_it_left(nights, farm, undisturbed, tmp_path):
    folder = tmp_path / "night"
    night, told = ("nightly", *nights[0], *options_of(folder), "--quiet"), told_by(undisturbed[0][0])
    changes = farm.run(*night)["changes"]
    for call in [call for call in moments(changes) if " folder." in changes[call - 1]]:
        shutil.rmtree(folder)
        assert farm.run(*night, point="change", call=call)["code"] == -9, changes[call - 1]
        farm.run(*night, point="change", call=8)  # amid what it removes, where much was left
        assert farm.run(*night)["code"] == 0, changes[call - 1]
        assert_same(folder, told)
        assert files_of(folder) == files_of(undisturbed[0][0]), changes[call - 1]


def test_a_warehouse_that_a_kill_kept_from_a_night_gets_it_with_the_next_one(nights, farm, undisturbed, tmp_path):
    folder = shutil.copytree(undisturbed[0][2], tmp_path / "night")
    told = farm.run("nightly", *nights[3], *options_of(folder), "--quiet", point="duckdb", call=1)
    assert told["code"] == -9
    assert LedgerFolder(f"{folder}/ledger").existing().number == 4  # it is in the ledger
    assert set(warehouse_rows(f"{folder}/crowd.duckdb", "runs", "version", keep=("version",))) == {1, 2, 3}
    assert farm.run("nightly", *nights[4], *options_of(folder), "--quiet")["code"] == 0
    assert_same(folder, told_by(undisturbed[0][4]))


def test_a_warehouse_that_missed_more_nights_than_are_kept_gets_everything(nights, undisturbed, tmp_path):
    folder = shutil.copytree(undisturbed[0][2], tmp_path / "night")
    to = ("--output", f"duckdb:{folder}/crowd.duckdb")
    for files in nights[3:6]:
        nightly(f"{folder}/ledger", files, "--keep-versions", "2")
    loaded = nightly(f"{folder}/ledger", nights[5], "--keep-versions", "2", *to)["loaded"]
    assert next(iter(loaded.values()))["runs"] == 1
    expected = told_by(undisturbed[0][5])
    for table in ("edges", "graph"):
        assert warehouse_rows(f"{folder}/crowd.duckdb", table, TABLES[table]) == expected[f"warehouse {table}"]
    runs = warehouse_rows(f"{folder}/crowd.duckdb", "runs", "version", keep=("version",))
    assert {number: row["whole"] for number, row in runs.items()} == {1: True, 2: False, 3: False, 6: True}
    assert warehouse_rows(f"{folder}/crowd.duckdb", "scores", "task").keys() == expected["warehouse scores"].keys()
