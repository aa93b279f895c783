"""Relative paths mean the folder of the command, wherever the stream's workers run."""

import subprocess
import sys
from pathlib import Path

import pytest
from stream_runs import COMMAND, StreamRun

import engines
from engines.processes import start, wait_until
from pipelines.ports import answers, free_port
from pipelines.run_tables import read_table
from pipelines.sinks.interval_files import read_intervals

ROWS = [f"t{task},w{(task + place) % 7},{'ab'[task % 2]}" for task in range(50) for place in range(3)]
START_S = 60


@pytest.fixture
def pool(tmp_path):
    """The address of a pool of workers that run in a folder of their own."""
    port, script = free_port(), Path(engines.__file__).with_name("worker_pool.py")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    process = start(
        "pool", [sys.executable, str(script), str(port)], folder, env={"PYTHONPATH": str(script.parents[1])}
    )
    wait_until("the pool", lambda: answers(port), START_S, [process])
    yield f"localhost:{port}"
    process.kill()


def test_a_stream_and_its_snapshot_are_where_relative_paths_lead_from_the_command(pool, prism, tmp_path):
    here = tmp_path / "here"
    (here / "labels").mkdir(parents=True)
    (here / "labels" / "a.csv").write_text("\n".join(["task,worker,label", *ROWS, ""]), "utf-8")
    (here / "more").mkdir()
    (here / "more" / "a.csv").write_text("task,worker,label\nt50,w1,a\n,w1,a\n", "utf-8")

    def command(*words):
        return subprocess.run([COMMAND, *words], cwd=here, check=True, capture_output=True, text=True, timeout=200)

    command("aggregate", "labels", "--output", "run")
    words = ["--source", "more", "--bootstrap", "run", "--sink", "out", "--rejects", "bad"]
    workers = ["--environment_type=EXTERNAL", f"--environment_config={pool}"]
    with StreamRun([*words, *prism.beam_args(streaming=True), *workers], Path("control"), cwd=here) as run:
        run.wait(lambda status: status["events"] >= len(ROWS) + 1, "all events")
        command("stream", "snapshot", "--control", "control", "--output", "snapshot")
        command("stream", "stop", "--control", "control")
        assert run.process.wait(200) == 0, run.errors.read_text("utf-8")
    assert len(read_table(str(here / "snapshot"), "scores")) == 51
    assert len(read_intervals(str(here / "out"), "scores")) == 51
    assert len(read_intervals(str(here / "bad"), "rejects")) == 1
    assert [path.name for path in (tmp_path / "elsewhere").iterdir() if path.is_dir()] == []
