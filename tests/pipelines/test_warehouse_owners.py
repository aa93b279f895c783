"""The tables of a warehouse are of one ledger, or of runs of none: whatever command loads into them, and when."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from command_line import crowd_rows, run_command, write_rows
from test_warehouses import WAREHOUSES, digest
from warehouse_runs import LEDGER, first_night, score, second_night, write_run

from pipelines.errors import RunError
from pipelines.sinks.warehouses import warehouse_of

HEADER = ("task", "worker", "label")


@pytest.fixture(params=WAREHOUSES)
def place(request, tmp_path):
    return WAREHOUSES[request.param](tmp_path, request)


def batch(folder, name="batch"):
    return write_run(folder, name, scores=[[score("t9")]])


def of_others(run):
    """The same run, of another ledger."""
    path = f"{run.path}/manifest.json"
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["settings"] |= {"ledger_id": "others"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return replace(run, ledger="others")


def test_a_run_of_no_ledger_does_not_take_the_place_of_a_ledgers_answers(place, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(first_night(tmp_path / "first"))
    before = place.snapshot()
    run = batch(tmp_path / "batch")
    with pytest.raises(RunError, match=r"holds the runs of a ledger, .* give it a place of its own"):
        warehouse.load(run)
    done = run_command("load", run.path, "--to", place.address)
    assert done.code == 2
    assert "holds the runs of a ledger" in done.err
    assert place.snapshot() == before
    assert warehouse.load(second_night(tmp_path / "second"))  # its own may go on


def test_a_ledgers_run_does_not_take_the_place_of_those_of_none(place, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(batch(tmp_path / "batch"))
    assert warehouse.ledgers() == {""}
    before = place.snapshot()
    run = first_night(tmp_path / "first")
    with pytest.raises(RunError, match="holds runs of no ledger"):
        warehouse.load(run)
    labels = write_rows(tmp_path / "a.csv", HEADER, crowd_rows())
    for command in (
        ("load", run.path, "--to", place.address),
        ("nightly", labels, "--ledger", tmp_path / "ledger", "--output", place.address),
    ):
        done = run_command(*command)
        assert done.code == 2
        assert "holds runs of no ledger" in done.err
    assert not (tmp_path / "ledger").exists()
    assert place.snapshot() == before


def test_another_ledgers_run_is_refused_by_load_as_by_nightly(place, tmp_path):
    warehouse = warehouse_of(place.address)
    warehouse.load(first_night(tmp_path / "first"))
    before = place.snapshot()
    run = of_others(first_night(tmp_path / "other"))
    with pytest.raises(RunError, match="holds the runs of another ledger"):
        warehouse.load(run)
    done = run_command("load", run.path, "--to", place.address)
    assert done.code == 2
    assert "holds the runs of another ledger" in done.err
    assert place.snapshot() == before


def test_of_two_ledgers_that_first_load_at_once_one_is_refused_and_the_other_goes_on(place, tmp_path):
    runs = [first_night(tmp_path / "first"), of_others(replace(first_night(tmp_path / "other"), run_id="other-1"))]
    warehouse_of(place.address).check()
    gate = threading.Barrier(2)

    def load(run):
        gate.wait()
        try:
            warehouse_of(place.address).load(run)
        except RunError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(load, runs))
    assert sorted(map(bool, said)) == [False, True]
    assert "another ledger" in max(said)
    (owner,) = warehouse_of(place.address).ledgers()
    assert owner == (LEDGER if said[1] else "others")
    assert {row["run_id"] for row in place.rows("scores")} == {runs[bool(said[0])].run_id}


def test_a_folder_of_runs_takes_those_of_none_beside_a_ledgers(tmp_path):
    for run in (first_night(tmp_path / "first"), batch(tmp_path / "batch"), second_night(tmp_path / "second")):
        assert run_command("load", run.path, "--to", tmp_path / "all").code == 0
    before = digest(tmp_path / "all")
    other = of_others(write_run(tmp_path / "other", "other-3", 3))
    done = run_command("load", other.path, "--to", tmp_path / "all")
    assert done.code == 2
    assert "holds the runs of another ledger" in done.err
    assert digest(tmp_path / "all") == before
