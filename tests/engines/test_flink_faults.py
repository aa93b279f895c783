"""What streaming tests ask of Flink: kill its parts, see it come back from a checkpoint, stop it and go on."""

import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Duration

from engines.errors import EngineError
from engines.processes import wait_until

pytestmark = pytest.mark.timeout(600)
ENOUGH_S = 120


class _Endless(OffsetRestrictionTracker):
    def is_bounded(self):
        return False


class _Numbers(RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, 2**60)

    def create_tracker(self, restriction):
        return _Endless(restriction)

    def restriction_size(self, element, restriction):
        return 1


class _CountUpFn(beam.DoFn):
    """1, 2, 3, ..., twenty a second."""

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(_Numbers())):  # noqa: B008 - as Beam wants it
        for number in range(tracker.current_restriction().start, 2**60):
            if not tracker.try_claim(number):
                return
            yield "key", number
            if number % 10 == 9:
                tracker.defer_remainder(Duration(0.5))
                return


class _AddUpFn(beam.DoFn):
    """Adds the numbers up in state, and writes the last number and the sum to a file."""

    SUM = ReadModifyWriteStateSpec("sum", VarIntCoder())

    def __init__(self, path):
        self._path = path

    def process(self, element, total=beam.DoFn.StateParam(SUM)):
        now = (total.read() or 0) + element[1]
        total.write(now)
        with open(self._path, "a") as file:
            file.write(f"{element[1]} {now}\n")


def submit(flink, path, name, *args):
    """Starts the job, and returns its id when all of it runs and it has a checkpoint."""
    options = PipelineOptions([*flink.beam_args(streaming=True), f"--job_name={name}", *args])
    pipeline = beam.Pipeline(options=options)
    numbers = pipeline | beam.Create([b""]) | beam.ParDo(_CountUpFn()).with_output_types(tuple[str, int])
    _ = numbers | beam.ParDo(_AddUpFn(str(path)))
    pipeline.run()

    def job_id():
        jobs = flink.rest.jobs()
        return next((job["jid"] for job in jobs if job["name"] == name and job["state"] == "RUNNING"), None)

    job = wait_until("the job", job_id, ENOUGH_S)
    wait_until("all its tasks", lambda: flink.rest.is_running(job), ENOUGH_S)
    wait_until("a checkpoint", lambda: flink.rest.checkpoint(job), ENOUGH_S)
    return job


def sums(path):
    """What the job wrote: {last number: sum}; lines written twice must say the same."""
    found = {}
    for line in path.read_text().splitlines():
        number, total = map(int, line.split())
        assert found.setdefault(number, total) == total
    return found


def assert_exact(path):
    """Every number was added once: the sum up to n is n (n + 1) / 2."""
    found = sums(path)
    assert sorted(found) == list(range(len(found)))
    assert all(total == number * (number + 1) // 2 for number, total in found.items())


def wait_for_more(path):
    seen = max(sums(path), default=0)
    wait_until("more output", lambda: max(sums(path), default=0) > seen + 20, ENOUGH_S)


@pytest.fixture
def job(flink, tmp_path):
    path = tmp_path / "sums"
    path.touch()
    yield submit(flink, path, f"sums-{time.time_ns()}"), path
    flink.rest.cancel_all()


def test_a_job_goes_on_exactly_after_its_parts_are_killed(flink, job):
    job_id, path = job
    wait_for_more(path)
    assert flink.rest.restored(job_id) is None
    killed = flink.kill_worker()
    wait_until("a restore", lambda: flink.rest.restored(job_id), ENOUGH_S)
    wait_until("all tasks", lambda: flink.rest.is_running(job_id), ENOUGH_S)
    assert killed not in flink.workers()
    wait_for_more(path)
    first = flink.rest.restored(job_id)["id"]
    checkpoint = flink.rest.checkpoint(job_id)
    wait_until("a new checkpoint", lambda: flink.rest.checkpoint(job_id).id > checkpoint.id, ENOUGH_S)
    flink.kill_task_manager()
    flink.start_task_manager()
    wait_until("another restore", lambda: flink.rest.restored(job_id)["id"] > first, ENOUGH_S)
    wait_until("all tasks", lambda: flink.rest.is_running(job_id), ENOUGH_S)
    wait_for_more(path)
    assert_exact(path)
    assert flink.rest.job(job_id)["state"] == "RUNNING"


def test_a_job_is_stopped_and_goes_on_from_its_savepoint_and_from_a_kept_checkpoint(flink, job, tmp_path):
    job_id, path = job
    wait_for_more(path)
    savepoint = flink.stop_with_savepoint(job_id, tmp_path / "savepoints")
    assert savepoint.startswith(str(tmp_path / "savepoints"))
    again = submit(flink, path, "from-savepoint", f"--savepoint_path={savepoint}")
    wait_for_more(path)
    assert flink.rest.restored(again)["is_savepoint"]
    assert flink.rest.checkpoint(again).size_bytes > 0
    flink.rest.cancel(again)
    assert flink.rest.job(again)["state"] == "CANCELED"
    last = submit(flink, path, "from-checkpoint", f"--savepoint_path={flink.latest_retained_checkpoint(again)}")
    wait_for_more(path)
    assert flink.rest.restored(last) is not None
    assert_exact(path)


def test_a_job_that_kept_no_checkpoint_is_told(flink):
    with pytest.raises(EngineError, match="Job 123 has kept no checkpoint"):
        flink.latest_retained_checkpoint("123")
