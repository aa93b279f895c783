"""`crowdbeam ledger export` to a file system that is not this machine's own."""

import memory_files
import pytest
from nights import ledger_command, nightly, write_events

ROWS = [(f"t{n}", worker, "ab"[n % 2], n) for n in range(6) for worker in ("ann", "bob", "cem")]


@pytest.fixture
def ledger(tmp_path):
    memory_files.FILES.clear()
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", ROWS)])
    return tmp_path / "ledger"


@pytest.mark.parametrize("taken", ["memory://bucket/run", "memory://bucket/run/notes.txt", "memory://bucket/run/a/b"])
def test_nothing_is_written_over(ledger, taken):
    memory_files.FILES[taken] = b"mine"
    run = ledger_command("export", ledger, "--output", "memory://bucket/run", code=2)
    assert "--output memory://bucket/run is there already. Give an empty or a new folder." in run.err
    assert list(memory_files.FILES.items()) == [(taken, b"mine")]


def test_a_folder_beside_another_run_takes_what_one_here_would(ledger, tmp_path):
    memory_files.FILES["memory://bucket/runs/notes.txt"] = b"mine"
    there = ledger_command("export", ledger, "--output", "memory://bucket/run")
    here = ledger_command("export", ledger, "--output", tmp_path / "run")
    assert there["outputs"] == here["outputs"]
    for output in here["outputs"]:
        found = memory_files.FILES[f"memory://bucket/run/{output['path']}"]
        assert found == (tmp_path / "run" / output["path"]).read_bytes()


def test_a_file_system_that_is_not_installed_is_told(ledger):
    run = ledger_command("export", ledger, "--output", "hdfs://bucket/run", code=2)
    assert "its file system is not installed. Try: pip install 'apache-beam[hadoop]'" in run.err


def test_what_a_failed_export_wrote_is_removed(ledger, monkeypatch):
    memory_files.FILES["memory://bucket/notes.txt"] = b"mine"
    monkeypatch.setattr(memory_files, "FAIL_ON", ["run/edges"])
    ledger_command("export", ledger, "--output", "memory://bucket/run", code=1)
    assert memory_files.FILES == {"memory://bucket/notes.txt": b"mine"}
