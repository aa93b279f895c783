"""What is said when a job cannot be ended; that it does end is shown on the real Flink, in tests/engines."""

from types import SimpleNamespace

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from engines.processes import free_port
from pipelines.streaming.ending import end_job, name_job


def job(state="RUNNING"):
    return SimpleNamespace(state=state, cancel=lambda: None)


def named(*flags):
    options = PipelineOptions(list(flags))
    assert name_job(options, "crowdbeam-1") == "crowdbeam-1"
    return options


def test_a_job_that_stays_in_flink_is_told_of(capsys):
    end_job(job(), named(), on_flink=True)
    assert capsys.readouterr().err == (
        "crowdbeam: the job stays in Flink, where it reads nothing; end it with `flink cancel`: it is called "
        "crowdbeam-1. With --flink_master=HOST:PORT it ends.\n"
    )


def test_a_flink_that_does_not_answer_is_told_of(capsys):
    end_job(job(), named(f"--flink_master=http://127.0.0.1:{free_port()}"), on_flink=True)
    said = capsys.readouterr().err
    assert "cannot be asked to end the job" in said
    assert "crowdbeam-1" in said


@pytest.mark.parametrize(("state", "on_flink"), [("FAILED", True), ("DONE", True), ("RUNNING", False)])
def test_nothing_is_said_of_a_job_that_has_ended_or_runs_elsewhere(state, on_flink, capsys):
    end_job(job(state), named(), on_flink=on_flink)
    assert not capsys.readouterr().err


def test_a_name_that_was_given_stays():
    assert name_job(PipelineOptions(["--job_name=mine"]), "crowdbeam-1") == "mine"
