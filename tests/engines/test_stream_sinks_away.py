"""A sink that goes away is waited for: nothing is lost, nothing is written twice; so is the control folder."""

import time

from fault_runs import Load, Scene, Watched, assert_exact, wait_for
from stream_runs import StreamRun, make_events, produce

from pipelines.sinks.interval_files import read_intervals
from pipelines.streaming.control import Control

N_EVENTS, N_FIRST, N_BEFORE = 50_000, 2000, 8000
AWAY_S = 20.0


def test_postgres_may_be_away_for_a_while(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    first, others = events.split(N_FIRST)
    with scene.stream(prism.beam_args(streaming=True)) as run, Watched(scene) as watched:
        produce(kafka.bootstrap, scene.name, first)
        run.wait(lambda status: status["events"] == N_FIRST, "first events")
        sent = Load(scene, others)
        sent.wait(N_BEFORE)
        postgres.stop()
        try:
            began = time.monotonic()
            sent.finish()
            time.sleep(max(0.0, began + AWAY_S - time.monotonic()))
        finally:
            postgres.start()
        assert_exact(scene, run, events)
        assert run.drain() == 0
        assert_told(run, "Postgres took no rows: ")
    assert watched.looks
    assert not watched.fallen


def assert_told(run, wait):
    """The command has said what it waited for, once while it lasted, and that it was over."""
    _, *said = run.errors.read_text("utf-8").splitlines()
    waits = [line for line in said if line.startswith(f"crowdbeam: {wait}") and "nothing is lost" in line]
    assert 1 <= len(waits) < 10, said  # the cause may change meanwhile
    assert "crowdbeam: the stream goes on." in said[said.index(waits[-1]) :], said


def add_labels(source, name):
    rows = [f"{name}{task},w{(task + place) % 7},{'ab'[task % 2]}" for task in range(50) for place in range(3)]
    aside = source / f"{name}.csv.tmp"
    aside.write_text("\n".join(["task,worker,label", *rows, ""]), "utf-8")
    aside.rename(source / f"{name}.csv")


def test_a_folder_sink_and_the_control_folder_may_be_away_for_a_while(prism, tmp_path):
    source, sink, logs, control = (tmp_path / name for name in ("in", "out", "bad", "control"))
    source.mkdir()
    words = ["--source", source, "--sink", sink, "--sink", logs, "--file-every", "1s", *prism.beam_args(streaming=True)]
    with StreamRun(words, control) as run:
        add_labels(source, "a")
        run.settle(150)
        run.wait(lambda _: len(read_intervals(str(logs), "scores")) == 50, "first rows")
        sink.rename(tmp_path / "sink-away")
        control.rename(tmp_path / "control-away")
        add_labels(source, "b")
        wait_for("the other sink's rows", lambda: len(read_intervals(str(logs), "scores")) == 100)
        assert run.process.poll() is None
        assert not sink.exists()
        assert not control.exists()
        (tmp_path / "control-away").rename(control)
        wait_for("what is waited for", lambda: any(str(sink) in wait for wait in Control(str(control)).waits()))
        (tmp_path / "sink-away").rename(sink)
        run.settle(300)
        wait_for("the end of waiting", lambda: not Control(str(control)).waits())
        assert run.drain() == 0
        assert_told(run, f"The sink {sink} could not be used: ")
    assert len(read_intervals(str(sink), "scores")) == 100
