"""Same numbers everywhere: the pipeline gives exactly what crowdcore gives, however it is run."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from oracle import aggregated, checksum, table

from crowdcore.simulate import simulate_crowd
from pipelines.batch import run
from pipelines.settings import AggregateSettings, BatchSettings

TABLES = ("scores", "skills", "edges", "graph")


def ragged(prefix, number):
    """Ids of many lengths, not all of them ASCII."""
    return f"{prefix}{'é' * (number % 4)}{'x' * (number % 23)}-{number}" if number % 3 else f"{prefix}{number}"


@pytest.fixture(scope="module")
def rows():
    """A crowd of three classes with repeats and withdrawals; and beside it a bipartite pair, and a worker alone."""
    crowd = simulate_crowd(n_tasks=1500, n_workers=60, labels_per_task=4, n_classes=3, rng=np.random.default_rng(7))
    moment = random.Random(3)
    names = ["no", "ÿes", "may,be"]
    found = [
        (ragged("t", t), ragged("w", w), names[y])
        for t, w, y in zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    ]
    found += [(task, worker, moment.choice(names)) for task, worker, _ in moment.sample(found, 300)]
    found += [(task, worker, None) for task, worker, _ in moment.sample(found, 300)]
    found += [(found[0][0], worker, None) for worker in {worker for task, worker, _ in found if task == found[0][0]}]
    found += [(f"pair{k}", side, "no") for k in range(9) for side in ("left", "right")]
    found += [("lonely", "hermit", "ÿes")]
    return [(*row, at) for row, at in zip(found, moment.sample(range(10**9), len(found)), strict=True)]


@pytest.fixture(scope="module")
def gold(rows):
    return sorted({task: "no" for task, *_ in rows[:40]}.items())


def write(folder, rows, files=1, seed=None):
    """The rows in Parquet files, shuffled when there is a seed."""
    rows = random.Random(seed).sample(rows, len(rows)) if seed is not None else rows
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        columns = zip(*rows[number::files], strict=True)
        part = pa.table(dict(zip(("task", "worker", "label", "time"), map(list, columns), strict=True)))
        if part["label"].null_count:
            part = part.append_column("op", pc.if_else(part["label"].is_null(), "delete", None))
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=777)
    return str(folder)


@pytest.fixture(scope="module")
def reference(tmp_path_factory, rows, gold):
    """The checksums of a run on one file, with one shard, on the in-process runner."""
    folder = tmp_path_factory.mktemp("reference")
    gold_file = folder / "gold.csv"
    gold_file.write_text("task,label\n" + "".join(f"{task},{label}\n" for task, label in gold), "utf-8")
    output = str(folder / "run")
    aggregate(write(folder / "labels", rows), output, str(gold_file), shards=1)
    return output, str(gold_file), {name: checksum(output, name) for name in TABLES}


def aggregate(labels, output, gold, *, shards, args=("--runner=FnApiRunner",), **settings):
    batch = BatchSettings((labels,), output, AggregateSettings(shards=shards, **settings), gold=(gold,) if gold else ())
    return run(batch, args)


def test_the_pipeline_gives_exactly_what_crowdcore_gives(reference, rows, gold):
    output, _, _ = reference
    scores, skills = aggregated(rows, gold)
    found = table(output, "scores").to_pylist()
    assert {row["task"]: (row["label"], row["probability"], row["margin"], row["score"]) for row in found} == scores
    found = table(output, "skills").to_pylist()
    assert {row["worker"]: (row["skill"], row["skill_low"], row["skill_high"]) for row in found} == skills


@pytest.mark.parametrize(("shards", "files", "seed"), [(7, 1, None), (64, 1, None), (1, 5, 1), (7, 3, 2), (64, 8, 3)])
def test_shards_files_and_order_change_nothing(tmp_path, reference, rows, shards, files, seed):
    _, gold, expected = reference
    labels = write(tmp_path / "labels", rows, files, seed)
    result = aggregate(labels, str(tmp_path / "run"), gold, shards=shards)
    assert {name: checksum(tmp_path / "run", name) for name in TABLES} == expected
    assert sum(path["path"].startswith("scores/") for path in result.manifest["outputs"]) == shards


@pytest.mark.parametrize("shards", [1, 7, 64])
def test_the_bundle_based_runner_changes_nothing(tmp_path, reference, rows, shards):
    _, gold, expected = reference
    labels = write(tmp_path / "labels", rows, 4, 5)
    result = aggregate(labels, str(tmp_path / "run"), gold, shards=shards, args=["--runner=BundleBasedDirectRunner"])
    assert result.manifest["settings"]["runner"] == "BundleBasedDirectRunner"
    assert {name: checksum(tmp_path / "run", name) for name in TABLES} == expected


@pytest.mark.parametrize("shards", [1, 7, 64])
def test_the_portable_runner_changes_nothing(tmp_path, reference, rows, shards):
    """The job goes to a job service and the data over the wire, to workers that share nothing with it."""
    _, gold, expected = reference
    labels = write(tmp_path / "labels", rows, 4, 6)
    args = ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"]
    result = aggregate(labels, str(tmp_path / "run"), gold, shards=shards, args=args)
    assert result.manifest["settings"]["runner"] == "PortableRunner"
    assert {name: checksum(tmp_path / "run", name) for name in TABLES} == expected


@pytest.mark.parametrize("settings", [{"weights": "saturating"}, {"multiclass": "one-vs-rest"}])
def test_other_settings_give_what_crowdcore_gives(tmp_path, rows, settings):
    labels = write(tmp_path / "labels", rows, 2, 9)
    aggregate(labels, str(tmp_path / "run"), None, shards=5, **settings)
    scores, skills = aggregated(rows, **settings)
    found = table(tmp_path / "run", "scores").to_pylist()
    assert {row["task"]: (row["label"], row["probability"], row["margin"], row["score"]) for row in found} == scores
    found = table(tmp_path / "run", "skills").to_pylist()
    assert {row["worker"]: (row["skill"], row["skill_low"], row["skill_high"]) for row in found} == skills


def test_a_task_with_too_many_pairs_gives_the_same_however_it_is_split(tmp_path):
    """Which pairs are counted goes by the order of the worker ids, whatever codes they have in a shard."""
    chance = random.Random(1)
    found = [("big", f"w{n}") for n in range(1500)]
    found += [(f"t{k}", f"w{(k * 7 + j * 11) % 1500}") for k in range(3000) for j in range(3)]
    rows = [(task, worker, chance.choice("xxy"), at) for at, (task, worker) in enumerate(found)]
    sums = []
    for number, (shards, files, seed) in enumerate([(1, 1, None), (7, 3, 5), (64, 8, 6)]):
        output = tmp_path / f"run{number}"
        result = aggregate(write(tmp_path / f"labels{number}", rows, files, seed), str(output), None, shards=shards)
        assert result.manifest["counts"]["tasks_sampled"] == 1
        sums.append({name: checksum(output, name) for name in TABLES})
    assert sums[0] == sums[1] == sums[2]
    _, skills = aggregated(rows)
    found = table(tmp_path / "run0", "skills").to_pylist()
    assert {row["worker"]: (row["skill"], row["skill_low"], row["skill_high"]) for row in found} == skills
