"""A stream's folders hold nothing else."""

import errno
import os
import subprocess
import sys

import pytest
from command_line import run_command
from flink_stand_in import flink_jobs

from pipelines.errors import InvalidSettingError
from pipelines.sinks.interval_files import write_interval
from pipelines.streaming import supervise
from pipelines.streaming.claims import claimed, refuse_occupied, refuse_outlived
from pipelines.streaming.control import OWNER, Control, owned, read_json, write_json
from pipelines.streaming.ending import place_of
from pipelines.streaming.envelopes import DRAIN, Marker
from pipelines.streaming.settings import StreamSettings

HOLDER = """
import sys
from pipelines.streaming.claims import claimed
from pipelines.streaming.settings import StreamSettings
with claimed(StreamSettings("in", ("kafka://nowhere:1/x", "out"), "other", "bad")):
    print("in", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(source="in", sink="out", control="control", rejects=""):
    return StreamSettings(source, (sink,), control, rejects)


def test_folders_that_are_missing_or_empty_or_of_an_earlier_stream_are_taken(here):
    refuse_occupied(settings())
    (here / "out").mkdir()
    refuse_occupied(settings())
    for name in ("scores", "skills", "graph", "rejects", "manifests"):
        (here / "out" / name).mkdir()
    write_interval(str(here / "out"), 0, {}, "parquet", (0, 1))
    (here / "out" / ".DS_Store").touch()
    refuse_occupied(settings(rejects="out/rejects"))


@pytest.mark.parametrize("place", ["sink", "rejects", "control"])
def test_a_simulated_crowd_is_no_folder_of_a_stream(place, here):
    assert run_command("simulate", "--output", here / "crowd", "--tasks", "20").code == 0
    before = sorted(os.listdir(here / "crowd"))
    with pytest.raises(InvalidSettingError, match=f"--{place} crowd holds a simulated crowd; give a folder of its own"):
        supervise.run(settings(**{place: "crowd"}), [], lambda status, waits: None)
    assert sorted(os.listdir(here / "crowd")) == before
    assert os.listdir(here) == ["crowd"], "nothing is made"


def test_a_file_that_no_stream_wrote_is_told_by_its_name(here):
    (here / "out" / "scores").mkdir(parents=True)
    (here / "out" / "thesis.tex").touch()
    with pytest.raises(InvalidSettingError, match=r"--sink out holds 'thesis\.tex', which no stream wrote"):
        refuse_occupied(settings(sink="file://out"))


def test_other_places_of_the_same_stream_may_lie_in_a_sink(here):
    (here / "out" / "of" / "control").mkdir(parents=True)
    (here / "out" / "in").mkdir()
    (here / "link").symlink_to("out")
    refuse_occupied(settings("link/in", "out", "link/of/control"))
    with pytest.raises(InvalidSettingError, match="holds 'of', which no stream wrote"):
        refuse_occupied(settings("link/in", "out"))


def test_a_control_folder_holds_no_labels_but_whatever_else(here):
    (here / "control" / "requests").mkdir(parents=True)
    for name in ("status.json", "notes.txt"):
        (here / "control" / name).touch()
    refuse_occupied(settings())
    (here / "control" / "labels.csv.gz").touch()
    with pytest.raises(InvalidSettingError, match=r"--control control holds labels, 'labels\.csv\.gz'; give a folder"):
        refuse_occupied(settings())


def test_one_stream_at_a_time_writes_to_a_folder(here):
    (here / "in").mkdir()
    (here / "link").symlink_to("out")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "in\n"
    for given in (settings(sink="link"), settings(sink="bad")):
        told = (
            rf"^A stream \(process {holder.pid}\) writes to --sink {given.sinks[0]}; stop it, or give another folder\.$"
        )
        with pytest.raises(InvalidSettingError, match=told):
            supervise.run(given, [], lambda status, waits: None)
    assert not (here / "control").exists()
    holder.kill()
    holder.communicate(timeout=60)
    with claimed(settings(rejects="bad")):
        refuse_occupied(settings(rejects="bad"))


def test_a_folder_without_locks_is_written_to_all_the_same(here, monkeypatch):
    def flock(lock, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with claimed(settings()):
        assert (here / "out").is_dir()


def test_a_sink_that_cannot_be_made_is_told_as_ever(here):
    (here / "out").touch()
    with pytest.raises(InvalidSettingError, match=r"The sink out is a file; give a folder\."), claimed(settings()):
        pass


def owner_that_was_killed(control, job, outlived=True):
    """What a command leaves that was killed elsewhere, or in a container that is started again."""
    with owned(control, outlived, job):
        left = read_json(control.path(OWNER))
    write_json(control.path(OWNER), left)


@pytest.fixture
def flink():
    """Where a Flink answers, and the states of its jobs called crowdbeam-1."""
    with flink_jobs() as (address, states, _):
        yield address, states


@pytest.mark.parametrize("job", [{}, {"job": "crowdbeam-1", "flink": ""}, {"job": "crowdbeam-1", "flink": "nowhere:1"}])
def test_a_stream_does_not_begin_while_the_job_of_a_killed_command_may_run(job, here):
    (here / "in").mkdir()
    (here / "control").mkdir()
    control = Control("control")
    owner_that_was_killed(control, job)
    with pytest.raises(InvalidSettingError, match=r"may still run in --control .*then cancel it in Flink") as told:
        supervise.run(settings(), [], lambda status, waits: None)
    assert job.get("job", "The job of an") in str(told.value)
    assert not (here / "out").exists()
    refuse_outlived(Control("another"))
    os.remove(here / "control" / OWNER)
    refuse_outlived(control)


def test_a_job_that_flink_says_has_ended_keeps_no_stream_out(here, flink):
    address, states = flink
    (here / "control").mkdir()
    control = Control("control")
    owner_that_was_killed(control, place_of([f"--flink_master=http://{address}/"], "crowdbeam-1"))
    refuse_outlived(control)
    for states[:] in (["CANCELED", "RUNNING"], ["RESTARTING"]):
        with pytest.raises(InvalidSettingError, match=r"The job crowdbeam-1 of an earlier stream may still run"):
            refuse_outlived(control)
    for states[:] in (["CANCELED"], ["FINISHED", "FAILED"]):
        refuse_outlived(control)


@pytest.mark.parametrize(("outlived", "ended"), [(True, True), (True, False), (False, False)])
def test_a_stream_does_not_begin_while_the_job_of_a_command_that_could_not_end_it_may_run(outlived, ended, here):
    (here / "in").mkdir()
    (here / "control").mkdir()
    control = Control("control")
    with owned(control, outlived, {"job": "crowdbeam-1", "flink": ""}) as tenure:
        tenure.job_may_run = not ended
    assert (here / "control" / OWNER).exists() == (outlived and not ended)
    if outlived and not ended:
        control.request(Marker(DRAIN, "d"))
        with pytest.raises(InvalidSettingError, match=r"The job crowdbeam-1 of an earlier stream may still run"):
            supervise.run(settings(), [], lambda status, waits: None)
        assert len(control.requests()) == 1, "what keeps the job from reading stays"
    else:
        refuse_outlived(control)


def test_a_command_that_was_killed_with_its_job_keeps_no_stream_out(here):
    (here / "control").mkdir()
    owner_that_was_killed(Control("control"), {}, outlived=False)
    refuse_outlived(Control("control"))
