"""Ctrl-C reaches every process of a terminal; the stream's Prism must outlive it until everything is answered."""

import os
import signal
import threading

import numpy as np
import pytest
from stream_runs import START_US, Events, StreamRun, produce, topic_rows

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


def test_a_stream_that_is_ended_while_labels_arrive_has_answered_all_that_it_has_read(kafka, prism, tmp_path):
    topic = "ended-under-load"
    kafka.create_topic(topic, 4)
    task, place = np.repeat(np.arange(12_000), 5), np.arange(60_000) % 5
    events = Events(task, (task * 7 + place * 13) % 200, task % 3, START_US + np.arange(60_000), task < 0)
    load = threading.Thread(target=produce, args=(kafka.bootstrap, topic, events, 4_000))
    words = ["--source", f"kafka://{kafka.bootstrap}/{topic}", "--sink", f"kafka://{kafka.bootstrap}/out-{topic}"]
    with StreamRun([*words, f"--prism_location={prism.binary}"], tmp_path / "control") as run:
        load.start()
        run.wait(lambda status: status["events"] >= 15_000, "events")
        assert run.drain() == 0
        assert load.is_alive(), "the stream ended while labels arrived"
        n_read = run.status()["events"]
    load.join()
    rows = topic_rows(kafka.bootstrap, f"out-{topic}", "scores").values()
    assert sum(row["n_labels"] for row in rows) == n_read
    assert 15_000 <= n_read < len(events)
