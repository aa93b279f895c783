"""A night that is run again changes nothing; known inputs are left out; two runs at once do no harm."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_command
from kill_farm import ROOT
from nights import bytes_of, crowd_nights, ledger_command, nightly, state_of, warehouse_rows, write_events, write_nights

from pipelines import batch
from pipelines import nightly as nightly_road
from pipelines.inputs import checksum_of
from pipelines.ledger.folder import LedgerFolder


@pytest.fixture
def nights(tmp_path):
    return write_nights(tmp_path / "labels", crowd_nights(3, n_tasks=60, n_workers=8))


def outputs_of(folder):
    return ("--output", f"duckdb:{folder}/crowd.duckdb", "--output", f"{folder}/answers")


def test_the_same_night_again_changes_no_byte(nights, tmp_path):
    for files in nights:
        nightly(tmp_path / "ledger", files, *outputs_of(tmp_path))
    ledger, answers = bytes_of(tmp_path / "ledger"), bytes_of(tmp_path / "answers")
    tables = {name: warehouse_rows(tmp_path / "crowd.duckdb", name, "run_id", ("run_id",)) for name in ("runs",)}
    for files in (nights[2], nights[0], nights[1][::-1]):
        told = nightly(tmp_path / "ledger", files, *outputs_of(tmp_path), "--rescore", "all")
        assert (told["ledger_version"], told["held"], list(told["loaded"].values())) == (3, False, [{}, {}])
        assert set(told["known_inputs"]) == set(files)
    assert bytes_of(tmp_path / "ledger") == ledger
    assert bytes_of(tmp_path / "answers") == answers
    assert tables == {name: warehouse_rows(tmp_path / "crowd.duckdb", name, "run_id", ("run_id",)) for name in tables}
    run = run_command("nightly", *nights[1], "--ledger", tmp_path / "ledger", *outputs_of(tmp_path))
    assert "The inputs are in the ledger already, since version 2." in run.out
    assert run.out.count("It was up to date.") == 2


def test_inputs_are_known_by_their_content_and_the_others_are_read(nights, tmp_path):
    nightly(tmp_path / "ledger", nights[0])
    shutil.copy(nights[0][0], tmp_path / "renamed.csv")
    told = nightly(tmp_path / "ledger", [tmp_path / "renamed.csv", *nights[1]])
    assert told["known_inputs"] == {str(tmp_path / "renamed.csv"): 1}
    assert [one["path"] for one in told["inputs"]] == nights[1]
    with open(nights[1][0], encoding="utf-8") as first, open(nights[1][1], encoding="utf-8") as second:
        assert told["counts"]["labels_read"] == len([*first, *second]) - 2
    nightly(tmp_path / "other", nights[0])
    nightly(tmp_path / "other", nights[1])
    assert state_of(tmp_path / "ledger") == state_of(tmp_path / "other")
    run = run_command("nightly", nights[1][0], *nights[2], "--ledger", tmp_path / "ledger")
    assert "1 of the inputs were in the ledger already and are left out." in run.out


def test_a_second_run_at_once_is_refused_and_harms_nothing(nights, tmp_path):
    """Another process holds the ledger, as a run does; then a real one beside it."""
    nightly(tmp_path / "ledger", nights[0])
    before = bytes_of(tmp_path / "ledger")
    with open(tmp_path / "ledger" / "lock", "r+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = nightly(tmp_path / "ledger", nights[1], code=2)
        assert f"is in use by another run (process {os.getpid()}). Wait for it to end." in run.err
        for action in (("verify",), ("compact",), ("rollback", "--to", "1"), ("forget", "--worker", "worker-001")):
            assert "is in use by another run" in ledger_command(action[0], tmp_path / "ledger", *action[1:], code=2).err
        assert ledger_command("show", tmp_path / "ledger")["versions"]  # looking needs no lock
    assert bytes_of(tmp_path / "ledger") == before
    assert nightly(tmp_path / "ledger", nights[1])["ledger_version"] == 2


def test_real_runs_side_by_side_end_well_or_are_refused(nights, tmp_path):
    nightly(tmp_path / "ledger", nights[0])
    script = "import sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "nightly", *nights[1], "--ledger", str(tmp_path / "ledger"), "--quiet"]
    runs = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert {run.returncode for run in runs} <= {0, 2}
    assert any(run.returncode == 0 for run in runs)
    assert all("in use by another run" in text for run, text in zip(runs, said, strict=True) if run.returncode)
    assert LedgerFolder(str(tmp_path / "ledger")).numbers() == [1, 2]
    assert ledger_command("verify", tmp_path / "ledger")["sound"]


def test_a_night_that_fails_leaves_the_ledger_as_it_was(nights, tmp_path, monkeypatch):
    nightly(tmp_path / "ledger", nights[0])
    before = bytes_of(tmp_path / "ledger")

    def full(self, *_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFolder, "publish", full)
        run = nightly(tmp_path / "ledger", nights[1], code=1)
    assert "The disk of the ledger is full; make room on it" in run.err
    assert bytes_of(tmp_path / "ledger") == before


@pytest.mark.parametrize("command", ["nightly", "aggregate"])
@pytest.mark.parametrize("rewritten", [lambda text: text + "x,ann,a,1,\n", lambda text: text[::-1]])
def test_a_file_that_changes_while_it_is_read_ends_the_run(nights, tmp_path, monkeypatch, command, rewritten):
    night = Path(nights[0][0])

    def summed(path):
        found = checksum_of(path)
        night.write_text(rewritten(night.read_text("utf-8")), "utf-8")
        return found

    place = ("--ledger" if command == "nightly" else "--output", tmp_path / "new")
    monkeypatch.setattr({"nightly": nightly_road, "aggregate": batch}[command], "checksum_of", summed)
    run = run_command(command, night, *place)
    assert (run.code, f"{night} changed while it was read. Write a file under another name" in run.err) == (1, True)
    assert not (tmp_path / "new" / "CURRENT").exists()
    assert not (tmp_path / "new" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--ledger", " "), "--ledger is empty"),
        (("--rescore", "some"), "--rescore is 'some'; it takes changed, all."),
        (("--keep-versions", "0"), "--keep-versions is 0"),
        (("--time-unit", "weeks"), "--time-unit is 'weeks'"),
        (("--task-ttl", "-3h"), "--task-ttl"),
        (("--task-ttl", "30"), "--task-ttl is '30', which has no unit; write one of 30s, 30m, 30h, 30d."),
        (("--method", "majority"), "--method is no option of crowdbeam nightly"),
        (("--fail-if", "nothing"), "which is no gate"),
        (("--output", "mysql://x/y"), "which is not known"),
    ],
)
def test_settings_that_cannot_be_are_told_before_anything_runs(nights, tmp_path, options, sentence):
    run = run_command("nightly", *nights[0], "--ledger", tmp_path / "ledger", *options)
    assert (run.code, sentence in run.err) == (2, True), run.err
    assert not (tmp_path / "ledger").exists()


def test_a_folder_of_something_else_is_no_ledger(nights, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    assert "holds 'cat.png', which no ledger has" in nightly(tmp_path / "photos", nights[0], code=2).err
    (tmp_path / "file").write_text("")
    assert "is a file; give a folder" in nightly(tmp_path / "file", nights[0], code=2).err
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.png"]


def test_a_night_without_a_usable_label_has_an_exit_code_of_its_own_and_one_of_withdrawals_has_not(tmp_path):
    rows = [("t", "ann", "a", 1), ("t", "bob", "a", 1)]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)])
    assert nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("", "ann", "a", 1)])], code=3)
    gone = nightly(tmp_path / "ledger", [write_events(tmp_path / "3.csv", [("t", "ann", None, 2)])])
    assert (gone["counts"]["labels_used"], gone["counts"]["labels_withdrawn"]) == (0, 1)
    again = nightly(tmp_path / "ledger", [write_events(tmp_path / "4.csv", rows[::-1])])  # older, and repeated
    assert (again["counts"]["labels_repeated"], again["ledger_version"]) == (2, 3)


def test_a_withdrawal_of_nothing_and_a_label_given_again_are_counted_and_tell_nothing_new(tmp_path):
    ledger = tmp_path / "ledger"
    nightly(ledger, [write_events(tmp_path / "1.csv", [("t", "ann", "a", 1), ("t", "bob", "a", 1)])])
    told = nightly(ledger, [write_events(tmp_path / "2.csv", [("never", "ann", None, 1)])])
    assert (told["counts"]["scores"], told["counts"]["labels_withdrawn"]) == (0, 1)
    again = [("t", "ann", "a", 5), ("t", "bob", "a", 1)]  # one is confirmed at a later time, one is sent twice
    told = nightly(ledger, [write_events(tmp_path / "3.csv", again)])
    assert (told["counts"]["labels_used"], told["counts"]["labels_repeated"]) == (1, 1)
    assert told["counts"]["labels_changed"] == 0
    told = nightly(ledger, [write_events(tmp_path / "4.csv", [("t", "ann", "b", 4)])])  # older than that
    assert state_of(ledger)["rows"]["t", "ann"] == ("a", 5, 3)
    gone = [("t", "ann", None, 9), ("t", "bob", None, 9)]
    assert nightly(ledger, [write_events(tmp_path / "5.csv", gone)])["counts"]["scores"] == 1  # it has lost its answer
    assert nightly(ledger, [write_events(tmp_path / "6.csv", gone[::-1])])["counts"]["scores"] == 0


def test_small_segments_are_merged_and_large_ones_are_left_alone(tmp_path):
    """Few files however many nights, and a night writes at most eight times its own rows of older ones again."""

    def night(name, size):
        rows = [(f"{name}-{number}", "ann", "a", number) for number in range(size)]
        nightly(tmp_path / "ledger", [write_events(tmp_path / f"{name}.csv", rows)], "--shards", "1")
        return [one.n_rows for one in LedgerFolder(str(tmp_path / "ledger")).existing().segments]

    assert [night(f"n{size}", size) for size in (54, 18, 6, 2)][-1] == [2, 6, 18, 54]
    assert night("one", 1) == [9, 18, 54]  # two and six again; eighteen more would be too many
    assert night("ten", 10) == [37, 54]
    assert night("hundred", 100) == [191]
    assert max(len(night(f"small-{number}", 1)) for number in range(12)) <= 4
