"""A ledger that was restored from a copy: its numbers come again, and warehouses know others by them."""

import shutil

import pytest
from command_line import run_command
from nights import ledger_command, nightly, rows_of, write_events
from test_warehouses import WAREHOUSES

from pipelines.ledger.folder import LedgerFolder
from pipelines.run_tables import read_manifest

KEYS = {"scores": "task", "skills": "worker", "edges": ("worker_a", "worker_b")}
CROWD = [(f"t{n}", worker, "ab"[(n + (n == k)) % 2], 1) for n in range(12) for k, worker in enumerate("vwxyz")]


class InFolders:
    """Run folders, each of which holds what changed, or everything."""

    def __init__(self, folder, request):
        self.path = folder / "all"
        self.address = str(self.path)

    def rows(self, name):
        key, held = KEYS[name], {}
        for run in sorted(self.path.iterdir()):
            if read_manifest(str(run))["settings"]["whole"] == "true" or name == "skills":
                held = {}
            held |= rows_of(run, name, key)
        return [row for row in held.values() if row.get("n_common", 1) and row.get("status") != "no-labels"]


PLACES = WAREHOUSES | {"folders": InFolders}


@pytest.fixture(params=PLACES)
def place(request, tmp_path):
    return PLACES[request.param](tmp_path, request)


class Ledger:
    """A ledger of one night, with a copy of it, whose first nights are in a warehouse."""

    def __init__(self, folder, place):
        self.folder, self.place, self.path = folder, place, folder / "ledger"
        self.night("first", *CROWD)
        shutil.copytree(self.path, folder / "copy")

    def night(self, name, *events, to=True, code=0, options=()):
        output = ("--output", self.place.address) if to else ()
        return nightly(self.path, [write_events(self.folder / f"{name}.csv", events)], *output, *options, code=code)

    def restore(self):
        shutil.rmtree(self.path)
        shutil.copytree(self.folder / "copy", self.path)

    def assert_same(self):
        """The warehouse holds what the ledger does."""
        ledger_command("export", self.path, "--output", self.folder / "export")
        for name, key in KEYS.items():
            expected = rows_of(self.folder / "export", name, key)
            found = {
                row[key] if isinstance(key, str) else tuple(row[one] for one in key): row
                for row in self.place.rows(name)
            }
            assert found.keys() == expected.keys()
            for one, row in expected.items():
                for column in ("label", "n_labels", "n_common"):
                    assert found[one].get(column) == row.get(column)
        shutil.rmtree(self.folder / "export")


@pytest.fixture
def ledger(tmp_path, place):
    return Ledger(tmp_path, place)


def test_a_night_of_the_same_number_that_the_warehouse_did_not_see_is_not_left_out(ledger):
    ledger.night("lost", ("t1", "x", "b", 2), ("lost", "x", "a", 2))
    ledger.restore()
    ledger.night("other", ("t2", "x", "b", 2), ("new", "y", "a", 2), to=False)
    assert ledger.night("third", ("t3", "x", "b", 3))["ledger_version"] == 3
    ledger.assert_same()
    ledger.night("fourth", ("t4", "x", "b", 4))
    ledger.assert_same()


def test_a_night_of_the_same_number_and_inputs_after_another_is_another(ledger):
    again = ("t3", "x", "b", 3)
    ledger.night("lost", ("lost", "x", "a", 2))
    ledger.night("third", again)
    ledger.restore()
    ledger.night("other", ("new", "y", "a", 2), to=False)
    ledger.night("third", again, to=False)
    ledger.night("fourth", ("t4", "x", "b", 4))
    ledger.assert_same()


def test_a_ledger_behind_its_warehouse_says_so_until_the_next_night(ledger):
    ledger.night("lost", ("lost", "x", "a", 2))
    ledger.night("lost too", ("lost too", "x", "a", 2))
    ledger.restore()
    said = ledger.night("first", *CROWD, code=1).err
    assert "holds version 3 of the ledger" in said
    assert "Run the next night with it as --output" in said
    ledger.night("other", ("new", "y", "a", 2), to=False)
    ledger.night("third", ("t3", "x", "b", 3), to=False)
    assert "holds version 3 of the ledger" in ledger.night("third", ("t3", "x", "b", 3), code=1).err
    assert ledger.night("fourth", ("t4", "x", "b", 4))["ledger_version"] == 4
    ledger.assert_same()


def test_the_same_nights_after_a_restore_are_the_same_runs(ledger):
    ledger.night("second", ("t2", "x", "b", 2))
    ledger.restore()
    ledger.night("second", ("t2", "x", "b", 2), to=False)
    run = run_command(
        "nightly", ledger.folder / "second.csv", "--ledger", ledger.path, "--output", ledger.place.address
    )
    assert run.code == 0, run.err
    assert "It was up to date." in run.out
    ledger.assert_same()


def test_the_run_of_a_night_after_a_compaction_can_be_loaded_by_hand(ledger):
    ledger.night("second", ("t2", "x", "b", 2), to=False)
    ledger_command("compact", ledger.path)
    ledger.night("fourth", ("t4", "x", "b", 4), to=False)
    runs = [ledger.path / "runs" / f"{number:06d}" for number in (2, 4)]
    refused = run_command("load", runs[1], "--to", ledger.place.address)
    assert refused.code == 2
    before, name = read_manifest(str(runs[0]))["run_id"], LedgerFolder(str(ledger.path)).existing().ledger
    assert f"holds version 1 of ledger {name}, and {runs[1]} what changed after run {before}. " in refused.err
    for run in runs:
        assert run_command("load", run, "--to", ledger.place.address).code == 0
    ledger.assert_same()


def test_the_run_of_a_night_is_not_loaded_by_hand_after_another_of_the_number_before(ledger):
    ledger.night("lost", ("lost", "x", "a", 2))
    ledger.restore()
    ledger.night("other", ("new", "y", "a", 2), to=False)
    ledger.night("third", ("t3", "x", "b", 3), to=False)
    refused = run_command("load", ledger.path / "runs" / "000003", "--to", ledger.place.address)
    assert refused.code == 2
    assert "bring the warehouse up to date by crowdbeam nightly" in refused.err


def test_a_warehouse_that_follows_gets_what_changed_though_one_version_is_kept(ledger):
    keep = ("--keep-versions", "1")
    ledger.night("second", ("t2", "x", "b", 2), options=keep)
    told = ledger.night("third", ("t3", "x", "b", 3), options=keep)
    (rows,) = told["loaded"].values()
    assert rows["scores"] == 1
    ledger.assert_same()


def test_the_versions_one_can_go_back_to_stay_though_the_number_leaps_after_a_restore(ledger):
    ledger.night("second", ("t2", "x", "b", 2), options=("--keep-versions", "2"))
    shutil.rmtree(ledger.folder / "copy")
    shutil.copytree(ledger.path, ledger.folder / "copy")
    for number in range(3, 6):
        ledger.night(f"lost {number}", (f"lost {number}", "x", "a", number))
    ledger.restore()
    ledger.night("other", ("new", "y", "a", 6), options=("--keep-versions", "2"))
    assert LedgerFolder(str(ledger.path)).numbers() == [2, 6]
    ledger_command("rollback", ledger.path, "--to", "2", "--keep-versions", "2")
    assert LedgerFolder(str(ledger.path)).numbers() == [6, 7]
