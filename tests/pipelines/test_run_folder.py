import json
import os
import socket

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.run_folder import RunFolder
from pipelines.write import TABLES


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
    folder.commit({"run_id": "a"})
    assert sorted(os.listdir(tmp_path / "run")) == sorted(["manifest.json", *TABLES])
    assert json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8")) == {"run_id": "a"}
    assert (tmp_path / "run" / "scores" / "part-00000.csv").read_text("utf-8") == "one"


def test_a_finished_run_is_replaced_only_when_asked(tmp_path):
    staged(tmp_path, "one").commit({"run_id": "a"})
    with pytest.raises(InvalidSettingError, match=r"holds a finished run.*--overwrite"):
        RunFolder(str(tmp_path)).open(False)
    staged(tmp_path, "two", overwrite=True).commit({"run_id": "b"})
    assert set(contents(tmp_path).values()) == {"two", '{\n  "run_id": "b"\n}\n'}


def test_a_run_that_fails_leaves_the_earlier_result_as_it_was(tmp_path):
    staged(tmp_path, "one").commit({"run_id": "a"})
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
    staged(tmp_path, "two").commit({"run_id": "b"})
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


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(InvalidSettingError, match="is a file; give a folder"):
        RunFolder(str(tmp_path / "file")).open(False)
    with pytest.raises(InvalidSettingError, match="cannot be made"):
        RunFolder(str(tmp_path / "file" / "run")).open(False)
