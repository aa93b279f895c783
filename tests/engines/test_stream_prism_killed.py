"""Prism is killed under a stream: one sentence, no traceback, and started again the stream answers everything."""

import os
import signal
from pathlib import Path

from stream_runs import StreamRun

from pipelines.sinks.interval_files import read_intervals

N_TASKS = 40


def prism_under(pid):
    """The process of the Prism that a stream has started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(child) for file in children for child in file.read_text("ascii").split()]
    (prism,) = [child for child in found if Path(f"/proc/{child}/comm").read_text("ascii").strip() == "prism"]
    return prism


def test_a_stream_whose_prism_is_killed_says_so_once_and_can_be_started_again(prism, tmp_path):
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    rows = [f"t{task},w{(task + place) % 7},{'ab'[task % 2]}" for task in range(N_TASKS) for place in range(3)]
    (source / "a.csv").write_text("\n".join(["task,worker,label", *rows, ""]), "utf-8")
    words = ["--source", source, "--sink", sink, f"--prism_location={prism.binary}"]
    with StreamRun(words, tmp_path / "control") as run:
        run.settle(len(rows))
        os.kill(prism_under(run.process.pid), signal.SIGKILL)
        assert run.process.wait(60) == 1
        _, sentence = run.errors.read_text("utf-8").splitlines()
        assert sentence.startswith("crowdbeam: Prism has ended, and the stream with it;")
        assert "savepoint" not in sentence
    with StreamRun(words, tmp_path / "again") as run:
        run.settle(len(rows))
        assert run.drain() == 0
    assert len(read_intervals(str(sink), "scores")) == N_TASKS
