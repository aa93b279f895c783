"""A job that stays in Flink when its command has ended keeps the next command out of its control folder."""

import pytest
from fault_runs import Scene, running_job
from stream_runs import make_events, produce

from pipelines.streaming.control import OWNER, STATUS

N_EVENTS = 500


@pytest.fixture
def scene(request, kafka, postgres, flink, tmp_path):
    yield Scene.of(request, kafka, postgres, tmp_path)
    flink.rest.cancel_all()


def drained(scene, beam_args):
    """A stream that has read the events and was asked to end; its command has ended with 0."""
    with scene.stream(beam_args) as run:
        run.settle(N_EVENTS)
        assert run.drain() == 0
    return run


def test_a_job_that_its_command_could_not_end_keeps_the_next_one_out(scene, flink):
    produce(scene.kafka.bootstrap, scene.name, make_events(N_EVENTS))
    args = [arg for arg in flink.beam_args() if not arg.startswith("--flink_master")]
    run = drained(scene, args)
    assert "the job stays in Flink" in run.errors.read_text()
    job = running_job(flink)
    with scene.stream(args) as second:
        assert second.process.wait(60) == 2
    assert "may still run in --control" in second.errors.read_text()
    assert len(list((run.control / "requests").iterdir())) == 1, "what keeps the job from reading stays"
    flink.rest.cancel(job)
    for name in (OWNER, STATUS):
        (run.control / name).unlink()
    drained(scene, flink.beam_args())
    assert not (run.control / OWNER).exists(), "Flink has said that this job has ended"
