import json
import os
import socket

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.run_folder import RunFolder
from schemas import TABLES

MANIFEST_A = {"run_id": "a", "outputs": [{"path": f"{name}/part-00000.csv"} for name in TABLES]}
MANIFEST_B = {**MANIFEST_A, "run_id": "b"}


def staged(path, content, overwrite=False):
    """A folder with a run that has written its tables but is not committed."""
    folder = RunFolder(str(path))
    folder.open(overwrite)
    for name in TABLES:
        place = path / "_staging" / name
        place.mkdir()
        (place / "part-00000.csv").write_text(content, "utf-8")
    return folder


def contents(path):
    return {str(file.relative_to(path)): file.read_text("utf-8") for file in path.rglob("*") if file.is_file()}


def test_nothing_is_in_its_place_before_the_commit_and_all_after_it(tmp_path):
    folder = staged(tmp_path / "run", "one")
    assert os.listdir(tmp_path / "run") == ["_staging"]
    folder.commit(MANIFEST_A)
    assert sorted(os.listdir(tmp_path / "run")) == sorted(["manifest.json", *TABLES])
    assert json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8")) == MANIFEST_A
    assert (tmp_path / "run" / "scores" / "part-00000.csv").read_text("utf-8") == "one"


def test_a_finished_run_is_replaced_only_when_asked(tmp_path):
    staged(tmp_path, "one").commit(MANIFEST_A)
    with pytest.raises(InvalidSettingError, match=r"holds a finished run.*--overwrite"):
        RunFolder(str(tmp_path)).open(False)
    staged(tmp_path, "two", overwrite=True).commit(MANIFEST_B)
    assert json.loads(contents(tmp_path).pop("manifest.json")) == MANIFEST_B
    assert {content for name, content in contents(tmp_path).items() if name != "manifest.json"} == {"two"}


def test_a_run_that_fails_leaves_the_earlier_result_as_it_was(tmp_path):
    staged(tmp_path, "one").commit(MANIFEST_A)
    before = contents(tmp_path)
    staged(tmp_path, "two", overwrite=True).abandon()
    assert contents(tmp_path) == before


def test_a_run_that_fails_leaves_no_folder_behind(tmp_path):
    staged(tmp_path / "new", "one").abandon()
    assert not (tmp_path / "new").exists()


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    staged(tmp_path, "killed")
    owner = {"pid": 2**22 + 1, "host": socket.gethostname()}
    (tmp_path / "_staging" / "owner.json").write_text(json.dumps(owner), "utf-8")
    staged(tmp_path, "two").commit(MANIFEST_B)
    assert "killed" not in contents(tmp_path).values()


def test_a_folder_in_which_another_run_is_writing_is_refused(tmp_path):
    staged(tmp_path, "one")
    owner = {"pid": os.getppid(), "host": socket.gethostname()}
    (tmp_path / "_staging" / "owner.json").write_text(json.dumps(owner), "utf-8")
    with pytest.raises(InvalidSettingError, match=f"being written by another run .process {os.getppid()}"):
        RunFolder(str(tmp_path)).open(False)
    assert (tmp_path / "_staging" / "scores" / "part-00000.csv").exists()


def test_files_that_no_run_wrote_are_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("dear", "utf-8")
    with pytest.raises(InvalidSettingError, match=r"holds 'thesis.tex', which no run wrote"):
        RunFolder(str(tmp_path)).open(True)
    assert contents(tmp_path) == {"thesis.tex": "dear"}


@pytest.mark.parametrize("place", ["scores/mine.txt", "graph/deep/x.png", "manifest.json"])
def test_files_under_the_names_of_a_run_are_not_touched_either(tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("{}", "utf-8")
    with pytest.raises(InvalidSettingError, match="which no run wrote"):
        RunFolder(str(tmp_path)).open(True)
    assert contents(tmp_path) == {place: "{}"}


def test_a_file_put_into_a_finished_run_stops_its_replacement(tmp_path):
    staged(tmp_path, "one").commit(MANIFEST_A)
    (tmp_path / "scores" / "notes.txt").write_text("dear", "utf-8")
    with pytest.raises(InvalidSettingError, match=r"holds 'scores/notes.txt', which no run wrote"):
        RunFolder(str(tmp_path)).open(True)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(InvalidSettingError, match="is a file; give a folder"):
        RunFolder(str(tmp_path / "file")).open(False)
    with pytest.raises(InvalidSettingError, match="--output is empty"):
        RunFolder("").open(True)
    with pytest.raises(InvalidSettingError, match="cannot be made"):
        RunFolder(str(tmp_path / "file" / "run")).open(False)


def exchange_steps():
    """Every move of a commit that replaces an earlier run: the manifest written, all away, tables in, manifest in."""
    return range(1 + 2 * len(TABLES) + 2)


@pytest.mark.parametrize("step", exchange_steps())
@pytest.mark.parametrize("killed", [False, True])
def test_an_earlier_run_survives_a_commit_that_fails_at_any_step(tmp_path, monkeypatch, step, killed):
    """Failing is undone at once; being killed, which leaves no time for that, by the next run."""
    staged(tmp_path, "one").commit(MANIFEST_A)
    before = contents(tmp_path)
    folder = staged(tmp_path, "two", overwrite=True)
    moves, move = iter(exchange_steps()), os.replace

    def break_off(source, target):
        if next(moves) == step:
            raise OSError("the disk is full")
        move(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", break_off)
        if killed:
            broken.setattr(RunFolder, "_restore", lambda self: None)
        else:
            move_back = RunFolder._restore
            broken.setattr(RunFolder, "_restore", lambda self: (broken.undo(), move_back(self)))
        with pytest.raises(OSError, match="the disk is full"):
            folder.commit(MANIFEST_B)
    if killed:
        next_run = RunFolder(str(tmp_path))
        next_run.open(True)
        next_run.abandon()
    else:
        folder.abandon()
    assert contents(tmp_path) == before


def test_a_first_run_that_fails_on_its_last_step_leaves_nothing(tmp_path, monkeypatch):
    folder = staged(tmp_path / "run", "one")
    move = os.replace

    def break_off(source, target):
        if target == folder.manifest:
            raise OSError("the disk is full")
        move(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", break_off)
        with pytest.raises(OSError, match="the disk is full"):
            folder.commit(MANIFEST_A)
    folder.abandon()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("step", exchange_steps())
def test_the_state_of_a_snapshot_survives_a_commit_without_one_that_is_killed(tmp_path, monkeypatch, step):
    folder = staged(tmp_path, "one")
    (tmp_path / "_staging" / "state").mkdir()
    (tmp_path / "_staging" / "state" / "ledger.frame").write_text("kept", "utf-8")
    folder.commit({**MANIFEST_A, "outputs": [*MANIFEST_A["outputs"], {"path": "state/ledger.frame"}]})
    before, folder = contents(tmp_path), staged(tmp_path, "two", overwrite=True)
    moves, move = iter(exchange_steps()), os.replace

    def break_off(source, target):
        if next(moves) == step:
            raise OSError("the disk is full")
        move(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", break_off)
        broken.setattr(RunFolder, "_restore", lambda self: None)
        with pytest.raises(OSError, match="the disk is full"):
            folder.commit(MANIFEST_B)
    next_run = RunFolder(str(tmp_path))
    next_run.open(True)
    next_run.abandon()
    assert contents(tmp_path) == before
