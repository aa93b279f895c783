"""Beam complains of clients that are not installed; no command of crowdbeam shows it."""

import os
import subprocess
import sys

import pytest
from command_line import crowd_rows, write_rows

from pipelines.cli import COMMANDS


def stderr_of(*argv):
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", *map(str, argv)]
    environment = {**os.environ, "CROWDBEAM_DEBUG": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_says_nothing_else(command):
    assert stderr_of(command, "--help") == ""


@pytest.mark.parametrize("runner", [(), ("--runner=FnApiRunner",)])
def test_a_run_says_nothing_else(tmp_path, runner):
    labels = write_rows(tmp_path / "labels.csv", ["task", "worker", "label"], crowd_rows())
    assert stderr_of("aggregate", labels, "--output", tmp_path / "run", "--quiet", *runner) == ""
