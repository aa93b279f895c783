"""A file of this machine that is cut while it is read: told in a sentence, or as a reject, and no process dies of it.

Each reads in a process of its own, for what is tested is that this process lives.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from source_files import WRITERS, write

ROOT = Path(__file__).parents[2]
ROWS = [(f"task{number}", f"w{number % 7}", "ab"[number % 2]) for number in range(40_000)]
KEPT_BYTES = 100
COMMAND = """
import os, sys
from pipelines.cli import main
from pipelines.sources import avro, parquet, storage

path, n_before, opened = sys.argv[1], int(sys.argv[2]), storage.open_file
n_opened = 0

def cut_after_it_was_opened(name):
    global n_opened
    file = opened(name)
    n_opened += name == path
    if n_opened > n_before:
        os.truncate(path, KEPT_BYTES)
    return file

for module in (storage, avro, parquet):
    module.open_file = cut_after_it_was_opened
sys.exit(main(sys.argv[3:]))
"""
FOLDER = """
import json, os, sys
from pipelines.sources import avro, csv, folder, jsonl
from pipelines.tables import from_bytes

path = sys.argv[1]
csv.BLOCK_BYTES = jsonl.BLOCK_BYTES = avro.CHUNK_BYTES = 50_000
folder.LIST_S, folder.TORN_S = 600.0, 0.0
reader = folder.FolderSource(os.path.dirname(path)).reader(0)
polled = reader.poll(b"", 5, 0)
os.truncate(path, KEPT_BYTES)
told = []
while polled.more or folder.LIST_S:
    folder.LIST_S = folder.LIST_S if polled.more else 0.0  # it is listed again when it was read as far as it can be
    polled = reader.poll(polled.position, 50_000, 0)
    told += [row["reason"] for data in polled.rejects for row in from_bytes(data).to_pylist()]
print(json.dumps(told))
"""
CHECKED_AND_READ = {"x.parquet": 2, "x.avro": 1, "x.csv": 2, "x.jsonl": 1, "x.csv.gz": 2, "x.jsonl.zst": 1}


def run(code, *words):
    """Python runs `code`."""
    code = code.replace("KEPT_BYTES", str(KEPT_BYTES))
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(("name", "n_before"), CHECKED_AND_READ.items())
@pytest.mark.parametrize("command", ["aggregate", "nightly"])
def test_a_file_that_is_cut_while_it_is_read_ends_the_run_with_a_sentence(tmp_path, command, name, n_before):
    """It is cut when it has been checked, and was opened to be read."""
    path = write(tmp_path, name, WRITERS[name](ROWS))
    place = "--output" if command == "aggregate" else "--ledger"
    done = run(COMMAND, path, n_before, command, path, place, tmp_path / "new")
    assert path.stat().st_size == KEPT_BYTES, "it was opened as often as that"
    assert (done.returncode, done.stderr) == (
        1, f"crowdbeam: {path} changed while it was read. Write a file under another name, rename it, and run again.\n"
    )  # fmt: skip
    assert not (tmp_path / "new" / "CURRENT").exists()
    assert not (tmp_path / "new" / "manifest.json").exists()


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.avro"])
def test_a_file_of_a_folder_that_is_cut_while_it_is_read_is_told_as_changed(tmp_path, name):
    done = run(FOLDER, write(tmp_path, name, WRITERS[name](ROWS)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[-1] == "file-changed"
