"""Which runs a warehouse still needs, or whether it needs everything; and nothing that is made for a load stays."""

import json
import shutil
from dataclasses import asdict

import pytest
from kill_farm import KillFarm
from nights import bytes_of, crowd_nights, ledger_command, nightly, rows_of, warehouse_rows, write_nights

from pipelines.errors import RunError
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.loading import _chain
from pipelines.ledger.version import KeptFile, Version, name_of
from pipelines.run_folder import FORMAT_VERSION
from pipelines.sinks.duckdb import DuckDbWarehouse
from pipelines.sinks.loads import AFTER
from pipelines.sinks.warehouse import LastRun

NOTHING = KeptFile("", 0, "")


def versions(folder, *made):
    """A ledger of (number, parent, kind), written N, W (whole), C (compact), R (rollback); the last is returned.

    The run of version n has the id run-n; of a night its manifest tells that it follows run-(parent).
    """
    ledger = LedgerFolder(str(folder))
    for number, parent, kind in made:
        name = {"N": "night", "W": "night", "C": "compact", "R": "rollback"}[kind]
        run = f"runs/{number}" if kind in "NW" else ""
        version = Version(1, "id", number, parent, name, f"run-{number}", 0, 1, (), NOTHING, NOTHING, NOTHING, 0, {}, 0)
        found = asdict(version) | {"whole": kind == "W", "run": run}
        ledger.write(f"versions/{name_of(number)}.json", json.dumps(found).encode())
        if run:
            manifest = {"format_version": FORMAT_VERSION, "settings": {AFTER: json.dumps([f"run-{parent}"])}}
            ledger.write(f"{run}/manifest.json", json.dumps(manifest).encode())
    return ledger, ledger.version(made[-1][0])


PLAIN = ((1, 0, "W"), (2, 1, "N"), (3, 2, "N"))


@pytest.mark.parametrize(
    ("made", "last", "expected"),
    [
        (PLAIN, 3, []),
        (PLAIN, 2, [3]),
        (PLAIN, 1, [2, 3]),
        (PLAIN, 0, [1, 2, 3]),
        (PLAIN[1:], 1, [2, 3]),  # the version before is no longer kept, and not needed
        (PLAIN[1:], 0, None),
        (PLAIN[2:], 1, None),
        (((1, 0, "N"), (2, 1, "N")), 0, None),  # the first is not whole: it was thrown away with what came before
        ((*PLAIN, (4, 3, "W")), 0, [4]),  # a whole run needs none before it
        ((*PLAIN[2:], (4, 3, "W")), 1, [4]),
        ((*PLAIN, (4, 3, "C")), 3, []),
        ((*PLAIN, (4, 3, "C")), 2, [3]),
        ((*PLAIN, (4, 3, "C"), (5, 4, "N")), 3, [5]),
        (((4, 3, "C"), (5, 4, "N")), 3, None),  # nor is it known here what was compacted
        (((5, 4, "N"),), 3, None),  # what version 4 was is not known any more
        ((*PLAIN, (4, 1, "R")), 3, None),
        ((*PLAIN, (4, 1, "R")), 4, []),
        ((*PLAIN, (4, 1, "R"), (5, 4, "N")), 3, None),
        ((*PLAIN, (4, 1, "R"), (5, 4, "N")), 4, [5]),
        ((*PLAIN, (4, 1, "R"), (5, 4, "W")), 3, [5]),
        ((*PLAIN, (4, 1, "R"), (5, 4, "N")), 1, None),
        ((*PLAIN, (4, 2, "R"), (5, 4, "C")), 3, None),
        (PLAIN, 7, None),  # it has seen more than there is
    ],
)
def test_the_runs_that_lead_to_the_version_that_holds(tmp_path, made, last, expected):
    ledger, version = versions(tmp_path, *made)
    found = _chain(ledger, version, LastRun(last, f"run-{last}" if last else ""))
    assert (None if found is None else [one.number for one in found]) == expected


@pytest.mark.parametrize(
    ("made", "last", "expected"),
    [
        (PLAIN, 3, None),
        (PLAIN, 2, None),
        (PLAIN[1:], 1, None),  # the version before is no longer kept, but its run is known
        ((*PLAIN, (4, 3, "C")), 3, None),
        ((*PLAIN, (4, 3, "W")), 3, [4]),
        ((*PLAIN, (4, 3, "W")), 4, None),
    ],
)
def test_another_run_of_the_same_number_leads_nowhere(tmp_path, made, last, expected):
    ledger, version = versions(tmp_path, *made)
    found = _chain(ledger, version, LastRun(last, "of a ledger that was lost"))
    assert (None if found is None else [one.number for one in found]) == expected


@pytest.mark.parametrize("text", ["{}", "{", '{"format_version": 2, "settings": {"ledger_after": "7"}}'])
def test_a_run_that_does_not_tell_what_it_follows_leads_nowhere(tmp_path, text):
    ledger, version = versions(tmp_path, *PLAIN[1:])
    ledger.write("runs/2/manifest.json", text.encode())
    assert _chain(ledger, version, LastRun(1, "run-1")) is None


@pytest.fixture
def nights(tmp_path):
    return write_nights(tmp_path / "labels", crowd_nights(4, n_tasks=60, n_workers=8))


def test_what_was_made_for_a_load_that_was_killed_is_removed(nights, tmp_path):
    """Or a worker who is forgotten later would be in it for good."""
    ledger, to = tmp_path / "ledger", ("--output", f"duckdb:{tmp_path}/crowd.duckdb")
    for files in nights[:3]:
        nightly(ledger, files, "--keep-versions", "1")
    with KillFarm() as farm:
        killed = farm.run("nightly", *nights[2], "--ledger", ledger, *to, point="duckdb", call=1)
        assert killed["code"] == -9
    assert any("-whole/" in path for path in bytes_of(ledger))
    ledger_command("verify", ledger)
    assert not any("-whole/" in path for path in bytes_of(ledger))
    nightly(ledger, nights[2], *to)
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))) == {3}


def test_a_warehouse_that_fails_is_brought_up_to_date_later(nights, tmp_path, monkeypatch):
    ledger, to = tmp_path / "ledger", ("--output", f"duckdb:{tmp_path}/crowd.duckdb")
    nightly(ledger, nights[0], *to)
    nightly(ledger, nights[1], "--keep-versions", "1")
    nightly(ledger, nights[2], "--keep-versions", "1")

    def away(self, run):
        raise RunError("The warehouse is away.")

    with monkeypatch.context() as patch:
        patch.setattr(DuckDbWarehouse, "load", away)
        assert "The warehouse is away." in nightly(ledger, nights[3], *to, code=1).err
    assert LedgerFolder(str(ledger)).existing().number == 4  # the night is in the ledger
    assert not any("-whole/" in path for path in bytes_of(ledger))
    nightly(ledger, nights[3], *to)
    runs = warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))
    assert {number: row["whole"] for number, row in runs.items()} == {1: True, 4: True}


def test_a_warehouse_that_fails_keeps_no_other_from_the_night_and_is_named(nights, tmp_path):
    ledger, places = tmp_path / "ledger", [tmp_path / "one", tmp_path / "two", f"duckdb:{tmp_path}/crowd.duckdb"]
    to = [word for place in places for word in ("--output", place)]
    nightly(ledger, nights[0], *to)
    for place in places[:2]:
        (place / "run-000002" / "of somebody else").mkdir(parents=True)
    said = nightly(ledger, nights[1], *to, "--lineage", tmp_path / "lineage.json", code=1).err
    assert "2 of 3 outputs could not be loaded; the next run tries again." in said
    assert f"{places[0]}: " in said
    assert f"{places[1]}: " in said
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))) == {1, 2}
    event = json.loads((tmp_path / "lineage.json").read_text("utf-8"))
    assert event["run"]["runId"].replace("-", "") == LedgerFolder(str(ledger)).existing().run_id
    assert {one["namespace"] for one in event["outputs"]} == {f"duckdb://{tmp_path}/crowd.duckdb"}
    for place in places[:2]:
        shutil.rmtree(place / "run-000002")
    told = nightly(ledger, nights[1], *to)["loaded"]
    assert [len(told[str(place)]) > 0 for place in places] == [True, True, False]


def test_a_damaged_run_in_a_folder_of_runs_stops_no_night(nights, tmp_path):
    ledger, to = tmp_path / "ledger", ("--output", tmp_path / "out")
    for files in nights[:2]:
        nightly(ledger, files, *to)
    (tmp_path / "out" / "run-000001" / "manifest.json").write_text("")
    assert nightly(ledger, nights[2], *to)["loaded"][str(tmp_path / "out")]["scores"] > 0
    (tmp_path / "out" / "run-000003" / "manifest.json").write_text("")
    assert nightly(ledger, nights[2], *to)["loaded"][str(tmp_path / "out")]["scores"] > 0
    assert rows_of(tmp_path / "out" / "run-000003", "scores", "task").keys()


def test_a_damaged_account_of_an_older_version_makes_everything_be_loaded(nights, tmp_path):
    ledger, to = tmp_path / "ledger", ("--output", f"duckdb:{tmp_path}/crowd.duckdb")
    nightly(ledger, nights[0], *to)
    for files in nights[1:3]:
        nightly(ledger, files)
    (ledger / "versions" / "000002.json").write_text("{")
    nightly(ledger, nights[2], *to)
    runs = warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))
    assert {number: row["whole"] for number, row in runs.items()} == {1: True, 3: True}


@pytest.mark.parametrize("harmed", ["scores/part-00000.parquet", "manifest.json"])
@pytest.mark.parametrize("behind", [0, 1])
def test_a_run_that_is_damaged_makes_everything_be_loaded_in_its_place(nights, tmp_path, harmed, behind):
    ledger, to = tmp_path / "ledger", ("--output", f"duckdb:{tmp_path}/crowd.duckdb")
    nightly(ledger, nights[0], *to)
    for files in nights[1 : 3 + behind]:
        nightly(ledger, files)
    run = ledger / "runs" / "000003" / harmed
    run.write_bytes(run.read_bytes()[:20])
    nightly(ledger, nights[2 + behind], *to)
    runs = warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))
    assert {number: row["whole"] for number, row in runs.items()} == {1: True, 2: False, 3 + behind: True}
    ledger_command("export", ledger, "--output", tmp_path / "export")
    found = warehouse_rows(tmp_path / "crowd.duckdb", "scores", "task")
    assert found.keys() == rows_of(tmp_path / "export", "scores", "task").keys()
    assert nightly(ledger, nights[2], *to)["loaded"] == {to[1]: {}}


def test_a_ledger_that_cannot_give_everything_says_so_after_the_night(nights, tmp_path):
    """The night is in the ledger, so this is no matter of settings or inputs."""
    ledger = tmp_path / "ledger"
    nightly(ledger, nights[0])
    (ledger / "runs" / "000001" / "manifest.json").write_text("{")
    (ledger / "edges" / "000001.frame").write_bytes(b"torn")
    said = nightly(ledger, nights[0], "--output", tmp_path / "all", code=1).err
    assert f"{tmp_path}/all: The ledger is damaged" in said


def test_each_warehouse_gets_what_it_lacks(nights, tmp_path):
    ledger, one, other = tmp_path / "ledger", f"duckdb:{tmp_path}/one.duckdb", f"duckdb:{tmp_path}/other.duckdb"
    nightly(ledger, nights[0], "--output", one)
    nightly(ledger, nights[1], "--output", one)
    told = nightly(ledger, nights[2], "--output", one, "--output", other)["loaded"]
    assert (told[one]["runs"], told[other]["runs"]) == (1, 3)
    for table, key in (("scores", "task"), ("skills", "worker"), ("edges", ("worker_a", "worker_b"))):
        assert warehouse_rows(tmp_path / "one.duckdb", table, key) == warehouse_rows(
            tmp_path / "other.duckdb", table, key
        )
