"""Gates of `crowdbeam nightly`: one that trips keeps a night out of ledger and warehouses; all are in the manifest."""

import json

import pytest
from command_line import run_command
from nights import BEGIN_US, bytes_of, nightly, run_of, warehouse_rows, write_events

from pipelines import lineage
from pipelines.errors import RunError
from pipelines.sinks.run_folders import FolderWarehouse

WORKERS = [f"w{number}" for number in range(5)]
FIRST = [(f"t{task}", worker, "ab"[task % 2], BEGIN_US) for task in range(30) for worker in WORKERS]
QUIET = [("t90", worker, "a", BEGIN_US + 9) for worker in WORKERS]
TURNED = [(f"t{task}", "w0", "ba"[task % 2], BEGIN_US + 9) for task in range(15)]
STRANGERS = [(f"s{number}", f"x{number}", "a", BEGIN_US) for number in range(5)]
BAD = [("", "w0", "a", BEGIN_US)]

# a gate, its exit code, a night that trips it and one that does not
CASES = {
    "unidentified-share>0.4": (10, STRANGERS, [*QUIET, *STRANGERS[:3]]),
    "rejects-share>0.2": (11, [*QUIET[:3], *BAD], [*QUIET, *BAD]),
    "skill-drift>0.3": (12, TURNED, QUIET),
    "no-new-labels": (20, FIRST[:7], QUIET[:1]),
}


@pytest.fixture
def ledger(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "first.csv", FIRST)], *outputs(tmp_path))
    return tmp_path / "ledger"


def outputs(folder):
    return ("--output", f"duckdb:{folder}/crowd.duckdb", "--output", f"{folder}/answers")


@pytest.mark.parametrize("gate", CASES)
def test_a_gate_that_trips_leaves_everything_as_it_was(ledger, tmp_path, gate):
    code, trips, _ = CASES[gate]
    before, answers = bytes_of(ledger), bytes_of(tmp_path / "answers")
    night = write_events(tmp_path / "night.csv", trips)
    told = nightly(ledger, [night], "--fail-if", gate, *outputs(tmp_path), "--lineage", tmp_path / "e.json", code=code)
    assert (told["held"], told["ledger_version"], any(told["loaded"].values())) == (True, 1, False)
    assert [(one["gate"], one["tripped"]) for one in told["gates"]] == [(gate.partition(">")[0], True)]
    assert bytes_of(ledger) == before
    assert bytes_of(tmp_path / "answers") == answers
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))) == {1}
    assert not (tmp_path / "e.json").exists()
    assert nightly(ledger, [night], *outputs(tmp_path))["ledger_version"] == 2


HELD = [*QUIET[:3], *BAD]
HOLD = ("--fail-if", "rejects-share>0.2")


def test_a_night_that_a_gate_holds_loads_what_warehouses_lack_of_earlier_ones(ledger, tmp_path):
    nightly(ledger, [write_events(tmp_path / "second.csv", QUIET)])
    before, night = bytes_of(ledger), write_events(tmp_path / "night.csv", HELD)
    event, to = ("--lineage", tmp_path / "e.json"), outputs(tmp_path)
    words = ("nightly", night, "--ledger", ledger, *HOLD, *to, *event, "--json")
    run = run_command(*words)
    told = json.loads(run.out)
    assert (run.code, told["held"], told["ledger_version"]) == (11, True, 2)
    assert [rows["scores"] for rows in told["loaded"].values()] == [1, 1]
    assert run.err.endswith(" is above the limit of 0.2. The ledger is as it was.\n")
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))) == {1, 2}
    assert bytes_of(ledger) == before
    assert not (tmp_path / "e.json").exists()
    assert run_command(*words).err.endswith("Nothing was changed.\n")


def test_a_warehouse_that_fails_on_a_night_that_a_gate_holds_is_told_beside_the_gate(ledger, tmp_path, monkeypatch):
    def away(*_):
        raise RunError("It is away.")

    nightly(ledger, [write_events(tmp_path / "second.csv", QUIET)])
    night = write_events(tmp_path / "night.csv", HELD)
    with monkeypatch.context() as patch:
        patch.setattr(FolderWarehouse, "load", away)
        run = nightly(ledger, [night], *HOLD, *outputs(tmp_path), code=1)
    told = "0.25 is above the limit of 0.2. The night is not in the ledger, and 1 of 2 outputs could not be loaded;"
    assert (told in run.err, "It is away." in run.err) == (True, True)
    nightly(ledger, [night], *HOLD, *outputs(tmp_path), code=11)
    assert (tmp_path / "answers" / "run-000002").exists()


@pytest.mark.parametrize("gate", CASES)
def test_a_gate_that_does_not_trip_is_in_the_manifest(ledger, tmp_path, gate):
    _, _, calm = CASES[gate]
    told = nightly(ledger, [write_events(tmp_path / "night.csv", calm)], "--fail-if", gate, *outputs(tmp_path))
    assert (told["held"], told["ledger_version"]) == (False, 2)
    with open(f"{run_of(ledger)}/manifest.json", encoding="utf-8") as file:
        (kept,) = json.load(file)["gates"]
    assert (kept["gate"], kept["tripped"]) == (gate.partition(">")[0], False)
    assert kept["value"] is not None
    assert told["gates"] == [kept]


def test_the_lowest_code_of_several_gates_is_the_exit_code(ledger, tmp_path):
    options = [word for gate in CASES for word in ("--fail-if", gate)]
    night = write_events(tmp_path / "night.csv", [*STRANGERS, *BAD * 3])
    told = nightly(ledger, [night], *options, code=10)
    assert [one["tripped"] for one in told["gates"]] == [True, True, False, False]


def test_a_gate_on_the_first_night_leaves_no_ledger(tmp_path):
    told = nightly(
        tmp_path / "ledger", [write_events(tmp_path / "1.csv", BAD)], "--fail-if", "rejects-share>0", code=11
    )
    assert (told["ledger_version"], told["held"]) == (0, True)
    assert bytes_of(tmp_path / "ledger") == {}
    assert nightly(tmp_path / "ledger", [tmp_path / "first.csv"], code=2).err  # a file that is not there
    again = nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", FIRST)], "--fail-if", "rejects-share>0")
    assert again["ledger_version"] == 1


def test_a_night_that_is_known_trips_no_new_labels_unless_a_warehouse_lacked_it(ledger, tmp_path):
    night, gate = write_events(tmp_path / "night.csv", QUIET), ("--fail-if", "no-new-labels")
    nightly(ledger, [night])
    told = nightly(ledger, [night], *gate, *outputs(tmp_path))
    assert (told["held"], told["ledger_version"]) == (False, 2)
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "runs", "version", keep=("version",))) == {1, 2}
    again = nightly(ledger, [night], *gate, *outputs(tmp_path), code=20)
    assert (again["held"], again["ledger_version"]) == (False, 2)


def test_an_event_that_could_not_be_written_is_written_by_the_next_run(ledger, tmp_path, monkeypatch):
    night, event = write_events(tmp_path / "night.csv", QUIET), tmp_path / "event.json"
    words = ("nightly", night, "--ledger", ledger, "--lineage", event, "--fail-if", "no-new-labels", *outputs(tmp_path))

    def full(*_):
        raise OSError(28, "No space left on device")

    def away(*_):
        raise RunError("It is away.")

    with monkeypatch.context() as patch:
        patch.setattr(lineage, "write_file", full)
        patch.setattr(FolderWarehouse, "load", away)
        run = run_command(*words)
    assert run.code == 1
    for sentence in (
        "1 of 2 outputs could not be loaded",
        "It is away.",
        "No space left",
        "The next run of the night writes it.",
    ):
        assert sentence in run.err
    assert run_command(*words).code == 0
    assert json.loads(event.read_text("utf-8"))["run"]["facets"]["crowdbeam_run"]["counts"]["labels_read"] == len(QUIET)
    assert run_command(*words).code == 20


def test_lineage_tells_inputs_and_warehouses(ledger, tmp_path):
    night = write_events(tmp_path / "night.csv", QUIET)
    told = nightly(ledger, [night], *outputs(tmp_path), "--lineage", tmp_path / "event.json")
    event = json.loads((tmp_path / "event.json").read_text("utf-8"))
    assert event["job"]["name"] == "nightly"
    assert any(str(night) in one["name"] for one in event["inputs"])
    names = {one["name"] for one in event["outputs"]}
    assert {"crowd.main.scores", "crowd.main.skill_history"} <= names
    assert any(str(tmp_path / "answers") in name for name in names)
    assert told["run_id"].replace("-", "") in event["run"]["runId"].replace("-", "")
