"""A stream's folders hold nothing else."""

import os

import pytest
from command_line import run_command

from pipelines.errors import InvalidSettingError
from pipelines.sinks.interval_files import write_interval
from pipelines.streaming import supervise
from pipelines.streaming.claims import refuse_occupied
from pipelines.streaming.settings import StreamSettings


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
        supervise.run(settings(**{place: "crowd"}), [], lambda status: None)
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
