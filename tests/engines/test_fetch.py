"""Fetching: whole or not at all, once, and with a sentence when it cannot be done."""

import json
import os
import threading
import time

import pytest

from engines import __main__ as command
from engines import fetch, programs
from engines.errors import EngineError, EngineMissingError
from engines.versions import CACHE_VARIABLE, HERE, versions


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch):
    """The names of the parts that were fetched; each is one file, made slowly."""
    names = []

    def make(folder):
        time.sleep(0.2)
        (folder / "file").write_text("whole")
        names.append(folder.name)

    part = fetch.Part("thing-1", {"version": "1"}, make)
    monkeypatch.setattr(fetch, "parts_of", lambda engine: [part])
    return names


def quiet(text):
    """Says nothing."""


def test_what_is_there_is_not_fetched_again(cache, made):
    fetch.fetch("kafka", quiet)
    fetch.fetch("kafka", quiet)
    assert len(made) == 1
    assert (cache / "thing-1" / "file").read_text() == "whole"
    assert fetch.require("kafka") == [cache / "thing-1"]


def test_several_processes_fetch_once(cache, made):
    threads = [threading.Thread(target=fetch.fetch, args=("kafka", quiet)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_an_interrupted_fetch_leaves_nothing_that_looks_whole(cache, monkeypatch):
    tries = []

    def make(folder):
        (folder / "half").write_text("half")
        tries.append(folder)
        if len(tries) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(fetch, "parts_of", lambda engine: [fetch.Part("thing-1", {"version": "1"}, make)])
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch("kafka", quiet)
    with pytest.raises(EngineMissingError, match=r"thing-1 is not in .*; fetch it: make engines"):
        fetch.require("kafka")
    (cache / ".thing-1.killed.partial").mkdir()  # as SIGKILL would leave it
    fetch.fetch("kafka", quiet)
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == ["thing-1"]


def test_other_coordinates_are_fetched_anew(cache, made):
    fetch.fetch("kafka", quiet)
    (cache / "thing-1" / "engine.json").write_text(json.dumps({"version": "0"}))
    fetch.fetch("kafka", quiet)
    assert len(made) == 2


def test_a_program_that_is_not_there_is_named_with_what_to_install(cache, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert command.main(["fetch", "prism", "kafka"]) == 1
    said = capsys.readouterr().err
    assert "Go 1.25 or newer is needed, and there is no go on the PATH; apt-get install golang" in said
    assert "Java 17 or newer is needed, and there is no java on the PATH" in said
    assert {path.suffix for path in cache.iterdir()} == {".lock"}


def test_a_client_that_fails_is_told_with_its_last_words(cache, monkeypatch, tmp_path):
    client = tmp_path / "bin" / "go"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\necho no network >&2\nexit 7\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(EngineError, match=r"go install .* failed with code 7:\nno network"):
        fetch.fetch("prism", quiet)


def test_an_unknown_engine_is_refused(capsys):
    assert command.main(["fetch", "spark"]) == 1
    assert "There is no engine 'spark'; there are prism, flink, kafka, postgres." in capsys.readouterr().err


def test_the_system_s_postgres_is_taken_before_one_is_fetched(cache, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "_system_folders", lambda: iter([]))
    with pytest.raises(EngineMissingError, match="no Postgres server on this machine; fetch one: make engines"):
        programs.postgres_folder()
    fetched = cache / f"postgres-{versions()['postgres']['version']}" / "package" / "pginstall" / "bin"
    fetched.mkdir(parents=True)
    (fetched / "initdb").touch()
    assert programs.postgres_folder() == fetched
    system = [tmp_path / number / "bin" for number in ("9", "15")]
    for folder in system:
        folder.mkdir(parents=True)
        (folder / "initdb").touch()
    monkeypatch.setattr(programs, "_system_folders", lambda: iter(system))
    assert programs.postgres_folder() == system[1]


def test_versions_are_written_in_one_place():
    numbers = {value for section in versions().values() for name, value in section.items() if name == "version"}
    files = [*HERE.glob("*.py"), *HERE.glob("poms/*.xml")]
    assert not [(file.name, number) for file in files for number in numbers if number in file.read_text("utf-8")]
