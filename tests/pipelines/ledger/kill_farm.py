"""Runs `crowdbeam` in processes that are killed: after a while, or at the n-th call of a function.

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

WATCHED = ("replace", "rename", "fsync", "write", "publish", "remove", "duckdb", "duckdb commit", "folder")


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
        """Runs a command; gives its exit code, -9 when it was killed, its seconds, and the calls of every point.

        A `point` that is not in `WATCHED` is watched, too; it takes time to import its module.
        """
        job = {"argv": [str(word) for word in argv], "delay": delay, "point": point, "call": call, "after": after}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _child(job, told):
    """Runs the command; what it prints goes nowhere, the calls it made go to `told`."""
    from pipelines.cli import main

    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    calls = watch({*WATCHED, *filter(None, [job["point"]])}, (job["point"],), job["call"], job["after"])
    code = main(job["argv"])
    os.write(told, json.dumps(calls).encode())
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
            calls = ear.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = {"code": code, "seconds": time.monotonic() - began, "calls": json.loads(calls or b"{}")}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _serve()
