"""A run folder on a file system that is not this machine's own."""

import io
import json

import memory_files
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import BeamIOError

from pipelines import batch
from pipelines.settings import AggregateSettings, BatchSettings

ROWS = [f"t{n},{worker},x" for n in range(40) for worker in ("ann", "bob", "cem")]
OUTPUT = "memory://bucket/run"


@pytest.fixture(autouse=True)
def empty_bucket():
    memory_files.FILES.clear()
    memory_files.FAIL_ON.clear()
    memory_files.FILES["memory://bucket/labels.csv"] = "\n".join(["task,worker,label", *ROWS]).encode()


def aggregate(shards, overwrite=False):
    settings = AggregateSettings(shards=shards)
    return batch.run(BatchSettings(("memory://bucket/labels.csv",), OUTPUT, settings, overwrite=overwrite))


def files():
    return sorted(path.removeprefix(f"{OUTPUT}/") for path in memory_files.FILES if path.startswith(OUTPUT))


def tasks():
    parts = [data for path, data in memory_files.FILES.items() if path.startswith(f"{OUTPUT}/scores/")]
    return sorted(task for data in parts for task in pq.read_table(io.BytesIO(data))["task"].to_pylist())


def test_the_folder_holds_what_the_manifest_lists_and_nothing_else():
    result = aggregate(4)
    assert files() == sorted(["manifest.json", *(output["path"] for output in result.manifest["outputs"])])
    assert json.loads(memory_files.FILES[f"{OUTPUT}/manifest.json"]) == result.manifest
    assert tasks() == sorted(f"t{n}" for n in range(40))


def test_a_run_with_fewer_parts_leaves_no_part_of_the_earlier_one():
    aggregate(5)
    aggregate(2, overwrite=True)
    assert sum(path.startswith("scores/") for path in files()) == 2
    assert tasks() == sorted(f"t{n}" for n in range(40))


def test_what_a_failed_run_left_does_not_enter_the_next_one():
    memory_files.FAIL_ON.append(f"{OUTPUT}/skills")
    with pytest.raises(BeamIOError):
        aggregate(5)
    assert "manifest.json" not in files()
    memory_files.FILES[f"{OUTPUT}/_staging/scores/part-00009.parquet"] = b"left behind"
    memory_files.FAIL_ON.clear()
    aggregate(3)
    assert sum(path.startswith("scores/") for path in files()) == 3
    assert not any(path.startswith("_staging") for path in files())
