"""Majority vote and Dawid-Skene on shards: exactly what crowdcore gives, however the job is run."""

import random

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows
from command_line import crowd_rows, run_command, write_rows
from laws import assert_combines_freely
from oracle import checksum, encoded, table

from crowdcore.baselines.dawid_skene import dawid_skene
from crowdcore.baselines.majority import majority_vote
from crowdcore.labels import group_labels
from crowdcore.methods import METHODS
from crowdcore.simulate import simulate_crowd
from pipelines import confusion_model
from pipelines.aggregate import AggregateLabels
from pipelines.batch import run
from pipelines.errors import InvalidSettingError
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.spill import Spill
from pipelines.streaming.settings import StreamSettings
from pipelines.worker_totals import WorkerTotals, WorkerTotalsCombineFn

PASSES = 4
TABLES = ("scores", "skills", "edges", "graph")
PORTABLE = ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"]


@pytest.fixture(scope="module")
def rows():
    """A crowd of three classes with repeats, a pair apart, a worker alone, and a class that few choose."""
    crowd = simulate_crowd(n_tasks=900, n_workers=40, labels_per_task=4, n_classes=3, rng=np.random.default_rng(8))
    chance, names = random.Random(4), ["no", "ÿes", "may,be"]
    found = [
        (f"t{'x' * (t % 9)}{t}", f"w{'é' * (w % 4)}{w}", names[y])
        for t, w, y in zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    ]
    found += [(task, worker, chance.choice(names)) for task, worker, _ in chance.sample(found, 200)]
    found += [(f"pair{k}", side, chance.choice(names)) for k in range(9) for side in ("left", "right")]
    found += [("lonely", "hermit", "rare"), ("lonelier", "hermit", "no")]
    return [(*row, at) for row, at in zip(found, chance.sample(range(10**9), len(found)), strict=True)]


@pytest.fixture(scope="module")
def labels_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("labels") / "labels.parquet"
    columns = dict(zip(("task", "worker", "label", "time"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), path, row_group_size=777)
    return str(path)


@pytest.fixture(scope="module")
def coded(rows):
    """Tasks, workers, classes and labels, in the order of the names."""
    task, worker, label, time = zip(*rows, strict=True)
    (tasks, t), (workers, w), (classes, y) = encoded(task), encoded(worker), encoded(label)
    sizes = {"n_tasks": len(tasks), "n_workers": len(workers), "n_classes": len(classes)}
    return tasks, workers, classes, group_labels(t, w, y, time=np.array(time), **sizes).labels


def aggregate(labels, output, method, shards, args=("--runner=FnApiRunner",), **settings):
    passes = {"passes": PASSES} if method == "dawid-skene" else {}
    aggregated = AggregateSettings(method=method, shards=shards, probabilities=True, **passes, **settings)
    return run(BatchSettings((labels,), str(output), aggregated), list(args))


@pytest.fixture(scope="module")
def references(tmp_path_factory, labels_file):
    """Run folders of one shard on the in-process runner."""
    folder = tmp_path_factory.mktemp("reference")
    for method in ("majority", "dawid-skene"):
        aggregate(labels_file, folder / method, method, 1)
    return folder


def test_majority_vote_is_that_of_crowdcore(references, coded):
    tasks, workers, classes, labels = coded
    vote, found = majority_vote(labels), METHODS["majority"](labels, rng=np.random.default_rng(0))
    answers = {row["task"]: row for row in table(references / "majority", "scores").to_pylist()}
    assert {task: row["label"] for task, row in answers.items()} == dict(zip(tasks, classes[vote.answer], strict=True))
    for k, task in enumerate(tasks):
        row = answers[task]
        assert row["probability"] == found.probabilities[k].max()
        assert dict(row["probabilities"]) == dict(zip(classes, found.probabilities[k], strict=True))
        assert (row["status"] == "tie") == (vote.tied[k] and row["status"] != "unknown-worker")
        votes = sorted(np.bincount(labels.label[labels.starts[k] : labels.starts[k + 1]], minlength=2), reverse=True)
        assert (row["margin"], row["score"]) == (votes[0] - votes[1], 2 * votes[0] - sum(votes))
    skills = {row["worker"]: row["skill"] for row in table(references / "majority", "skills").to_pylist()}
    assert skills == dict(zip(workers, found.skills, strict=True))


def test_dawid_skene_is_that_of_crowdcore_to_the_last_bit(references, coded):
    tasks, workers, classes, labels = coded
    found = dawid_skene(labels, n_rounds=PASSES, tol=-1.0)
    rows = {row["task"]: row for row in table(references / "dawid-skene", "scores").to_pylist()}
    assert len(rows) == len(tasks)
    for k, task in enumerate(tasks):
        row, every = rows[task], found.probabilities[k]
        assert row["label"] == classes[found.answer[k]]
        assert row["probability"] == every[found.answer[k]]
        assert dict(row["probabilities"]) == dict(zip(classes, every, strict=True))
        if 1e-6 < row["probability"] < 1 - 1e-6:
            assert row["score"] == pytest.approx(np.log(row["probability"] / (1 - row["probability"])))
            assert row["margin"] == pytest.approx(np.log(np.divide(*np.sort(every)[:-3:-1])))
        assert np.isfinite([row["score"], row["margin"]]).all()
    skills = {row["worker"]: row for row in table(references / "dawid-skene", "skills").to_pylist()}
    assert {name: row["skill"] for name, row in skills.items()} == dict(zip(workers, found.skills, strict=True))
    assert {(row["skill_low"], row["skill_high"]) for row in skills.values()} == {(-1.0, 1.0)}
    assert np.ptp(found.skills) > 0.5


def test_statuses_and_models_are_told(references):
    for method in ("majority", "dawid-skene"):
        scores = {row["task"]: row for row in table(references / method, "scores").to_pylist()}
        assert {row["model"] for row in scores.values()} == {method}
        assert scores["lonely"]["status"] == "unknown-worker"
        assert {"ok"} < {row["status"] for row in scores.values()}
        skills = {row["worker"]: row["status"] for row in table(references / method, "skills").to_pylist()}
        assert skills["hermit"] == "isolated"
        assert set(skills.values()) == {"ok", "isolated"}


@pytest.mark.parametrize("method", ["majority", "dawid-skene"])
@pytest.mark.parametrize(
    ("shards", "args"),
    [
        (7, ["--runner=FnApiRunner"]),
        (64, ["--runner=FnApiRunner"]),
        (7, ["--runner=BundleBasedDirectRunner"]),
        (7, PORTABLE),
    ],
    ids=["fn-api-7", "fn-api-64", "bundle-based-7", "portable-7"],
)
def test_shards_and_runners_change_nothing(method, shards, args, references, labels_file, tmp_path):
    aggregate(labels_file, tmp_path / "run", method, shards, args)
    for name in TABLES:
        assert checksum(tmp_path / "run", name) == checksum(references / method, name), name


def test_edges_and_graph_are_those_of_pgd(references, labels_file, tmp_path):
    run(BatchSettings((labels_file,), str(tmp_path / "run")))
    for name in ("edges", "graph"):
        assert checksum(tmp_path / "run", name) == checksum(references / "dawid-skene", name)


def test_the_manifest_tells_method_passes_and_loss(labels_file, tmp_path, coded):
    result = aggregate(labels_file, tmp_path / "run", "dawid-skene", 5)
    found = dawid_skene(coded[3], n_rounds=PASSES, tol=-1.0)
    assert result.manifest["settings"]["method"] == "dawid-skene"
    assert result.manifest["settings"]["passes"] == str(PASSES)
    fit = result.manifest["fit"]
    assert (fit["method"], fit["passes"]) == ("dawid-skene", str(PASSES))
    assert float(fit["loss"]) == pytest.approx(found.loss_history[-1], abs=1e-6)
    assert result.manifest["classes"] == list(coded[2])


def test_each_window_is_a_crowd_of_its_own():
    crowds = [crowd_rows(n_classes=n_classes, n_tasks=20) for n_classes in (2, 3)]
    expected = []
    for hour, rows in enumerate(crowds):
        (tasks, t), (workers, w), (classes, y) = map(encoded, zip(*rows, strict=True))
        sizes = {"n_tasks": len(tasks), "n_workers": len(workers), "n_classes": len(classes)}
        found = dawid_skene(group_labels(t, w, y, **sizes).labels, n_rounds=2, tol=-1.0)
        best = found.probabilities.max(axis=1)
        expected += [(hour, *row) for row in zip(tasks, classes[found.answer], best, strict=True)]
    rows = [
        beam.window.TimestampedValue(dict(zip(("task", "worker", "label"), row, strict=True)), 60 * hour)
        for hour, crowd in enumerate(crowds)
        for row in crowd
    ]
    with TestPipeline("BundleBasedDirectRunner") as pipeline:
        stamped = pipeline | beam.Create(rows) | beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(60))
        found = stamped | AggregateLabels(AggregateSettings(method="dawid-skene", passes=2, shards=3))
        assert_that(found["scores"] | beam.Map(with_window), equal_to(expected))


def with_window(row, window=beam.DoFn.WindowParam):
    return int(window.start) // 60, row.task, row.label, row.probability


def test_given_class_frequencies_are_held(labels_file, tmp_path, coded):
    tasks, _, classes, labels = coded
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    held = {"classes": tuple(classes), "class_prior": tuple(zip(classes, prior.tolist(), strict=True))}
    aggregate(labels_file, tmp_path / "run", "dawid-skene", 3, **held)
    found = dawid_skene(labels, n_rounds=PASSES, tol=-1.0, prior=prior)
    rows = {row["task"]: row["probability"] for row in table(tmp_path / "run", "scores").to_pylist()}
    assert rows == dict(zip(tasks, found.probabilities.max(axis=1), strict=True))


@pytest.mark.parametrize("method", ["majority", "dawid-skene"])
def test_one_class_gives_sure_answers_and_no_label_none(method, tmp_path):
    header = ("task", "worker", "label")
    one = write_rows(tmp_path / "one.csv", header, [("t1", "a", "x"), ("t1", "b", "x"), ("t2", "a", "x")])
    done = run_command("aggregate", one, "--output", tmp_path / "run", "--method", method, folder=tmp_path / "run")
    assert done.code == 0, done.err
    assert {row["task"]: (row["label"], row["probability"]) for row in done.rows("scores")} == {
        "t1": ("x", 1.0), "t2": ("x", 1.0)
    }  # fmt: skip
    none = write_rows(tmp_path / "none.csv", header, [("t1", "a", "x"), ("t1", "a", "y")])
    words = ("--repeats", "error", "--method", method, "--output", tmp_path / "none")
    done = run_command("aggregate", none, *words, folder=tmp_path / "none")
    assert (done.code, done.rows("scores"), done.rows("skills")) == (3, [], [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "dawidskene"), "--method is 'dawidskene'; it takes pgd, majority, dawid-skene."),
        (("--method", "majority", "--weights", "binary"), "--weights has no part in --method majority; leave it out"),
        (("--method", "majority", "--classes", "a,b", "--class-prior", "a=.5,b=.5"), "--class-prior has no part in"),
        (("--method", "dawid-skene", "--confidence", ".5"), "--confidence has no part in --method dawid-skene"),
        (("--method", "dawid-skene", "--multiclass", "one-vs-rest"), "--multiclass has no part in"),
        (("--method", "dawid-skene", "--gold", "gold.csv"), "--gold has no part in --method dawid-skene"),
        (("--method", "majority", "--prior-skills", "x.csv"), "--prior-skills has no part in --method majority"),
        (("--method", "majority", "--passes", "3"), "--passes has no part in --method majority"),
        (("--passes", "3"), "--passes has no part in --method pgd"),
        (("--method", "dawid-skene", "--passes", "101"), "--passes is 101; it takes a number from 0 to 100."),
        (("--method", "dawid-skene", "--passes", "-1"), "--passes is -1; it takes a number from 0 to 100."),
    ],
)
def test_options_that_a_method_does_not_use_are_refused(words, sentence, tmp_path):
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    done = run_command("aggregate", labels, "--output", tmp_path / "run", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert not (tmp_path / "run").exists()


def test_the_transform_and_the_stream_refuse_as_well(tmp_path):
    settings = AggregateSettings(method="majority")
    with pytest.raises(InvalidSettingError, match="--gold has no part in --method majority"):
        AggregateLabels(settings, gold=object()).expand(None)
    with pytest.raises(InvalidSettingError, match="--prior-skills has no part in --method majority"):
        AggregateLabels(settings, prior_skills={"a": 0.5}).expand(None)
    with pytest.raises(InvalidSettingError, match="A stream answers by pgd; --method majority is for batches"):
        StreamSettings("in", ("out",), "control", "rejects", aggregate=settings)


def test_too_many_workers_and_classes_are_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(confusion_model, "MOST_CELLS", 80)
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    done = run_command("aggregate", labels, "--output", tmp_path / "run", "--method", "dawid-skene")
    assert done.code == 1
    assert "The confusion matrices of 9 workers with 3 classes have 81 cells" in done.err
    assert "--method dawid-skene takes at most 80. Take --method pgd, or fewer classes." in done.err
    assert done.err.count("\n") == 1
    monkeypatch.undo()
    confusion_model.check_size(200_000, 2)


def totals(place, cells, whole):
    return WorkerTotals(np.array(place), np.array(cells, float), np.array(whole, float))


PARTS = [totals([0, 2], [[1, 0.5], [2, 0]], [3, 1]), totals([1], [[4, 4]], [1, 0]), totals([2], [[0.25, 1]], [0, 7])]


def test_worker_totals_combine_freely():
    total = WorkerTotals.from_bytes(assert_combines_freely(WorkerTotalsCombineFn(), [one.to_bytes() for one in PARTS]))
    assert total.place.tolist() == [0, 1, 2]
    assert total.cells.tolist() == [[1, 0.5], [4, 4], [2.25, 1]]
    assert total.whole.tolist() == [4, 8]


def test_worker_totals_combine_freely_by_reference(tmp_path):
    spill = Spill(str(tmp_path))
    tokens = spill.put(*(one.to_bytes() for one in PARTS))
    found = assert_combines_freely(WorkerTotalsCombineFn(spill), tokens, lambda token: bytes(spill.get(token)))
    assert found == WorkerTotals.sum(PARTS).to_bytes()
