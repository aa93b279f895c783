"""Labels in windows: each window is a crowd of its own, has one result, and waits for late labels."""

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from oracle import aggregated

from crowdcore.simulate import simulate_crowd
from pipelines.aggregate import AggregateLabels
from pipelines.errors import InvalidSettingError
from pipelines.settings import AggregateSettings
from pipelines.windows import WindowLabels

HOUR = 3600
HOURLY = WindowLabels(size_s=HOUR, wait_s=600)
CROWD = simulate_crowd(n_tasks=60, n_workers=9, labels_per_task=4, rng=np.random.default_rng(3))
ROWS = [
    (f"t{task}", f"w{worker}", "yes" if label else "no")
    for task, worker, label in zip(CROWD.task.tolist(), CROWD.worker.tolist(), CROWD.label.tolist(), strict=True)
]
EARLY, LATE = ROWS[:200], ROWS[200:]


def stamped(rows, at):
    return [TimestampedValue(dict(zip(("task", "worker", "label"), row, strict=True)), at) for row in rows]


def with_hour(row, window=beam.DoFn.WindowParam):
    begin, end = HOURLY.interval_of(window)
    return int(begin) // HOUR, int(end) // HOUR, row.task, row.label, row.score, row.n_workers


def with_hour_and_status(row, window=beam.DoFn.WindowParam):
    return int(HOURLY.interval_of(window)[0]) // HOUR, row.status == "gold"


def expected(hour, rows):
    scores, _ = aggregated([(*row, 0) for row in rows])
    n_workers = {task: len({w for t, w, _ in rows if t == task}) for task in scores}
    return [(hour, hour + 1, task, label, score, n_workers[task]) for task, (label, _, _, score) in scores.items()]


def streaming():
    options = PipelineOptions()
    options.view_as(StandardOptions).streaming = True
    return options


def assert_answers(stream, wanted, settings=None):
    with TestPipeline("BundleBasedDirectRunner", options=streaming()) as pipeline:
        found = pipeline | stream | HOURLY | AggregateLabels(settings or AggregateSettings(shards=3))
        assert_that(found["scores"] | beam.Map(with_hour), equal_to(wanted))


def test_a_late_label_counts_while_its_window_waits():
    """The hour ends at 3600; its late labels come when the watermark is there already, before 4200."""
    stream = (
        TestStream()
        .add_elements(stamped(EARLY, 100))
        .advance_watermark_to(HOUR + 1)
        .add_elements(stamped(LATE, 200))
        .add_elements(stamped(EARLY, HOUR + 5))
        .advance_watermark_to_infinity()
    )
    assert_answers(stream, expected(0, EARLY + LATE) + expected(1, EARLY))
    assert expected(0, EARLY + LATE) != expected(0, EARLY)


def test_a_label_that_comes_after_the_wait_does_not_count():
    stream = (
        TestStream()
        .add_elements(stamped(EARLY, 100))
        .advance_watermark_to(HOUR + 601)
        .add_elements(stamped(LATE, 200))
        .advance_watermark_to_infinity()
    )
    assert_answers(stream, expected(0, EARLY))


def test_a_window_has_one_result_for_many_late_labels():
    stream = TestStream().add_elements(stamped(EARLY, 100)).advance_watermark_to(HOUR + 1)
    for number, row in enumerate(LATE):
        stream = stream.add_elements(stamped([row], 300)).advance_watermark_to(HOUR + 2 + number)
    assert_answers(stream.advance_watermark_to_infinity(), expected(0, EARLY + LATE))


@pytest.mark.parametrize(
    "windows",
    [
        beam.WindowInto(FixedWindows(HOUR), allowed_lateness=600),
        beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(5)), accumulation_mode=AccumulationMode.ACCUMULATING
        ),
    ],
)
def test_windows_with_several_results_are_refused(windows):
    """Their later panes would be counted beside the earlier ones, or without them."""
    rows = beam.Pipeline("FnApiRunner") | beam.Create([]) | windows
    with pytest.raises(InvalidSettingError, match=r"windows that close once.*WindowLabels"):
        _ = rows | AggregateLabels()


def test_gold_in_other_windows_is_refused():
    pipeline = beam.Pipeline("FnApiRunner")
    gold = pipeline | "Gold" >> beam.Create([])
    rows = pipeline | beam.Create([]) | HOURLY
    with pytest.raises(InvalidSettingError, match=r"The gold answers are in GlobalWindows, the labels in FixedWindows"):
        _ = rows | AggregateLabels(gold=gold)


def test_gold_counts_in_its_own_window():
    answers = [TimestampedValue({"task": f"t{k}", "label": "no"}, 50) for k in range(60)]
    with TestPipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(stamped(EARLY, 100) + stamped(ROWS, HOUR + 5)) | "Stamp" >> beam.Map(_same)
        gold = pipeline | "Gold" >> beam.Create(answers) | "StampGold" >> beam.Map(_same)
        found = (rows | HOURLY) | AggregateLabels(gold=gold | "GoldWindows" >> WindowLabels(HOUR, 600))
        hours = found["scores"] | beam.Map(with_hour_and_status) | beam.combiners.Count.PerElement()
        assert_that(hours, equal_to([((0, True), len({row[0] for row in EARLY})), ((1, False), 60)]))


def _same(row):
    return row


@pytest.mark.parametrize("wrong", [{"size_s": 0}, {"size_s": -1}, {"size_s": 60, "wait_s": -1}])
def test_windows_of_no_length_are_refused(wrong):
    with pytest.raises(InvalidSettingError, match="seconds"):
        WindowLabels(**wrong)


@pytest.mark.parametrize("wait", [0, 600, HOUR, 5 * HOUR + 7])
def test_hours_are_hours_whatever_the_wait(wait):
    windows = WindowLabels(HOUR, wait)
    with TestPipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create([TimestampedValue(at, at) for at in (0, 3599, 3600, 7200)]) | beam.Map(_same)
        hours = rows | windows | beam.Map(lambda at, w=beam.DoFn.WindowParam: (at, int(windows.interval_of(w)[0])))
        assert_that(hours, equal_to([(0, 0), (3599, 0), (3600, 3600), (7200, 7200)]))
