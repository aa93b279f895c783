import json
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow.dataset as ds
import pytest

import schemas
from pipelines import batch, manifest, worker_tables
from pipelines.errors import InvalidSettingError, RunError
from pipelines.settings import AggregateSettings, BatchSettings

ROWS = "task,worker,label\nt1,ann,x\nt1,bob,x\nt1,cem,y\nt2,ann,y\nt2,bob,y\nt2,cem,y\nt3,,x\n"


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(ROWS, "utf-8")
    return str(path)


def test_the_manifest_is_a_record_of_its_schema_and_tells_all(labels, tmp_path):
    result = batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    account = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert account == result.manifest
    assert fastavro.validate(account, schemas.avro_schema("manifest"), strict=True)
    counts = account["counts"]
    assert (counts["labels_read"], counts["labels_used"], counts["labels_repeated"], counts["labels_rejected"]) == (
        7, 6, 0, 1,
    )  # fmt: skip
    assert counts["labels_rejected.missing-worker"] == 1
    assert account["classes"] == ["x", "y"]
    assert account["settings"]["runner"] == "FnApiRunner"
    assert [file["path"] for file in account["inputs"]] == [labels]
    assert account["inputs"][0]["size_bytes"] == len(ROWS)
    for output in account["outputs"]:
        file = tmp_path / "run" / output["path"]
        assert file.stat().st_size == output["size_bytes"]
        assert ds.dataset(file).count_rows() == output["rows"]


def test_every_table_opens_as_a_folder_also_an_empty_one(labels, tmp_path):
    batch.run(BatchSettings((labels,), str(tmp_path / "run"), AggregateSettings(classes=("x", "y"))))
    Path(labels).write_text(ROWS.replace("t3,,x\n", ""), "utf-8")
    batch.run(BatchSettings((labels,), str(tmp_path / "run"), overwrite=True))
    records = {"scores": "score", "skills": "skill", "edges": "edge", "graph": "graph", "rejects": "reject"}
    for name, record in records.items():
        found = ds.dataset(tmp_path / "run" / name).to_table()
        assert found.schema.equals(schemas.arrow_schema(record)), name
    assert ds.dataset(tmp_path / "run" / "rejects").count_rows() == 0


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_every_output_format_holds_the_same_rows(labels, tmp_path, kind):
    settings = AggregateSettings(probabilities=True)
    batch.run(BatchSettings((labels,), str(tmp_path / "run"), settings, output_format=kind))
    (file,) = (tmp_path / "run" / "scores").iterdir()
    assert file.suffix == f".{kind}"
    if kind == "avro":
        with file.open("rb") as source:
            rows = list(fastavro.reader(source, reader_schema=schemas.avro_schema("score")))
    elif kind == "jsonl":
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    else:
        rows = ds.dataset(file, format=kind).to_table().to_pylist(maps_as_pydicts="strict")
    assert {row["task"]: row["label"] for row in rows} == {"t1": "x", "t2": "y"}
    maps = [json.loads(row["probabilities"]) if kind == "csv" else row["probabilities"] for row in rows]
    assert all(set(one) == {"x", "y"} and abs(sum(one.values()) - 1) < 1e-12 for one in maps)


def test_one_file_given_as_labels_and_as_gold_has_its_rejects_twice(labels, tmp_path):
    result = batch.run(BatchSettings((labels,), str(tmp_path / "run"), gold=(labels, labels)))
    counts = result.manifest["counts"]
    assert (counts["labels_rejected"], counts["gold_rejected"]) == (1, 0)
    Path(labels).write_text(ROWS + ",ann,x\n", "utf-8")
    result = batch.run(BatchSettings((labels,), str(tmp_path / "run"), gold=(labels,), overwrite=True))
    counts = result.manifest["counts"]
    rejected = counts["labels_rejected"] + counts["gold_rejected"]
    assert rejected == 3 == ds.dataset(tmp_path / "run" / "rejects").count_rows()


def test_a_label_lost_on_the_way_fails_the_run_and_leaves_nothing(labels, tmp_path, monkeypatch):
    whole = batch.read_json

    def lossy(path):
        found = whole(path)
        if path.endswith("counts.json"):
            found["labels_used"] -= 1
        return found

    monkeypatch.setattr(batch, "read_json", lossy)
    with pytest.raises(RunError, match="7 labels were read, but 5 used, 0 repeated, 1 rejected and 0 withdrawn"):
        batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_an_answer_lost_on_the_way_fails_the_run(labels, tmp_path, monkeypatch):
    whole = batch.read_json
    monkeypatch.setattr(batch, "read_json", lambda path: {**whole(path), "scores": 1})
    with pytest.raises(RunError, match="2 tasks have labels"):
        batch.run(BatchSettings((labels,), str(tmp_path / "run")))


def test_a_job_service_that_is_not_there_is_told_at_once(labels, tmp_path):
    args = ["--runner=PortableRunner", "--job_endpoint=localhost:1"]
    with pytest.raises(InvalidSettingError, match="--job_endpoint localhost:1 does not answer"):
        batch.run(BatchSettings((labels,), str(tmp_path / "run")), args)


def test_prior_skills_and_beam_options_are_in_the_manifest_but_no_secret(labels, tmp_path):
    (tmp_path / "known.csv").write_text("worker,skill\nann,0.9\n", "utf-8")
    settings = BatchSettings((labels,), str(tmp_path / "run"), prior_skills=str(tmp_path / "known.csv"))
    args = ["--job_name=night", "--s3_secret_access_key=hush"]
    account = batch.run(settings, args).manifest
    assert [file["role"] for file in account["inputs"]] == ["labels", "prior-skills"]
    assert account["settings"]["job_name"] == "night"
    assert "hush" not in json.dumps(account)


def test_the_number_of_shards_follows_the_size_of_the_input(labels, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "LABELS_PER_SHARD", 1)
    result = batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    assert int(result.manifest["settings"]["shards"]) == len(ROWS) // 24


def test_there_are_only_so_many_shards_however_large_the_input(labels, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "LABELS_PER_SHARD", 1)
    monkeypatch.setattr(batch, "MAX_SHARDS", 2)
    result = batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    assert int(result.manifest["settings"]["shards"]) == 2


def test_the_shards_that_there_may_be_have_numbers_of_16_bits():
    assert batch.MAX_SHARDS <= 1 << 16  # as `pipelines.blocks.shard_of` counts them


def test_a_killed_run_leaves_nothing_that_looks_whole_and_the_next_one_works(tmp_path):
    """The process kills itself when it is about to put its tables in their places."""
    labels, output = tmp_path / "labels.csv", tmp_path / "run"
    labels.write_text(ROWS, "utf-8")
    program = (
        "import os, signal, sys; from pipelines import batch; from pipelines.settings import BatchSettings\n"
        "batch.RunFolder.commit = lambda self, manifest: os.kill(os.getpid(), signal.SIGKILL)\n"
        "batch.run(BatchSettings((sys.argv[1],), sys.argv[2]))"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(labels), str(output)], capture_output=True, check=False)
    assert killed.returncode == -9
    assert [path.name for path in output.iterdir()] == ["_staging"]
    batch.run(BatchSettings((str(labels),), str(output)))
    assert sorted(path.name for path in output.iterdir()) == [
        "edges", "graph", "manifest.json", "rejects", "scores", "skills",
    ]  # fmt: skip


def test_edges_in_many_parts_are_the_same_edges(labels, tmp_path, monkeypatch):
    batch.run(BatchSettings((labels,), str(tmp_path / "one")))
    monkeypatch.setattr(worker_tables, "EDGES_PER_BLOCK", 2)
    batch.run(BatchSettings((labels,), str(tmp_path / "many")))
    assert len(list((tmp_path / "many" / "edges").iterdir())) == 2
    edges = [
        sorted(map(tuple, map(dict.values, ds.dataset(tmp_path / name / "edges").to_table().to_pylist())))
        for name in ("one", "many")
    ]
    assert edges[0] == edges[1]
    assert len(edges[0]) == 3


def test_the_order_in_which_classes_are_given_decides_nothing(labels, tmp_path):
    for number, classes in enumerate([("x", "y", "z"), ("z", "y", "x")]):
        prior = (("x", 0.2), ("y", 0.3), ("z", 0.5))
        settings = AggregateSettings(classes=classes, class_prior=prior if number else prior[::-1])
        batch.run(BatchSettings((labels,), str(tmp_path / f"run{number}"), settings))
    one, other = (ds.dataset(tmp_path / f"run{number}" / "scores").to_table().to_pylist() for number in (0, 1))
    assert one == other


@pytest.mark.parametrize("lost", ["labels_used", "labels_withdrawn", "gold_used", "scores", "rows"])
def test_counts_that_do_not_add_up_are_refused(lost):
    counts = {"labels_read": 5, "labels_used": 3, "labels_repeated": 0, "labels_rejected": 0, "tasks": 2, "scores": 2}
    counts |= {"gold_read": 1, "gold_used": 1, "labels_withdrawn": 2}
    rows = {"scores/part-00000.parquet": 2}
    manifest.check_balance(counts, rows)
    if lost == "rows":
        rows["scores/part-00000.parquet"] -= 1
    else:
        counts[lost] -= 1
    with pytest.raises(RunError):
        manifest.check_balance(counts, rows)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"prior_strength": float("inf")}, "--prior-strength is inf; it takes a number from 0 to 1e"),
        ({"prior_strength": float("nan")}, "--prior-strength is nan"),
        ({"saturation": float("inf")}, "--saturation is inf"),
        ({"classes": ("x", "y"), "class_prior": (("x", 0.9), ("y", 0.9))}, "add up to 1"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused(wrong, sentence):
    with pytest.raises(InvalidSettingError, match=sentence):
        AggregateSettings(**wrong)


def test_a_job_that_failed_is_no_success(labels, tmp_path, monkeypatch):
    class Failed:
        def wait_until_finish(self):
            return "FAILED"

    monkeypatch.setattr(beam.Pipeline, "run", lambda self: Failed())
    with pytest.raises(RunError, match="ended as FAILED"):
        batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_signal_at_the_first_moment_leaves_nothing(labels, tmp_path, monkeypatch):
    whole = batch.RunFolder.open

    def opened(self, overwrite):
        whole(self, overwrite)
        raise KeyboardInterrupt

    monkeypatch.setattr(batch.RunFolder, "open", opened)
    with pytest.raises(KeyboardInterrupt):
        batch.run(BatchSettings((labels,), str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
