"""What is started is stopped, whatever happens to the one who started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engines.errors import EngineError
from engines.processes import members, running, start, stop_by_pid_files, wait_until

ROOT = Path(__file__).parents[2]
# A process with a child, as the pool of Python workers is one.
PARENT = ["sh", "-c", "sleep 600 & echo up; wait"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]


def is_up(process):
    return "up" in process.log.read_text()


def gone(pid):
    return not members(pid)


@pytest.fixture
def parent(tmp_path):
    process = start("parent", PARENT, tmp_path)
    wait_until("the child", lambda: is_up(process), 20)
    yield process
    process.kill()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_process_takes_its_children_with_it(parent, end):
    assert parent.alive
    assert len(members(parent.pid)) == 2
    getattr(parent, end)()
    assert not parent.alive
    assert wait_until("the end", lambda: gone(parent.pid), 20)
    assert not parent.pid_file.exists()


def test_a_process_that_does_not_want_to_end_is_killed(tmp_path):
    process = start("stubborn", STUBBORN, tmp_path)
    wait_until("it", lambda: is_up(process), 20)
    process.stop(seconds=0.3)
    assert wait_until("the end", lambda: gone(process.pid), 20)


def starter(folder, guarded, also=""):
    """A Python process that starts the parent, and `also` a guarded one, and then waits."""
    code = f"""
import pathlib, time
from engines.processes import start
start("parent", {PARENT!r}, pathlib.Path({str(folder)!r}), guarded={guarded})
if {also!r}:
    start({also!r}, {PARENT!r}, pathlib.Path({str(folder)!r}))
print("started", flush=True)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"started\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_test_process_that_is_killed(tmp_path, number):
    with starter(tmp_path, guarded=True) as process:
        pid = int((tmp_path / "parent.pid").read_text().split()[0])
        assert members(pid)
        process.send_signal(number)
    assert wait_until("the end", lambda: gone(pid), 20)


def test_what_is_not_guarded_lives_on_and_is_stopped_by_its_pid_file(tmp_path):
    with starter(tmp_path, guarded=False, also="twin") as process:
        pid, twin = (int((tmp_path / f"{name}.pid").read_text().split()[0]) for name in ("parent", "twin"))
        process.kill()
    assert wait_until("the end of what is guarded", lambda: gone(twin), 20)
    assert members(pid)
    assert running(tmp_path) == ["parent"]
    assert stop_by_pid_files(tmp_path) == ["parent"]
    assert wait_until("the end", lambda: gone(pid), 20)
    assert running(tmp_path) == []
    assert stop_by_pid_files(tmp_path) == []


def test_those_whose_leader_has_died_are_found_and_stopped(tmp_path):
    with starter(tmp_path, guarded=False) as process:
        process.kill()
    pid = int((tmp_path / "parent.pid").read_text().split()[0])
    wait_until("the child", lambda: len(members(pid)) == 2, 20)
    os.kill(pid, signal.SIGKILL)
    assert wait_until("the leader's end", lambda: pid not in members(pid), 20)
    assert members(pid)
    assert running(tmp_path) == ["parent"]
    assert stop_by_pid_files(tmp_path) == ["parent"]
    assert wait_until("the end", lambda: gone(pid), 20)
    assert running(tmp_path) == []


def test_those_whom_somebody_else_has_left_are_left_alone(tmp_path):
    """The id of a group that has ended went to another one, whose leader has died, too."""
    with subprocess.Popen(PARENT, stdout=subprocess.PIPE, start_new_session=True) as other:
        try:
            assert other.stdout.readline() == b"up\n"
            other.kill()
            other.wait()
            (tmp_path / "old.pid").write_text(f"{other.pid} 1\n")
            assert running(tmp_path) == []
            assert stop_by_pid_files(tmp_path) == []
            assert members(other.pid)
        finally:
            os.killpg(other.pid, signal.SIGKILL)


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_folder_that_is_watched_goes_with_a_process_that_is_killed(tmp_path, forgotten):
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        (folder / "data").mkdir(parents=True)
    code = f"""
import pathlib, time
from engines.processes import GUARDIAN
GUARDIAN.watch(pathlib.Path({str(mine)!r}))
GUARDIAN.watch(pathlib.Path({str(other)!r}))
if {forgotten}:
    GUARDIAN.forget(pathlib.Path({str(mine)!r}))
print("watched", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"watched\n"
        assert other.exists()
        process.kill()
    assert wait_until("the end of the folder", lambda: not other.exists(), 20)
    assert forgotten or wait_until("the end of the other one", lambda: not mine.exists(), 20)
    assert mine.exists() == forgotten


def test_a_pid_that_was_given_to_another_process_is_left_alone(tmp_path):
    (tmp_path / "old.pid").write_text(f"{os.getpid()} 1\n")
    assert running(tmp_path) == []
    assert stop_by_pid_files(tmp_path) == []


def test_a_process_that_ends_too_early_is_told_with_its_last_words(tmp_path):
    process = start("short", ["sh", "-c", "echo no such luck >&2; exit 3"], tmp_path)
    with pytest.raises(EngineError, match=r"short ended while waiting for a wonder; .*no such luck"):
        wait_until("a wonder", lambda: None, 20, [process])
    process.kill()


def test_waiting_ends(tmp_path):
    with pytest.raises(EngineError, match=r"a wonder did not come in 0\.2 s"):
        wait_until("a wonder", lambda: None, 0.2)
