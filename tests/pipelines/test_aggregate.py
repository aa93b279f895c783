"""AggregateLabels in anyone's pipeline: rows in, rows out, in any windows."""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.typehints.decorators import TypeCheckError
from oracle import aggregated

import schemas
from crowdcore.simulate import simulate_crowd
from pipelines.aggregate import AggregateLabels
from pipelines.settings import AggregateSettings

RUNNER = "FnApiRunner"


def crowd_rows(seed, prefix=""):
    crowd = simulate_crowd(n_tasks=120, n_workers=9, labels_per_task=3, rng=np.random.default_rng(seed))
    codes = zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    return [(f"{prefix}t{t}", f"w{w}", "yes" if y else "no") for t, w, y in codes]


def answers(rows):
    """What crowdcore says of (task, worker, label) rows: {(task, label, score)}."""
    scores, _ = aggregated([(*row, 0) for row in rows])
    return [(task, label, score) for task, (label, _, _, score) in scores.items()]


def as_mapping(row):
    return dict(zip(("task", "worker", "label"), row, strict=True))


def as_label(row):
    return schemas.Label(*row)


def as_beam_row(row):
    return beam.Row(task=row[0], worker=row[1], label=row[2])


@pytest.mark.parametrize("make", [as_mapping, as_label, as_beam_row])
def test_rows_of_any_kind_give_what_crowdcore_gives(make):
    rows = crowd_rows(1)
    with TestPipeline(RUNNER) as pipeline:
        found = pipeline | beam.Create([make(row) for row in rows]) | AggregateLabels()
        scores = found["scores"] | beam.Map(lambda row: (row.task, row.label, row.score))
        assert_that(scores, equal_to(answers(rows)))


def test_every_window_is_a_crowd_of_its_own():
    hours = {0: crowd_rows(1, "a"), 1: crowd_rows(2, "b"), 2: crowd_rows(3, "c")}
    stamped = [TimestampedValue(as_mapping(row), 3600 * hour + 5) for hour, rows in hours.items() for row in rows]
    with TestPipeline(RUNNER) as pipeline:
        labels = pipeline | beam.Create(stamped) | beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(3600))
        found = labels | AggregateLabels(AggregateSettings(shards=3))
        scores = found["scores"] | beam.Map(lambda row: (row.task, row.label, row.score))
        assert_that(scores, equal_to([one for rows in hours.values() for one in answers(rows)]), label="Scores")
        counts = found["counts"] | beam.Map(lambda counts: (counts["labels_read"], counts["tasks"], counts["scores"]))
        assert_that(counts, equal_to([(360, 120, 120)] * 3), label="Counts")
        skills = found["skills"] | beam.Map(lambda row: row.worker) | beam.combiners.Count.PerElement()
        assert_that(skills, equal_to([(f"w{k}", 1) for k in range(9)] * 3), label="Skills")


def test_a_stream_in_windows_gives_each_window_when_it_closes():
    early, late = crowd_rows(4, "a"), crowd_rows(5, "b")
    stream = TestStream()
    for hour, rows in enumerate((early, late)):
        stream = stream.advance_watermark_to(3600 * hour)
        stream = stream.add_elements([TimestampedValue(as_mapping(row), 3600 * hour + 1) for row in rows])
    with TestPipeline("BundleBasedDirectRunner", options=_streaming()) as pipeline:
        labels = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(3600))
        found = labels | AggregateLabels(AggregateSettings(shards=2))
        scores = found["scores"] | beam.Map(lambda row: (row.task, row.label, row.score))
        assert_that(scores, equal_to([*answers(early), *answers(late)]))


def _streaming():
    return beam.options.pipeline_options.PipelineOptions(["--streaming"])


def test_gold_rows_anchor_the_answers():
    """Ann, whom gold knows to be wrong more often than guessing, is believed to mean the opposite."""
    rows = [("t1", "ann", "x"), ("t1", "bob", "y"), ("t2", "ann", "x")]
    with TestPipeline(RUNNER) as pipeline:
        gold = pipeline | "Gold" >> beam.Create([{"task": "t1", "label": "y"}, {"task": "t9", "label": "x"}])
        found = pipeline | beam.Create([as_mapping(row) for row in rows]) | AggregateLabels(gold=gold)
        scores = found["scores"] | beam.Map(lambda row: (row.task, row.label, row.status, row.n_labels))
        assert_that(scores, equal_to([("t1", "y", "gold", 2), ("t2", "y", "single-label", 1)]), label="Scores")
        counts = found["counts"] | beam.Map(lambda counts: (counts["gold_used"], counts["gold_unmatched"]))
        assert_that(counts, equal_to([(2, 1)]), label="Counts")


def test_bad_rows_leave_by_the_rejects():
    rows = [
        {"task": "t", "worker": "ann", "label": 1},
        {"task": "t", "worker": None, "label": 1},
        {"worker": "bob", "label": 0},
        {"task": "t", "worker": "bob", "label": float("nan")},
    ]
    with TestPipeline(RUNNER) as pipeline:
        found = pipeline | beam.Create(rows) | AggregateLabels()
        reasons = found["rejects"] | beam.Map(lambda row: row.reason)
        assert_that(reasons, equal_to(["missing-worker", "missing-task", "missing-label"]), label="Rejects")
        counts = found["counts"] | beam.Map(lambda counts: (counts["labels_read"], counts["labels_rejected"]))
        assert_that(counts, equal_to([(4, 3)]), label="Counts")


def test_settings_reach_every_stage():
    rows = [("t1", "ann", "x"), ("t1", "bob", "x"), ("t1", "cem", "z"), ("t2", "ann", "x"), ("t2", "ann", "y")]
    settings = AggregateSettings(classes=("x", "y"), repeats="first", min_labels=2, probabilities=True)
    with TestPipeline(RUNNER) as pipeline:
        found = pipeline | beam.Create([as_mapping(row) for row in rows]) | AggregateLabels(settings)
        scores = found["scores"] | beam.Map(
            lambda row: (row.task, row.label, row.status, row.n_labels, sorted(row.probabilities))
        )
        expected = [("t1", "x", "unidentified", 2, ["x", "y"]), ("t2", "x", "too-few-labels", 2, ["x", "y"])]
        assert_that(scores, equal_to(expected), label="Scores")
        assert_that(found["rejects"] | beam.Map(lambda row: row.reason), equal_to(["label-not-in-classes"]))


def test_a_collection_of_the_wrong_type_is_refused_before_running():
    from pipelines.shard import ShardByTask

    with pytest.raises(TypeCheckError):
        _ = beam.Pipeline(RUNNER) | beam.Create([1, 2]) | ShardByTask(2)
