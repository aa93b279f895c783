"""On Flink a stream goes on where it was: at a savepoint, or at the last checkpoint of a job that is lost."""

import pytest
from fault_runs import Load, Scene, assert_exact, begin, restored, running_job, wait_for
from stream_runs import make_events

N_EVENTS, N_FIRST, N_BEFORE = 40_000, 2000, 8000


@pytest.fixture
def scene(request, kafka, postgres, flink, tmp_path):
    yield Scene.of(request, kafka, postgres, tmp_path)
    flink.rest.cancel_all()


@pytest.fixture(scope="module")
def events():
    return make_events(N_EVENTS)


def go_on(scene, flink, path, events, sent):
    """A second stream begins at `path`, reads the rest, and is exact; returns what Flink restored."""
    with scene.stream([*flink.beam_args(), f"--savepoint_path={path}"], "second") as run:
        found = restored(flink, running_job(flink))
        sent.finish()
        assert_exact(scene, run, events)
        assert run.drain() == 0
    assert found["external_path"].endswith(str(path))
    return found


def begin_under_load(scene, flink, run, events):
    first, others = events.split(N_FIRST)
    job = begin(scene, flink, run, first)
    sent = Load(scene, others)
    sent.wait(N_BEFORE)
    return job, sent


def test_a_stream_goes_on_from_a_savepoint(scene, flink, events):
    with scene.stream(flink.beam_args()) as run:
        job, sent = begin_under_load(scene, flink, run, events)
        path = flink.stop_with_savepoint(job)
        assert run.process.wait(60) == 0
    assert go_on(scene, flink, path, events, sent)["is_savepoint"]


def test_a_stream_goes_on_when_its_command_is_killed(scene, flink, events):
    with scene.stream(flink.beam_args()) as run:
        job, sent = begin_under_load(scene, flink, run, events)
        run.process.kill()
        run.process.wait()
    n_before = run.status()["events"]
    wait_for("events after the command's death", lambda: run.status()["events"] > n_before)
    flink.rest.cancel(job)
    go_on(scene, flink, flink.latest_retained_checkpoint(job), events, sent)


def test_a_stream_goes_on_from_the_checkpoint_of_a_job_that_is_lost(scene, flink, events):
    with scene.stream(flink.beam_args()) as run:
        job, sent = begin_under_load(scene, flink, run, events)
        flink.kill_job_manager()
        flink.start_job_manager()
        go_on(scene, flink, flink.latest_retained_checkpoint(job), events, sent)
        assert run.process.wait(120) == 1
    said = run.errors.read_text().splitlines()[-1]
    assert said.startswith("crowdbeam: The Beam job ended as FAILED")
    assert "--savepoint_path" in said
