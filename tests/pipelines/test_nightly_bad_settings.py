"""Settings and inputs of nightly and ledger that cannot be used: a sentence each, exit code 2, and nothing written."""

import os

import pytest
from command_line import crowd_rows, run_command, write_rows

from pipelines.locking import LOCK

HEADER = ("task", "worker", "label")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labels, an empty file, an empty folder, a run and a ledger."""
    path = tmp_path_factory.mktemp("given")
    write_rows(path / "labels.csv", HEADER, crowd_rows())
    write_rows(path / "other.csv", ("task", "person", "label"), crowd_rows())
    (path / "empty.csv").touch()
    (path / "nothing").mkdir()
    assert run_command("aggregate", path / "labels.csv", "--output", path / "run").code == 0
    assert run_command("nightly", path / "labels.csv", "--ledger", path / "ledger").code == 0
    return path


def content_of(folder):
    """Every file, but for locks, with its size and the time of its last change, and every folder."""
    found = {}
    for place, folders, files in os.walk(folder):
        found |= {os.path.join(place, name): None for name in folders}
        for path in (os.path.join(place, name) for name in files if name != LOCK):
            found[path] = (os.stat(path).st_size, os.stat(path).st_mtime_ns)
    return found


NIGHTLY = [
    (("nowhere.csv", "+"), "INPUT 'nowhere.csv' names no file. Check the path"),
    (("", "+"), "INPUT '' is empty. Give a file, a folder or a glob."),
    (("{}/nothing", "+"), "names no file"),
    (("{}/other.csv", "+"), "has no column 'worker'; it has 'task', 'person', 'label'."),
    (("{}/labels.csv", "--ledger", "{}/labels.csv"), "labels.csv is a file; give a folder."),
    (("{}/labels.csv", "--ledger", "{}/run"), "which no ledger has. Give an empty or a new folder."),
    (("{}/labels.csv", "--ledger", "gs://bucket/ledger"), "is not on this machine; give a folder of this machine."),
    (("{}/labels.csv", "--ledger", " "), "--ledger is empty; give a folder."),
    (("{}/labels.csv",), "arguments are required: --ledger. Try `crowdbeam nightly --help`."),
    (("--ledger", "new"), "arguments are required: NEW. Try `crowdbeam nightly --help`."),
    (("{}/labels.csv", "--ledger", "new", "--output", "mysql://host/crowd"), "begins with mysql:, which is not known."),
    (("{}/labels.csv", "--ledger", "new", "--output", "duckbd:///crowd.duckdb"), "Did you mean duckdb:///PATH?"),
    (("{}/labels.csv", "--ledger", "new", "--output", "{}/run"), "is the folder of one run; give a folder for many."),
    (("{}/labels.csv", "--ledger", "new", "--output", "out", "--output", "out"), "--output names a warehouse twice"),
    (("{}/labels.csv", "--ledger", "new", "--output", "out", "--output", "./out/"), "as out and as ./out/; name each"),
    (("{}/labels.csv", "--ledger", "new", "--output", "{}/labels.csv"), "is a file; give a folder."),
    (
        ("{}/labels.csv", "--ledger", "new", "--output", "postgresql://me@localhost:1/crowd"),
        "Postgres cannot be reached",
    ),
    (("{}/labels.csv", "+", "--task-ttl", "soon"), "--task-ttl is 'soon'; it takes a time such as 30s, 15m, 12h"),
    (("{}/labels.csv", "+", "--rescore", "some"), "--rescore is 'some'; it takes changed, all."),
    (("{}/labels.csv", "+", "--keep-versions", "0"), "--keep-versions is 0; it takes a number of at least 1."),
    (("{}/labels.csv", "+", "--shards", "-1"), "--shards is -1; it takes a number from 0 to 65535."),
    (("{}/labels.csv", "+", "--shards", "70000"), "--shards is 70000; it takes a number from 0 to 65535."),
    (("{}/labels.csv", "+", "--time-unit", "h"), "--time-unit is 'h'; it takes"),
    (("{}/labels.csv", "+", "--columns", "item=task"), "--columns is 'item'; it takes"),
    (
        ("{}/labels.csv", "--ledger", "{}/ledger", "--classes", "c0,c1"),
        "--classes leaves out 'c2', of which the ledger",
    ),
    (("{}/labels.csv", "+", "--gold", "nowhere.csv"), "--gold 'nowhere.csv' names no file."),
    (("{}/labels.csv", "+", "--prior-skills", "nowhere.csv"), "--prior-skills 'nowhere.csv' names no file."),
    (("{}/labels.csv", "+", "--output-format", "xml"), "--output-format is 'xml'; it takes parquet, avro, csv, jsonl."),
    (("{}/labels.csv", "+", "--fail-if", "reject-share>0.1"), "did you mean rejects-share>LIMIT?"),
    (("{}/labels.csv", "+", "--lineage", "nowhere/event.json"), "cannot be written: make its folder first."),
    (
        ("{}/labels.csv", "--ledger", "{}/ledger", "--lineage", "{}/ledger/event.json"),
        "--lineage {}/ledger/event.json lies in the ledger {}/ledger; give another place.",
    ),
    (("{}/labels.csv", "--ledger", "new", "--lineage", "new/runs/event.json"), "lies in the ledger new; give another"),
    (("{}/labels.csv", "--ledger", "new", "--output", "new/answers"), "--output new/answers lies in the ledger new"),
    (
        (
            "{}/other.csv",
            "--columns",
            "worker=person",
            "--ledger",
            "{}/ledger",
            "--output",
            "postgresql://me@localhost:1/c",
        ),
        "Postgres cannot be reached",
    ),
    (("{}/labels.csv", "+", "--runner", "FlinkRunner"), "--runner is no option of crowdbeam nightly"),
    (("{}/labels.csv", "+", "--taks-ttl", "7d"), "--taks-ttl is no option of crowdbeam nightly"),
]
LEDGER = [
    (("shwo", "{}/ledger"), "'shwo' is no action; there are show, verify, rollback, compact, export, forget."),
    (("show",), "arguments are required: DIR"),
    (("show", "nowhere"), "nowhere holds no ledger. Give the folder of --ledger of crowdbeam nightly."),
    (("verify", "nowhere"), "nowhere holds no ledger."),
    (("show", "{}/run"), "holds no ledger."),
    (("show", "{}/labels.csv"), "labels.csv is a file; give a folder."),
    (("rollback", "{}/ledger"), "rollback needs --to"),
    (("rollback", "{}/ledger", "--to", "9"), "has no version 9; it has 1."),
    (("rollback", "{}/ledger", "--to", "1"), "Version 1 is not earlier than 1, which holds."),
    (("rollback", "{}/ledger", "--to", "one"), "--to is 'one'; it takes a whole number."),
    (("compact", "{}/ledger", "--keep-versions", "0"), "--keep-versions is 0; it takes a number of at least 1."),
    (("export", "{}/ledger"), "export needs --output"),
    (("export", "{}/ledger", "--output", "{}/run"), "is there already. Give an empty or a new folder."),
    (("export", "{}/ledger", "--output", "all", "--output-format", "xml"), "--output-format is 'xml'; it takes"),
    (("forget", "{}/ledger"), "forget needs --worker"),
    (("forget", "{}/ledger", "--worker", "nobody"), "holds no label of the worker 'nobody'. Check the id."),
]


@pytest.mark.parametrize(("command", "words", "sentence"), [
    *(("nightly", *one) for one in NIGHTLY), *(("ledger", *one) for one in LEDGER),
])  # fmt: skip
def test_bad_settings_are_refused_with_a_sentence_and_nothing_is_written(
    command, words, sentence, folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = [
        part for word in words for part in (("--ledger", "new", "--output", "answers") if word == "+" else (word,))
    ]
    before = content_of(folder)
    done = run_command(command, *(word.replace("{}", str(folder)) for word in given))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("crowdbeam: ")
    assert sentence.replace("{}", str(folder)) in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []
    assert content_of(folder) == before


def test_a_night_of_empty_files_is_nothing_new_and_makes_no_ledger(folder, tmp_path):
    (tmp_path / "empty.csv").touch()
    done = run_command("nightly", tmp_path / "empty.csv", "--ledger", tmp_path / "ledger")
    assert done.code == 0
    assert not (tmp_path / "ledger").exists()
    assert run_command("nightly", folder / "labels.csv", "--ledger", tmp_path / "ledger").code == 0
    done = run_command("nightly", tmp_path / "empty.csv", "--ledger", tmp_path / "ledger", "--fail-if", "no-new-labels")
    assert done.code == 20
    assert (tmp_path / "ledger" / "CURRENT").read_text("utf-8") == "1\n"


def test_a_first_night_that_a_gate_holds_leaves_no_ledger(folder, tmp_path):
    words = ("--ledger", tmp_path / "ledger", "--fail-if", "unidentified-share>0", "--classes", "c0,c9")
    done = run_command("nightly", folder / "labels.csv", *words, "--fail-if", "rejects-share>0.1")
    assert done.code in (10, 11)
    assert not (tmp_path / "ledger").exists()


def test_a_run_that_brings_a_warehouse_up_to_date_has_not_done_nothing(folder, tmp_path):
    words = ("nightly", folder / "labels.csv", "--ledger", tmp_path / "ledger", "--fail-if", "no-new-labels")
    assert run_command(*words).code == 0
    assert [run_command(*words, "--output", tmp_path / "answers").code for _ in range(2)] == [0, 20]
