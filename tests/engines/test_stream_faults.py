"""On Flink the stream survives what is killed under it: every event counts once, the sinks end as the batch does."""

import pytest
from fault_runs import Load, Scene, Watched, assert_exact, begin, restored, wait_for
from stream_runs import make_events

N_EVENTS, N_FIRST, N_BEFORE = 50_000, 2000, 16_000


@pytest.fixture
def scene(request, kafka, postgres, flink, tmp_path):
    yield Scene.of(request, kafka, postgres, tmp_path)
    flink.rest.cancel_all()


def under_load(scene, flink, fault):
    """Runs a stream; under load `fault(job)` happens. Returns the job, and what `fault` returned."""
    events = make_events(N_EVENTS)
    first, others = events.split(N_FIRST)
    with scene.stream(flink.beam_args()) as run, Watched(scene) as watched:
        job = begin(scene, flink, run, first)
        sent = Load(scene, others)
        sent.wait(N_BEFORE)
        found = fault(job)
        sent.finish()
        assert_exact(scene, run, events)
        assert run.drain() == 0
    wait_for("end of the job", lambda: flink.rest.job(job)["state"] == "CANCELED")
    assert watched.looks
    assert not watched.fallen
    return job, found


def test_a_killed_task_manager_loses_and_repeats_nothing(scene, flink):
    def kill(job):
        flink.kill_task_manager()
        flink.start_task_manager()
        return restored(flink, job)

    _, found = under_load(scene, flink, kill)
    assert not found["is_savepoint"]


def test_a_killed_python_worker_loses_and_repeats_nothing(scene, flink):
    def kill(job):
        flink.kill_worker()
        return restored(flink, job)

    _, found = under_load(scene, flink, kill)
    assert not found["is_savepoint"]


def test_a_killed_broker_is_waited_for(scene, flink, kafka):
    job, _ = under_load(scene, flink, lambda job: kafka.restart())
    assert flink.rest.restored(job) is None
