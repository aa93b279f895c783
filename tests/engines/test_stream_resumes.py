"""On Flink a stream goes on where it was: at a savepoint, or at the last checkpoint of a job that is lost."""

import pytest
from fault_runs import Scene, assert_exact, load, restored, running_job, wait_for
from stream_runs import make_events

N_EVENTS = 40_000
FAULT_AT = 15_000


@pytest.fixture
def scene(request, kafka, postgres, flink, tmp_path):
    yield Scene.of(request, kafka, postgres, tmp_path)
    flink.cancel_all()


def go_on(scene, flink, path, events, sent):
    """A second stream begins at `path`, reads the rest, and is exact; returns what Flink restored."""
    with scene.stream([*flink.beam_args(), f"--savepoint_path={path}"], "second") as run:
        job = running_job(flink)
        found = restored(flink, job)
        sent.finish()
        assert_exact(scene, run, events)
        assert run.drain() == 0
    assert found["external_path"].endswith(str(path))
    return found


def begin(scene, flink, run, sent):
    """Waits until the stream has read, and has a checkpoint; returns its job."""
    run.wait(lambda status: status["events"] > 0, "first events")
    job = running_job(flink)
    wait_for("checkpoint", lambda: flink.checkpoint(job))
    sent.wait(FAULT_AT)
    return job


def test_a_stream_goes_on_from_a_savepoint(scene, flink):
    events = make_events(N_EVENTS)
    with load(scene, events) as sent:
        with scene.stream(flink.beam_args()) as run:
            path = flink.stop_with_savepoint(begin(scene, flink, run, sent))
            assert run.process.wait(60) == 0
            assert "--savepoint_path" in run.errors.read_text()
        assert go_on(scene, flink, path, events, sent)["is_savepoint"]


def test_a_stream_goes_on_when_its_command_is_killed(scene, flink):
    events = make_events(N_EVENTS)
    with load(scene, events) as sent:
        with scene.stream(flink.beam_args()) as run:
            job = begin(scene, flink, run, sent)
            run.process.kill()
            run.process.wait()
        n_before = run.status()["events"]
        wait_for("events after the command's death", lambda: run.status()["events"] > n_before)
        flink.cancel(job)
        assert not go_on(scene, flink, flink.latest_retained_checkpoint(job), events, sent)["is_savepoint"]


def test_a_stream_goes_on_from_the_checkpoint_of_a_job_that_is_lost(scene, flink):
    events = make_events(N_EVENTS)
    with load(scene, events) as sent:
        with scene.stream(flink.beam_args()) as run:
            job = begin(scene, flink, run, sent)
            flink.kill_job_manager()
            assert run.process.wait(120) == 1
            assert "Traceback" not in run.errors.read_text()
        flink.start_job_manager()
        assert not go_on(scene, flink, flink.latest_retained_checkpoint(job), events, sent)["is_savepoint"]
