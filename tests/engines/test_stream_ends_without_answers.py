"""A stream that has accepted no event ends in order: nothing came, or all of it went to the rejects."""

import os
import signal
import subprocess
import time

import pytest
from stream_runs import COMMAND, make_events, produce

from pipelines.sinks.interval_files import read_intervals
from pipelines.streaming.control import Control

PROMPT_S = 30.0
SUMMARY = "Nothing was answered: everything read was rejected, {:,} in all, of which {:,} as {}.\n"


def ended(prism, tmp_path, source, *more, n_read=0):
    """What a stream says when it has read so many events and is asked to end: exit code, words and seconds."""
    control = Control(str(tmp_path / "control"))
    words = ["--source", source, "--sink", tmp_path / "out", "--control", control.folder, *more]
    stream = subprocess.Popen(
        [COMMAND, "stream", *map(str, words), f"--prism_location={prism.binary}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (status := control.status()) or status["counts"].get("events_read", 0) < n_read:
        assert stream.poll() is None, stream.communicate()
    asked = time.monotonic()
    os.kill(stream.pid, signal.SIGINT)
    said = stream.communicate(timeout=200)
    return stream.returncode, *said, time.monotonic() - asked


def test_a_stream_that_has_read_nothing_ends_at_once(prism, tmp_path):
    (tmp_path / "in").mkdir()
    code, out, _, seconds = ended(prism, tmp_path, tmp_path / "in")
    assert (code, out) == (0, "0 events read and answered; model 0.\n")
    assert seconds < PROMPT_S


@pytest.mark.parametrize("own", [False, True])
def test_a_stream_whose_events_were_all_rejected_ends_at_once_and_says_why(own, prism, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("task,worker,label\nt1,,a\nt2,,b\n", "utf-8")
    more = ["--rejects", tmp_path / "rejects"] if own else []
    code, out, _, seconds = ended(prism, tmp_path, tmp_path / "in", *more, n_read=2)
    assert (code, out) == (0, SUMMARY.format(2, 2, "missing-worker"))
    assert seconds < PROMPT_S
    rejects = read_intervals(str(tmp_path / ("rejects" if own else "out")), "rejects")
    assert rejects["reason"].to_pylist() == ["missing-worker"] * 2


def test_a_topic_whose_columns_are_called_otherwise_is_told_of_at_the_end(prism, kafka, tmp_path):
    kafka.create_topic("called-otherwise", 2)
    events = make_events(1000)
    produce(kafka.bootstrap, "called-otherwise", events)
    source = f"kafka://{kafka.bootstrap}/called-otherwise"
    code, out, _, seconds = ended(prism, tmp_path, source, "--columns", "task=item", n_read=len(events))
    assert (code, out) == (0, SUMMARY.format(len(events), len(events), "missing-task"))
    assert seconds < PROMPT_S
