"""Runs `crowdbeam` in processes that are killed: after a while, at the n-th call of a function, before the n-th change.

As a script it takes one job a line, JSON: the arguments, and when to kill. Each runs in a fork of its own, which has
everything imported already: moments are those of the run, not of Python's start.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "pipelines"))  # as a script it has but its own folder

from kill_points import POINTS, watch  # noqa: E402

WATCHED = ("fsync", "publish", "duckdb", "duckdb commit", "folder")
_CHANGES = (
    "open",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "shutil.move",
)


class KillFarm:
    """A process that runs commands and kills them."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def run(self, *argv, delay=None, point="", call=0, after=False):
        """Runs a command; gives its exit code, -9 when it was killed, its seconds, calls of points, and its changes.

        The point "change" is before any change of a file or folder, whoever makes it: a kill after one is a kill before
        the next. A `point` that is not in `WATCHED` is watched, too; it takes time to import its module.
        """
        job = {"argv": [str(word) for word in argv], "delay": delay, "point": point, "call": call, "after": after}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def moments(changes):
    """The first and the last change of each kind by each function, as `call` of the point "change"."""
    first = {change: len(changes) - k for k, change in enumerate(reversed(changes))}
    last = {change: k for k, change in enumerate(changes, 1)}
    return sorted({*first.values(), *last.values()})


def _watch_changes(job):
    """A list of all changes, each by what it is and the function of crowdbeam that makes it; kills before one."""
    changes = []

    def watch(event, args):
        if event not in _CHANGES or (event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if "__pycache__" in str(args[0]):  # Python's own
            return
        changes.append(f"{event} by {_author()}")
        if job["point"] == "change" and len(changes) == job["call"]:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return changes


def _author():
    """The function of crowdbeam that is at work."""
    frame = sys._getframe(2)
    while frame.f_back and f"{ROOT}/pipelines/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"


def _child(job, told):
    """Runs the command; what it prints goes nowhere, the calls and changes it made go to `told`."""
    from pipelines.cli import main

    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    points = {*WATCHED, *filter(None, [job["point"]])} - {"change"}
    calls = watch(points, (job["point"],), job["call"], job["after"])
    changes = _watch_changes(job)
    code = main(job["argv"])
    os.write(told, json.dumps({"calls": calls, "changes": changes}).encode())
    os._exit(code)


def _serve():
    import duckdb  # noqa: F401 - imported once, for all forks

    import pipelines.commands.nightly
    import pipelines.nightly  # noqa: F401

    for name in WATCHED:
        importlib.import_module(POINTS[name][0])
    for line in sys.stdin:
        job = json.loads(line)
        hear, told = os.pipe()
        began = time.monotonic()
        child = os.fork()
        if not child:
            os.close(hear)
            _child(job, told)
        os.close(told)
        if job["delay"] is not None:
            time.sleep(job["delay"])
            os.kill(child, signal.SIGKILL)  # it is ours until it is waited for
        with open(hear, "rb") as ear:
            heard = ear.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = {"code": code, "seconds": time.monotonic() - began, **json.loads(heard or b"{}")}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _serve()
