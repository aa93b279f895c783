"""A stream that has accepted no event ends in order: nothing came, or all of it went to the rejects."""

import os
import signal
import subprocess
import time

import pytest
from stream_runs import COMMAND

from pipelines.sinks.interval_files import read_intervals
from pipelines.streaming.control import Control

PROMPT_S = 30.0
REJECTS = "task,worker,label\nt1,,a\nt2,,b\n"
SUMMARY = "Nothing was answered: everything read was rejected, 2 in all, of which 2 as missing-worker."


def ended(prism, tmp_path, text, *more):
    """What a stream of one file, or of none, says when it is asked to end: its exit code, its words, its seconds."""
    (tmp_path / "in").mkdir()
    if text:
        (tmp_path / "in" / "a.csv").write_text(text, "utf-8")
    control = Control(str(tmp_path / "control"))
    words = ["--source", tmp_path / "in", "--sink", tmp_path / "out", "--control", control.folder, *more]
    stream = subprocess.Popen(
        [COMMAND, "stream", *map(str, words), f"--prism_location={prism.binary}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (status := control.status()) or (text and not status["counts"].get("events_read")):
        assert stream.poll() is None, stream.communicate()
    asked = time.monotonic()
    os.kill(stream.pid, signal.SIGINT)
    said = stream.communicate(timeout=200)
    return stream.returncode, *said, time.monotonic() - asked


def test_a_stream_that_has_read_nothing_ends_at_once(prism, tmp_path):
    code, out, _, seconds = ended(prism, tmp_path, "")
    assert (code, out) == (0, "0 events read and answered; model 0.\n")
    assert seconds < PROMPT_S


@pytest.mark.parametrize("own", [False, True])
def test_a_stream_whose_events_were_all_rejected_ends_at_once_and_says_why(own, prism, tmp_path):
    more = ["--rejects", tmp_path / "rejects"] if own else []
    code, out, _, seconds = ended(prism, tmp_path, REJECTS, *more)
    assert (code, out) == (0, f"{SUMMARY}\n")
    assert seconds < PROMPT_S
    rejects = read_intervals(str(tmp_path / ("rejects" if own else "out")), "rejects")
    assert rejects["reason"].to_pylist() == ["missing-worker"] * 2
