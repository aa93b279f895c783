"""Same numbers everywhere: a run on a real engine is, file for file and byte for byte, the run in one process."""

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_command, write_rows

from crowdcore.simulate import simulate_crowd
from schemas import TABLES

SHARDS = 5


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Labels in three formats with repeats, gaps and torn lines, and gold with an answer that contradicts another."""
    folder = tmp_path_factory.mktemp("inputs")
    crowd = simulate_crowd(n_tasks=900, n_workers=40, labels_per_task=4, n_classes=3, rng=np.random.default_rng(4))
    codes = zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    rows = [(f"tâche {t}", f"w{w}", ["no", "yes", "may,be"][y], at) for at, (t, w, y) in enumerate(codes)]
    rows += [(task, worker, "no", at + 10_000) for task, worker, _, at in random.Random(2).sample(rows, 80)]
    names = ("task", "worker", "label", "time")
    pq.write_table(pa.table(dict(zip(names, zip(*rows[::3], strict=True), strict=True))), folder / "a.parquet")
    write_rows(folder / "b.csv", names, [*rows[1::3], ("", "w1", "no", 5), ("t1", "", "no", 6), ("t1", "w1", "", 7)])
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows[2::3]]
    (folder / "c.jsonl").write_text("\n".join([*lines, '{"task": torn', '{"task": "t2", "worker": "w2"}']) + "\n")
    answers = {task: label for task, _, label, _ in rows[:60]}
    write_rows(folder / "gold.csv", ("task", "label"), [*answers.items(), ("tâche 0", "yes"), ("tâche 0", "no")])
    return folder


def aggregate(inputs, output, *beam_args):
    labels = [inputs / name for name in ("a.parquet", "b.csv", "c.jsonl")]
    words = [*labels, "--output", output, "--gold", inputs / "gold.csv", "--shards", SHARDS, "--quiet", *beam_args]
    run = run_command("aggregate", *words, folder=output)
    assert run.code == 0, run.err
    return run


@pytest.fixture(scope="module")
def reference(inputs, tmp_path_factory):
    """The run in this process."""
    run = aggregate(inputs, tmp_path_factory.mktemp("reference") / "run", "--runner=FnApiRunner")
    assert len(run.files("scores")) == SHARDS
    assert {row["reason"] for row in run.rows("rejects")} > {"missing-worker", "malformed-record"}
    return run


def assert_same(run, reference):
    for table in TABLES:
        assert run.files(table) == reference.files(table)
        for name in run.files(table):
            found, expected = ((one.folder / table / name).read_bytes() for one in (run, reference))
            assert found == expected, f"{table}/{name} differs"
    assert run.manifest["counts"] == reference.manifest["counts"]
    assert run.manifest["fit"] == reference.manifest["fit"]


def test_flink_writes_the_same_bytes(flink, inputs, reference, tmp_path):
    run = aggregate(inputs, tmp_path / "run", *flink.beam_args(parallelism=2), "--job_name=batch-on-flink")
    assert_same(run, reference)
    assert run.manifest["settings"]["runner"] == "PortableRunner"
    (job,) = [job for job in flink.rest.jobs() if job["name"] == "batch-on-flink"]
    assert job["state"] == "FINISHED"


def test_prism_writes_the_same_bytes(prism, inputs, reference, tmp_path):
    run = aggregate(inputs, tmp_path / "run", *prism.beam_args())
    assert_same(run, reference)
    assert run.manifest["settings"]["runner"] == "PrismRunner"
