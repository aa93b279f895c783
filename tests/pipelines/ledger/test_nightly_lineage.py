"""The event of --lineage: of the night that brought the inputs, whatever happened to it, with what was written."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from command_line import run_command
from kill_farm import KillFarm
from nights import BEGIN_US, nightly, write_events

from pipelines.ledger.folder import LedgerFolder
from pipelines.sinks import loads

WORKERS = [f"w{number}" for number in range(5)]


def write_night(folder, name, n_tasks=4):
    """A file with the labels of all workers on tasks of its own."""
    tasks = [f"{name}-{number}" for number in range(n_tasks)]
    return write_events(folder / f"{name}.csv", [(task, worker, "a", BEGIN_US) for task in tasks for worker in WORKERS])


def event_in(folder):
    return json.loads((folder / "event.json").read_text("utf-8"))


def run_id_in(folder):
    return event_in(folder)["run"]["facets"]["crowdbeam_run"]["runId"]


def rows_in(folder):
    """The rows of every output, by its name; None where the event tells none."""
    outputs = event_in(folder)["outputs"]
    return {one["name"]: one["outputFacets"].get("outputStatistics", {}).get("rowCount") for one in outputs}


def words(folder, *files):
    return ("nightly", *files, "--ledger", folder / "ledger", "--lineage", folder / "event.json")


def test_the_event_of_a_night_that_was_killed_is_written_over_that_of_the_night_before(tmp_path):
    first, second = (write_night(tmp_path, name) for name in ("first", "second"))
    assert run_command(*words(tmp_path, first)).code == 0
    before = run_id_in(tmp_path)
    with KillFarm() as farm:
        assert farm.run(*words(tmp_path, first, second), point="publish", call=1, after=True)["code"] == -9
    assert LedgerFolder(str(tmp_path / "ledger")).existing().run_id != before == run_id_in(tmp_path)
    gate = ("--fail-if", "no-new-labels")
    assert run_command(*words(tmp_path, first, second), *gate).code == 0
    assert LedgerFolder(str(tmp_path / "ledger")).existing().run_id == run_id_in(tmp_path)
    assert run_command(*words(tmp_path, first, second), *gate).code == 20


def test_a_warehouse_that_the_rerun_loads_is_added_to_the_event(tmp_path):
    night, strange = write_night(tmp_path, "night"), tmp_path / "answers" / "run-000001" / "of somebody else"
    to = ("--output", tmp_path / "answers", "--output", f"duckdb:{tmp_path}/crowd.duckdb")
    strange.mkdir(parents=True)
    run = run_command(*words(tmp_path, night), *to)
    assert (run.code, "1 of 2 outputs could not be loaded" in run.err) == (1, True)
    alone = rows_in(tmp_path)
    assert (alone["crowd.main.scores"], len(alone)) == (4, len(loads.TABLES))
    shutil.rmtree(strange.parent)
    assert run_command(*words(tmp_path, night), *to).code == 0
    both = rows_in(tmp_path)
    assert (alone.items() <= both.items(), both[f"{tmp_path}/answers/scores"]) == (True, 4)
    assert run_command(*words(tmp_path, night), *to, "--fail-if", "no-new-labels").code == 20


@pytest.mark.parametrize("catches_up", [False, True])
def test_the_event_tells_the_rows_that_were_written(tmp_path, catches_up):
    to = ("--output", f"duckdb:{tmp_path}/crowd.duckdb", "--output", f"{tmp_path}/answers?format=csv")
    for name in ("one", "two"):
        nightly(tmp_path / "ledger", [write_night(tmp_path, name)], *(() if catches_up else to))
    run = run_command(*words(tmp_path, write_night(tmp_path, "three")), *to, "--json")
    loaded, rows = json.loads(run.out)["loaded"], rows_in(tmp_path)
    assert rows["crowd.main.scores"] == rows["crowd.main.score_history"] == (12 if catches_up else 4)
    assert rows["crowd.main.runs"] == (3 if catches_up else 1)
    tables = loaded[f"{tmp_path}/answers?format=csv"]
    assert {table: rows[f"{tmp_path}/answers/{table}"] for table in tables} == tables
    assert all(set(one["outputFacets"]["outputStatistics"]) == {"_producer", "_schemaURL", "rowCount"}
               for one in event_in(tmp_path)["outputs"])  # fmt: skip


def test_a_warehouse_that_was_up_to_date_has_no_rows_in_the_event(tmp_path):
    night, to = write_night(tmp_path, "night"), ("--output", f"duckdb:{tmp_path}/crowd.duckdb")
    nightly(tmp_path / "ledger", [night], *to)
    assert run_command(*words(tmp_path, night), *to).code == 0
    assert set(rows_in(tmp_path).values()) == {None}


@pytest.mark.skipif(not shutil.which("setpriv"), reason="root may write everywhere, and cannot be told not to")
def test_a_folder_that_may_not_be_written_is_called_so(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    caps = "-dac_override,-dac_read_search"
    bounds = (f"--bounding-set={caps}", f"--inh-caps={caps}") if os.geteuid() == 0 else ()
    night = (write_night(tmp_path, "night"), "--ledger", tmp_path / "ledger")
    words = ("nightly", *night, "--lineage", tmp_path / "closed" / "e.json")
    command = (sys.executable, "-c", "import sys; from pipelines.cli import main; sys.exit(main())", *words)
    run = subprocess.run(["setpriv", *bounds, *command], capture_output=True, text=True, check=False)
    assert (run.returncode, "e.json cannot be written: its folder is not this user's." in run.stderr) == (2, True)


@pytest.mark.parametrize("scheme", ["gs", "nosuch"])
def test_an_event_whose_file_system_cannot_be_had_is_refused_before_the_night(tmp_path, scheme):
    given = ("nightly", write_night(tmp_path, "night"), "--ledger", tmp_path / "ledger")
    run = run_command(*given, "--lineage", f"{scheme}://bucket/event.json")
    assert (run.code, f"{scheme}://bucket/event.json" in run.err) == (2, True)
    assert not (tmp_path / "ledger").exists()
