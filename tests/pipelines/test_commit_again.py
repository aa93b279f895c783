"""A commit that was broken off is done again, as runners do with steps, and all is as if it had not been."""

import itertools
import os
from pathlib import Path

import memory_files
import pytest
from command_line import crowd_rows, write_rows
from memory_files import MemoryFileSystem

from pipelines import detached
from pipelines.detached import FinishRun
from pipelines.errors import RunError
from pipelines.run_folder import RunFolder
from pipelines.settings import AggregateSettings, BatchSettings

REMOTE = "memory://bucket/run"


class Killed(BaseException):
    """What nobody catches."""


@pytest.fixture(autouse=True)
def empty_bucket():
    memory_files.FILES.clear()
    memory_files.FAIL_ON.clear()


def launched(tmp_path, monkeypatch, output, shards, overwrite=False, finish=False):
    """A job that has written everything, and is about to commit; returns what its last step is told."""
    rows = crowd_rows() if overwrite else crowd_rows()[::2]
    labels = write_rows(tmp_path / f"labels-{overwrite}.csv", ["task", "worker", "label"], rows)
    settings = BatchSettings((str(labels),), str(output), AggregateSettings(shards=shards), overwrite=overwrite)
    endings = []
    with monkeypatch.context() as held:
        held.setattr(FinishRun, "expand", lambda self, kept: (endings.append(self.ending), kept)[1])
        detached.launch(settings, ["--runner=FnApiRunner"])
    if finish:
        detached._commit(1, endings[0])
    return endings[0]


def kill_after(monkeypatch, n, before=False):
    """Kills at the n-th file that is moved or removed, before it is or after that: nothing happens from then on."""
    numbers = itertools.count(1)
    killed = []
    rename, delete = MemoryFileSystem.rename, MemoryFileSystem.delete

    def counted(work, self, *columns):
        for row in zip(*columns, strict=True):
            mine = next(numbers) == n
            if mine and not before:
                work(self, *([path] for path in row))
            if mine or killed:
                killed.append(row)
                raise Killed
            work(self, *([path] for path in row))

    monkeypatch.setattr(MemoryFileSystem, "rename", lambda self, *two: counted(rename, self, *two))
    monkeypatch.setattr(MemoryFileSystem, "delete", lambda self, paths: counted(delete, self, paths))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_remote_commit_that_is_killed_at_any_file_can_be_done_again(tmp_path, monkeypatch, replaces, before):
    if replaces:
        launched(tmp_path, monkeypatch, REMOTE, 5, finish=True)
    ending = launched(tmp_path, monkeypatch, REMOTE, 3, overwrite=True)
    account = detached._account(ending, RunFolder(REMOTE))  # times differ from one account to the next
    written = dict(memory_files.FILES)
    monkeypatch.setattr(detached, "_account", lambda *_: account)
    detached._commit(1, ending)
    expected, n_killed = dict(memory_files.FILES), 0
    assert not any("_staging" in path or path.endswith(".tmp") for path in expected)
    for n in itertools.count(1):
        memory_files.FILES.clear()
        memory_files.FILES.update(written)
        try:
            with monkeypatch.context() as killing:
                kill_after(killing, n, before)
                detached._commit(1, ending)
            break
        except Killed:
            n_killed += 1
        assert detached._commit(1, ending) == ending.run_id
        assert expected == memory_files.FILES, n
    assert n_killed > 2 * len(account["outputs"]) if replaces else n_killed > len(account["outputs"])


def test_a_file_that_is_gone_is_not_passed_over(tmp_path, monkeypatch):
    ending = launched(tmp_path, monkeypatch, REMOTE, 3)
    with monkeypatch.context() as killing:
        kill_after(killing, 4)
        with pytest.raises(Killed):
            detached._commit(1, ending)
    moved = next(path for path in memory_files.FILES if path.startswith(f"{REMOTE}/edges/"))
    del memory_files.FILES[moved]
    with pytest.raises(RunError, match=r"edges/part-00000.parquet was written, but is gone"):
        detached._commit(1, ending)
    assert f"{REMOTE}/manifest.json" not in memory_files.FILES


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


@pytest.mark.parametrize("killed", [False, True])
def test_a_local_commit_that_is_broken_off_at_any_move_can_be_done_again(tmp_path, monkeypatch, killed):
    output, move = tmp_path / "run", os.replace
    launched(tmp_path, monkeypatch, output, 5, finish=True)
    for n in itertools.count(1):
        ending = launched(tmp_path, monkeypatch, output, 3, overwrite=True)
        detached._account(ending, RunFolder(str(output)))  # writes tables that have no rows
        staged = {name: data for name, data in contents(output / "_staging").items() if name.endswith(".parquet")}
        moves = itertools.count(1)

        def break_off(source, target, moves=moves, n=n):
            if next(moves) == n:
                raise Killed
            move(source, target)

        with monkeypatch.context() as broken:
            broken.setattr(os, "replace", break_off)
            if killed:
                broken.setattr(RunFolder, "_restore", lambda self: None)
            try:
                detached._commit(1, ending)
                break
            except Killed:
                broken.undo()
        assert detached._commit(1, ending) == ending.run_id
        found = contents(output)
        assert ending.run_id.encode() in found.pop("manifest.json")
        assert found == staged
    assert n > 10
