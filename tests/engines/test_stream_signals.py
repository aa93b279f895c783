"""Ctrl-C reaches every process of a terminal; the stream's Prism must outlive it until everything is answered."""

import os
import signal

import pytest
from stream_runs import StreamRun

from pipelines.sinks.interval_files import read_intervals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_ends_the_stream_with_everything_answered(number, prism, tmp_path):
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.mkdir()
    rows = [f"t{task},w{(task + place) % 7},{'ab'[task % 2]}" for task in range(50) for place in range(3)]
    (source / "a.csv").write_text("\n".join(["task,worker,label", *rows, ""]), "utf-8")
    words = ["--source", source, "--sink", sink, f"--prism_location={prism.binary}"]
    with StreamRun(words, tmp_path / "control") as run:
        run.wait(lambda status: status["events"] == len(rows), "all events")
        os.killpg(run.process.pid, number)
        assert run.process.wait(120) == 0
    (said,) = run.errors.read_text("utf-8").splitlines()
    assert said.startswith("crowdbeam: reading")
    assert len(read_intervals(str(sink), "scores")) == 50
