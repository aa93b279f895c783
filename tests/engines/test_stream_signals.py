"""Ctrl-C reaches every process of a terminal; the stream's Prism must outlive it until everything is answered."""

import os
import signal
import subprocess

import pytest
from stream_runs import COMMAND

from pipelines.sinks.interval_files import read_intervals
from pipelines.streaming.control import Control


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_ends_the_stream_with_everything_answered(number, prism, tmp_path):
    source, sink, control = (tmp_path / name for name in ("source", "sink", "control"))
    source.mkdir()
    rows = [f"t{task},w{(task + place) % 7},{'ab'[task % 2]}" for task in range(50) for place in range(3)]
    (source / "a.csv").write_text("\n".join(["task,worker,label", *rows, ""]), "utf-8")
    words = ["--source", source, "--sink", sink, "--control", control, f"--prism_location={prism.binary}"]
    stream = subprocess.Popen(
        [COMMAND, "stream", *map(str, words)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert stream.stderr.readline().startswith("crowdbeam: reading")
    while (Control(str(control)).status() or {}).get("events", 0) < len(rows):
        assert stream.poll() is None
    os.killpg(stream.pid, number)
    _, said = stream.communicate(timeout=120)
    assert (stream.returncode, said) == (0, "")
    assert len(read_intervals(str(sink), "scores")) == 50
