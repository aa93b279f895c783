"""examples/cron: the script parses, its gates are gates, and it speaks when something went wrong, and only then."""

import os
import re
import shlex
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from command_line import crowd_rows, write_rows

from pipelines.commands import nightly
from pipelines.gates import KINDS, parse_gates
from pipelines.ledger.folder import LedgerFolder
from pipelines.run_tables import read_table

FOLDER = Path(__file__).parents[2] / "examples" / "cron"
SCRIPT, CRONTAB = FOLDER / "crowdbeam-nightly", FOLDER / "crontab"
HEADER = ("task", "worker", "label")


def run_night(folder, *arguments, **more):
    """The script with the real `crowdbeam`, on labels, ledger and output in `folder`."""
    places = {f"CROWDBEAM_{name.upper()}": str(folder / name) for name in ("labels", "ledger", "output")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **places, **more}
    return subprocess.run([str(SCRIPT), *arguments], env=env, capture_output=True, text=True, timeout=240, check=False)


def labels_of(folder, day, rows):
    (folder / "labels" / day).mkdir(parents=True)
    write_rows(folder / "labels" / day / "labels.csv", HEADER, rows)


def test_the_script_parses_and_may_be_run():
    done = subprocess.run(["sh", "-n", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(SCRIPT, os.X_OK)


def test_the_scripts_gates_and_codes_are_those_of_crowdbeam():
    text = SCRIPT.read_text("utf-8").replace("\\\n", " ")
    line = (
        next(line for line in text.splitlines() if "crowdbeam nightly" in line).partition("$(")[2].partition("2>&1")[0]
    )
    words = shlex.split(line)
    gates = parse_gates([words[place + 1] for place, word in enumerate(words) if word == "--fail-if"])
    assert len(gates) == len(KINDS)
    assert nightly.settings_of(nightly.build_parser().parse_args(words[2:])).gates == gates
    patterns = re.findall(r"^  (\S+)\) ", text, re.M)
    assert patterns == ["0", "20", "1?", "*"]
    assert {kind.code for kind in KINDS if kind.name == "no-new-labels"} == {20}
    assert all(10 <= kind.code <= 19 for kind in KINDS if kind.name != "no-new-labels")


def test_the_crontab_is_one_that_cron_takes():
    lines = [line for line in CRONTAB.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    settings = [line for line in lines if re.match(r"[A-Z_]+=", line)]
    (job,) = [line for line in lines if line not in settings]
    minute, hour, *rest = job.split()
    assert (0 <= int(minute) < 60, 0 <= int(hour) < 24, rest[:3]) == (True, True, ["*", "*", "*"])
    assert rest[3:] == [f"/opt/crowdbeam/examples/cron/{SCRIPT.name}"]
    assert "%" not in job  # cron would take it for a new line
    named = {line.partition("=")[0] for line in settings}
    assert set(re.findall(r"CROWDBEAM_[A-Z]+", SCRIPT.read_text("utf-8"))) <= named


def test_a_night_that_fails_is_told_with_its_day_and_its_code(tmp_path):
    """There are no labels: whatever crowdbeam says of that, the mail holds it."""
    done = run_night(tmp_path, "2026-11-17")
    assert done.returncode not in (0, 20)
    first, second = done.stdout.splitlines()[:2]
    assert first == f"crowdbeam-nightly 2026-11-17: the night failed (exit code {done.returncode})."
    assert second.startswith("crowdbeam: ")
    assert done.stderr == ""


def test_without_a_date_it_is_yesterday(tmp_path):
    done = run_night(tmp_path)
    yesterday = datetime.now(timezone.utc) - timedelta(days=1)
    assert done.stdout.startswith(f"crowdbeam-nightly {yesterday:%Y-%m-%d}: ")


def test_nights_are_silent_when_all_is_well_also_when_run_again_or_without_new_labels(tmp_path):
    rows = crowd_rows(n_tasks=2_000)
    labels_of(tmp_path, "2026-11-16", rows[:4_500])
    labels_of(tmp_path, "2026-11-17", rows[4_500:])
    for day in ("2026-11-16", "2026-11-17", "2026-11-17"):
        done = run_night(tmp_path, day)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "ledger" / "CURRENT").read_text("utf-8") == "2\n"
    assert sorted(run.name for run in (tmp_path / "output").iterdir()) == ["run-000001", "run-000002"]
    answered = {row["task"] for run in (1, 2) for row in read_table(output_of(tmp_path, run), "scores").to_pylist()}
    assert answered == {task for task, _, _ in rows}


def output_of(folder, version):
    return str(folder / "output" / f"run-{version:06d}")


def test_a_night_that_a_gate_holds_is_told_and_committed_nowhere_and_can_be_run_again(tmp_path):
    rows = crowd_rows(n_tasks=200)
    labels_of(tmp_path, "2026-11-17", [*rows, *[("t", "", "c0")] * 30])
    done = run_night(tmp_path, "2026-11-17")
    assert done.returncode == 11
    first, second = done.stdout.splitlines()
    assert first == "crowdbeam-nightly 2026-11-17: a gate has tripped and nothing was committed (exit code 11)."
    assert re.fullmatch(
        r"crowdbeam: The gate rejects-share has tripped: 0.0\d+ is above the limit of 0.01. Nothing was changed.",
        second,
    )
    assert not (tmp_path / "ledger").exists()
    assert list((tmp_path / "output").iterdir()) == []
    write_rows(tmp_path / "labels" / "2026-11-17" / "labels.csv", HEADER, rows)
    assert run_night(tmp_path, "2026-11-17").returncode == 0
    assert len(read_table(output_of(tmp_path, 1), "scores")) == 200


def test_a_second_run_at_the_same_time_is_refused_and_told(tmp_path):
    labels_of(tmp_path, "2026-11-17", crowd_rows(n_tasks=200))
    with LedgerFolder(str(tmp_path / "ledger")).locked():
        done = run_night(tmp_path, "2026-11-17")
        assert done.returncode == 2
        assert f"is in use by another run (process {os.getpid()}). Wait for it to end." in done.stdout
    assert run_night(tmp_path, "2026-11-17").returncode == 0


def test_an_empty_file_is_a_day_without_labels_and_an_empty_folder_a_wrong_path(tmp_path):
    labels_of(tmp_path, "2026-11-15", crowd_rows(n_tasks=200))
    assert run_night(tmp_path, "2026-11-15").returncode == 0
    (tmp_path / "labels" / "2026-11-16").mkdir()
    assert run_night(tmp_path, "2026-11-16").returncode == 2
    (tmp_path / "labels" / "2026-11-16" / "labels.csv").touch()
    done = run_night(tmp_path, "2026-11-16")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "ledger" / "CURRENT").read_text("utf-8") == "1\n"
