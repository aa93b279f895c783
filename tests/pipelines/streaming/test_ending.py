"""What is said when a job cannot be ended; that it does end is shown on the real Flink, in tests/engines."""

from types import SimpleNamespace

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from engines.processes import free_port
from pipelines.errors import RunError
from pipelines.streaming.ending import Job, name_job


def job(*flags, state="RUNNING", on_flink=True):
    options = PipelineOptions(list(flags))
    assert name_job(options, "crowdbeam-1") == "crowdbeam-1"
    return Job(SimpleNamespace(state=state, cancel=lambda: None), options, on_flink)


def test_a_job_that_stays_in_flink_is_told_of(capsys):
    job().end()
    assert capsys.readouterr().err == (
        "crowdbeam: the job stays in Flink, where it reads nothing; end it with `flink cancel`: it is called "
        "crowdbeam-1. With --flink_master=HOST:PORT it ends.\n"
    )


def test_a_flink_that_does_not_answer_is_told_of(capsys):
    job(f"--flink_master=http://127.0.0.1:{free_port()}").end()
    said = capsys.readouterr().err
    assert "cannot be asked to end the job" in said
    assert "crowdbeam-1" in said


@pytest.mark.parametrize(("state", "on_flink"), [("FAILED", True), ("DONE", True), ("RUNNING", False)])
def test_nothing_is_said_of_a_job_that_has_ended_or_runs_elsewhere(state, on_flink, capsys):
    job(state=state, on_flink=on_flink).end()
    assert not capsys.readouterr().err


def test_a_name_that_was_given_stays():
    assert name_job(PipelineOptions(["--job_name=mine"]), "crowdbeam-1") == "mine"


@pytest.mark.parametrize(
    ("where", "wanted", "other"),
    [("on_prism", "Prism has ended", "--savepoint_path"), ("on_flink", "--savepoint_path", "Prism")],
)
def test_a_job_service_that_is_gone_is_told_of_as_fits_the_runner(where, wanted, other):
    class Gone:
        @property
        def state(self):
            raise grpc.RpcError

    with pytest.raises(RunError) as told:
        Job(Gone(), PipelineOptions([]), **{where: True}).state()
    assert wanted in str(told.value)
    assert other not in str(told.value)
