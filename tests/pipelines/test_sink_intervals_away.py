"""A folder of intervals that goes away is waited for, and what is told to be written has been."""

import logging
import os
import re

import pytest
from sink_rows import score
from test_sink_intervals import Writer, read

from pipelines.errors import RunError


class Waits(logging.Handler):
    """Mends a folder when somebody says that it waits for it."""

    def __init__(self, mend):
        super().__init__()
        self.mend, self.said = mend, []

    def emit(self, record):
        self.said.append(record.getMessage())
        self.mend()


@pytest.fixture
def when_waited_for():
    """Has a function called when somebody waits for files; gives what was said."""
    log, handlers = logging.getLogger("pipelines.patience"), []

    def call(mend):
        handlers.append(Waits(mend))
        log.addHandler(handlers[-1])
        return handlers[-1].said

    yield call
    for handler in handlers:
        log.removeHandler(handler)


@pytest.mark.parametrize("instead", ["nothing", "a file"])
def test_a_folder_that_is_away_is_waited_for(tmp_path, when_waited_for, instead):
    folder, aside = tmp_path / "out", tmp_path / "away"
    folder.mkdir()
    writer = Writer(folder)
    writer.scores(score("a"))
    writer.take("drained")
    writer.scores(score("b"))
    folder.rename(aside)
    if instead == "a file":
        folder.write_text("", "utf-8")

    def back():
        folder.unlink(missing_ok=True)
        aside.rename(folder)

    said = when_waited_for(back)
    writer.take("drained")
    assert [row["task"] for row in read(folder)] == ["a", "b"]
    assert len(said) == 1
    assert said[0].startswith(f"The sink {folder} could not be used: ")


def test_a_stream_that_begins_while_its_folder_is_away_replaces_nothing_in_it(tmp_path, when_waited_for):
    folder, aside = tmp_path / "out", tmp_path / "away"
    folder.mkdir()
    before = Writer(folder)
    before.scores(score("a"))
    before.take("drained")
    folder.rename(aside)
    when_waited_for(lambda: aside.rename(folder))
    after = Writer(folder)
    after.scores(score("b"))
    after.take("drained")
    assert [row["task"] for row in read(folder)] == ["a", "b"]


def test_patience_with_a_folder_ends_with_the_cause(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    writer = Writer(folder, patience_s=0)
    writer.scores(score("a"))
    folder.rmdir()
    with pytest.raises(RunError, match=r"The sink .*out could not be used for 0 s: .*No such file.*Start again"):
        writer.take("drained")


def test_what_is_told_to_be_written_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")) or fsync(number)
    )
    writer = Writer(tmp_path)
    writer.scores(score("a"))
    writer.take("drained")
    names = [re.sub(r"\.[0-9a-f]{32}\.tmp", "", os.path.relpath(path, tmp_path)) for path in synced]
    assert names == [
        "scores/part-000000.parquet", "scores", ".", "manifests/000000.json", "manifests", "."
    ]  # fmt: skip
