"""examples/airflow: the DAG, imported by Airflow itself (2.x and 3.x), and what its operator makes of exit codes."""

import json
import os
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import crowd_rows, write_rows
from own_environments import LOCKS, python_of

from pipelines.commands import nightly
from pipelines.gates import KINDS, codes_table, parse_gates

DAG = Path(__file__).parents[2] / "examples" / "airflow" / "crowdbeam_nightly.py"
SCRIPT = LOCKS / "airflow_script.py"
CROWDBEAM = Path(sys.executable).parent / "crowdbeam"


def crowdbeam_commands(folder):
    """Nights of the real `crowdbeam` on one ledger that end with 0, with the codes 11 and 20, and with 2."""
    good = write_rows(folder / "good.csv", ("task", "worker", "label"), crowd_rows())
    bad = write_rows(folder / "bad.csv", ("task", "worker", "label"), [("t", "w", ""), ("t", "", "x")])
    for labels, gate in [
        (good, "rejects-share>0.5"), (bad, "rejects-share>0.5"), (good, "no-new-labels"), (good, "reject>0.5"),
    ]:  # fmt: skip
        words = [CROWDBEAM, "nightly", labels, "--ledger", folder / "ledger", "--fail-if", gate, "--quiet"]
        yield shlex.join(map(str, words))


@pytest.fixture(scope="module", params=["airflow-3", "airflow-2"])
def found(request, tmp_path_factory):
    """What Airflow makes of the DAG."""
    python = python_of(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    commands = [*crowdbeam_commands(folder), *(f"exit {code}" for code, _, _ in codes_table()), "exit 1", "exit 3"]
    asked, told = folder / "given.json", folder / "found.json"
    asked.write_text(json.dumps({"dag": str(DAG), "commands": commands}), "utf-8")
    home = {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PYTHONWARNINGS": "ignore"}
    home |= {"AIRFLOW__CORE__UNIT_TEST_MODE": "False", "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    unset = [name for name in os.environ if name.startswith(("AIRFLOW", "CROWDBEAM_", "PYTHON"))]
    env = {name: value for name, value in os.environ.items() if name not in unset} | home
    command = [str(python), str(SCRIPT), str(asked), str(told)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return {**json.loads(told.read_text("utf-8")), "asked": request.param, "commands": commands}


def test_airflow_imports_the_dag_without_an_error(found):
    assert found["version"].split(".")[0] == found["asked"].rpartition("-")[2]
    assert found["errors"] == []
    assert sorted(found["tasks"]) == ["build_models", "nightly"]


def test_nights_come_one_after_another_and_failures_are_retried(found):
    assert (found["catchup"], found["max_active_runs"]) == (True, 1)
    for task in found["tasks"].values():
        assert (task["retries"], task["depends_on_past"]) == (3, True)
    assert found["tasks"]["build_models"]["before"] == ["nightly"]
    assert found["tasks"]["nightly"]["skip_on"] == [kind.code for kind in KINDS if kind.name == "no-new-labels"]


def test_the_command_reads_the_day_that_the_night_is_for(found):
    assert found["night"] == ["2026-11-17T02:00:00+00:00", "2026-11-18T02:00:00+00:00"]
    words = shlex.split(found["command"].replace("\\\n", " "))
    assert words[:3] == ["crowdbeam", "nightly", "/data/labels/2026-11-17"]
    gates = [after for word, after in pairwise(words) if word == "--fail-if"]
    assert len(parse_gates(gates)) == len(KINDS)
    settings = nightly.settings_of(nightly.build_parser().parse_args(words[2:]))
    assert (settings.ledger, settings.gates) == ("/data/crowd-ledger", parse_gates(gates))


def test_gates_fail_at_once_a_day_without_labels_is_skipped_and_the_rest_is_retried(found):
    """AirflowFailException is not retried, AirflowSkipException is no failure, AirflowException is retried."""
    ended = dict(zip(found["commands"], found["ended"], strict=True))
    fine, tripped, nothing, wrong = (ended[command] for command in found["commands"][:4])
    retried = "AirflowException"
    assert (fine, tripped, nothing, wrong) == ("", "AirflowFailException", "AirflowSkipException", retried)
    for kind in KINDS:
        skipped = kind.name == "no-new-labels"
        assert ended[f"exit {kind.code}"] == ("AirflowSkipException" if skipped else "AirflowFailException")
    assert ended["exit 1"] == ended["exit 3"] == retried
