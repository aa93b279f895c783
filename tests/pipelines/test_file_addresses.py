"""Addresses that begin with file:// mean the paths of this machine, in every option that takes a file or a folder."""

import json

import pytest
from command_line import crowd_rows, run_command, write_rows

from pipelines.sources import storage


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labels, their truth, a run and a ledger."""
    path = tmp_path_factory.mktemp("given")
    write_rows(path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    write_rows(path / "truth.csv", ("task", "label"), {task: label for task, _, label in crowd_rows()}.items())
    assert run_command("aggregate", path / "labels.csv", "--output", path / "run").code == 0
    assert run_command("nightly", path / "labels.csv", "--ledger", path / "ledger").code == 0
    return path


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("aggregate", "[]/labels.csv", "--gold", "[]/truth.csv", "--output", "{}/run"), "run/manifest.json"),
        (("aggregate", "[]/labels.csv", "--prior-skills", "[]/run", "--output", "{}/run"), "run/manifest.json"),
        (("aggregate", "[]/labels.csv", "--output", "{}/run", "--lineage", "{}/event.json"), "event.json"),
        (("nightly", "[]/labels.csv", "--ledger", "{}/ledger", "--lineage", "{}/event.json"), "event.json"),
        (("nightly", "[]/labels.csv", "--ledger", "{}/ledger", "--output", "{}/out"), "out/run-000001/manifest.json"),
        (("ledger", "export", "[]/ledger", "--output", "{}/run"), "run/manifest.json"),
        (("load", "[]/run", "--to", "duckdb:()/crowd.duckdb"), "crowd.duckdb"),
        (("simulate", "--tasks", "20", "--output", "{}/crowd"), "crowd/truth.csv"),
        (("evaluate", "[]/run", "--truth", "[]/truth.csv"), ""),
        (("compare", "[]/labels.csv", "--truth", "[]/truth.csv", "--methods", "majority"), ""),
    ],
)
def test_every_command_takes_them(folder, tmp_path, words, made):
    places = {"[]": f"file://{folder}", "{}": f"file://{tmp_path}", "()": str(tmp_path)}
    for sign, place in places.items():
        words = [word.replace(sign, place) for word in words]
    run = run_command(*words)
    assert (run.code, run.err) == (0, "")
    assert (tmp_path / made).exists()
    assert not made.endswith("event.json") or json.loads((tmp_path / made).read_text("utf-8"))["inputs"]


def test_what_lies_in_the_ledger_is_refused_however_it_is_spelled(folder, tmp_path):
    given = ("nightly", folder / "labels.csv", "--ledger", tmp_path / "ledger")
    for option in ("--lineage", "--output"):
        run = run_command(*given, option, f"file://{tmp_path}/ledger/x")
        assert (run.code, "lies in the ledger" in run.err) == (2, True)
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("aggregate", "{}/labels.csv", "--output", "gs://bucket/run"),
        ("aggregate", "{}/labels.csv", "--output", "{}/new", "--prior-skills", "gs://bucket/run"),
        ("evaluate", "gs://bucket/run", "--truth", "{}/truth.csv"),
        ("load", "gs://bucket/run", "--to", "{}/new"),
        ("ledger", "export", "{}/ledger", "--output", "gs://bucket/run"),
    ],
)
def test_a_file_system_that_is_not_installed_is_refused_with_its_remedy(folder, words, monkeypatch):
    monkeypatch.setattr(storage.importlib.util, "find_spec", lambda name: None)
    run = run_command(*(word.format(folder) for word in words))
    assert (run.code, run.out) == (2, "")
    assert "gs://bucket/run" in run.err
    assert "its file system is not installed. Try: pip install 'apache-beam[gcp]'" in run.err
    assert not (folder / "new").exists()
