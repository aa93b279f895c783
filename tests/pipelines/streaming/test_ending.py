"""What is said when a job cannot be ended; that it does end is shown on the real Flink, in tests/engines."""

import threading
from types import SimpleNamespace

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from flink_stand_in import flink_jobs

from engines.processes import wait_until
from pipelines.errors import RunError
from pipelines.ports import free_port
from pipelines.streaming import ending
from pipelines.streaming.ending import ENDED, Job, begins_anew, name_job, quiet_when_gone


class Gone:
    @property
    def state(self):
        raise grpc.RpcError


def job(*flags, state="RUNNING", on_flink=True):
    options = PipelineOptions(list(flags))
    assert name_job(options, "crowdbeam-1") == "crowdbeam-1"
    return Job(SimpleNamespace(state=state, cancel=lambda: None), options, on_flink)


def test_a_job_that_stays_in_flink_is_told_of(capsys):
    assert not job().end()
    assert capsys.readouterr().err == (
        "crowdbeam: the job stays in Flink; end it with `flink cancel`: it is called "
        "crowdbeam-1. With --flink_master=HOST:PORT it ends.\n"
    )


def fail(element):
    raise RunError("The sink is away. Start again when it is back.")


def test_the_cause_of_a_failure_is_what_the_runner_told_last(prism):
    options = PipelineOptions(prism.beam_args())
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | beam.Create([1]) | "Fail" >> beam.Map(fail)
    failed = Job(pipeline.run(), options, on_prism=True)
    wait_until("the job's end", lambda: failed.state() in ENDED, 60)
    assert failed.state() == "FAILED"
    assert failed.why() == "The sink is away. Start again when it is back. [while running 'Fail']."


def test_a_job_of_which_nothing_was_told_has_no_cause():
    assert job(state="FAILED").why() == ""


def test_threads_say_nothing_of_a_runner_that_is_gone_and_all_else(monkeypatch):
    said = []
    monkeypatch.setattr(threading, "excepthook", lambda args: said.append(args.exc_type))
    before = threading.excepthook

    def fails_with(error):
        def fails():
            raise error

        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()

    with quiet_when_gone():
        fails_with(grpc.RpcError())
        fails_with(ValueError("of another thread"))
    assert said == [ValueError]
    assert threading.excepthook is before


def test_a_flink_that_does_not_answer_is_told_of(capsys):
    assert not job(f"--flink_master=http://127.0.0.1:{free_port()}").end()
    said = capsys.readouterr().err
    assert "cannot be asked to end the job" in said
    assert "crowdbeam-1" in said


@pytest.mark.parametrize(("state", "on_flink"), [("FAILED", True), ("DONE", True), ("RUNNING", False)])
def test_nothing_is_said_of_a_job_that_has_ended_or_runs_elsewhere(state, on_flink, capsys):
    assert job(state=state, on_flink=on_flink).end()
    assert not capsys.readouterr().err


def test_a_name_that_was_given_stays():
    assert name_job(PipelineOptions(["--job_name=mine"]), "crowdbeam-1") == "mine"


@pytest.mark.parametrize(
    ("where", "wanted", "other"),
    [("on_prism", "Prism has ended", "--savepoint_path"), ("on_flink", "--savepoint_path", "Prism")],
)
def test_a_job_service_that_is_gone_is_told_of_as_fits_the_runner(where, wanted, other):
    with pytest.raises(RunError) as told:
        Job(Gone(), PipelineOptions([]), **{where: True}).state()
    assert wanted in str(told.value)
    assert other not in str(told.value)


@pytest.mark.parametrize(
    ("source", "anew", "other"),
    [
        (("folder", "earliest"), "from the first file on, and comes to the same answers if all", "topic"),
        (("kafka", "earliest"), "from the first message on, and comes to the same answers if all", "folder"),
        (("kafka", "latest"), "only what comes from then on: what it had read no longer counts", "same answers"),
        (("pubsub", "earliest"), "does not send again what was acknowledged", "same answers"),
        ((), "but not with --from latest, nor those that Pub/Sub has acknowledged", "from the first"),
    ],
)
def test_of_a_prism_that_is_gone_it_is_told_what_its_source_still_gives(source, anew, other):
    with pytest.raises(RunError) as told:
        Job(Gone(), PipelineOptions([]), on_prism=True, anew=begins_anew(*source)).state()
    assert anew in str(told.value)
    assert other not in str(told.value)


def test_a_job_of_an_unknown_source_promises_nothing_that_one_of_them_does_not_keep():
    with pytest.raises(RunError, match="but not with --from latest, nor those that Pub/Sub has acknowledged"):
        Job(Gone(), PipelineOptions([]), on_prism=True).state()


def test_a_job_has_ended_when_flink_says_so(capsys):
    with flink_jobs() as (address, states, cancelled):
        states[:] = ["FINISHED", "RUNNING"]
        assert job(f"--flink_master=http://{address}").end()
        assert cancelled == ["/jobs/1?mode=cancel"]
    assert not capsys.readouterr().err


@pytest.mark.parametrize("states", [[], ["RUNNING"]])
def test_a_job_that_flink_has_not_ended_in_time_or_does_not_show_yet_may_run(states, monkeypatch, capsys):
    monkeypatch.setattr(ending, "_CANCEL_S", 0.3)
    with flink_jobs(cancels=False) as (address, known, _):
        known[:] = states
        assert not job(f"--flink_master=http://{address}").end()
    assert "has not ended the job crowdbeam-1 in 0.3 s" in capsys.readouterr().err


@pytest.mark.parametrize(("where", "has_ended"), [("on_prism", True), ("on_flink", False), ("", False)])
def test_a_job_whose_service_is_silent_has_ended_on_prism_only(where, has_ended, capsys):
    assert Job(Gone(), PipelineOptions([]), **({where: True} if where else {})).end() == has_ended
