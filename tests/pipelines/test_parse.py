"""Rows of anyone's pipeline are parsed as records of files are, in blocks, window by window."""

import json
from collections import Counter, namedtuple
from datetime import datetime, timezone
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from pipelines.blocks import LabelBlock
from pipelines.counts import add_counts
from pipelines.parse import ParseRows, _ParseRowsFn
from pipelines.tables import from_bytes

Label = namedtuple("Label", "task worker label submitted_at_us", defaults=(None,))


def labels_of(block):
    workers, classes = block.workers.to_pylist(), block.classes.to_pylist()
    codes = zip(block.task.to_pylist(), block.worker, block.label, strict=True)
    return [(task, workers[worker], classes[label]) for task, worker, label in codes]


KEPT = {}


def keep(data, tag):
    KEPT[tag].append(data)


def parse(rows, **settings):
    """(labels, rejects, counts, times) of some rows."""
    KEPT.update(blocks=[], rejects=[], counts=[])
    with TestPipeline("FnApiRunner") as pipeline:
        parsed = pipeline | beam.Create(rows, reshuffle=False) | ParseRows(**settings)
        for tag in KEPT:
            _ = parsed[tag] | f"Keep{tag}" >> beam.Map(keep, tag)
    read = [LabelBlock.from_bytes(data) for data in KEPT["blocks"]]
    labels = [label for block in read for label in labels_of(block)]
    times = [int(time) for block in read if block.time is not None for time in block.time]
    rows = [row for data in KEPT["rejects"] for row in from_bytes(data).to_pylist()]
    return labels, rows, Counter(json.loads(add_counts(KEPT["counts"]))), times


ROWS = [
    {"task": 1, "worker": "ann", "label": True},
    Label("t", "bob", 2.0),
    SimpleNamespace(task=b"b", worker=7, label="x"),
    beam.Row(task="r", worker="w", label=None),
    {"task": "no worker", "label": "x"},
    Label("\ud800", "w", "x"),
    SimpleNamespace(task="t"),
]


def test_mappings_named_tuples_and_objects_are_rows():
    labels, rejects, counts, times = parse(ROWS)
    assert sorted(labels) == [("1", "ann", "true"), ("b", "7", "x"), ("t", "bob", "2")]
    assert sorted(row["reason"] for row in rejects) == [
        "malformed-task", "missing-label", "missing-worker", "missing-worker",
    ]  # fmt: skip
    assert {(row["source"], row["position"]) for row in rejects} == {("", -1)}
    assert (counts["labels_read"], counts["labels_rejected"]) == (7, 4)
    assert times == []


def test_times_of_any_kind_are_compared():
    moment = datetime(2024, 1, 2, tzinfo=timezone.utc)
    rows = [
        {"task": "t", "worker": "w", "label": "x", "time": "2024-01-02T00:00:00Z"},
        {"task": "t", "worker": "w", "label": "x", "time": moment},
        Label("t", "w", "x", int(moment.timestamp() * 1e6)),
        {"task": "t", "worker": "w", "label": "x", "submitted_at_us": 5, "time": moment},
    ]
    times = parse(rows)[3]
    assert len(set(times)) == 2
    assert sorted(times)[1:] == [max(times)] * 3
    _, rejects, _, _ = parse([{"task": "t", "worker": "w", "label": "x", "time": "soon"}])
    assert [row["reason"] for row in rejects] == ["malformed-time"]


def test_gold_has_no_worker_and_classes_are_kept():
    rows = [{"task": "t", "label": "x"}, {"task": "u", "label": "z"}]
    labels, rejects, counts, _ = parse(rows, classes=("x", "y"), role="gold")
    assert labels == [("t", "", "x")]
    assert [row["reason"] for row in rejects] == ["label-not-in-classes"]
    assert (counts["gold_read"], counts["gold_rejected"]) == (2, 1)


@pytest.mark.parametrize("at_most", [1, 3, 100])
def test_rows_are_gathered_into_blocks_and_none_is_lost(monkeypatch, at_most):
    monkeypatch.setattr(_ParseRowsFn, "ROWS", at_most)
    rows = [{"task": f"t{number}", "worker": "w", "label": "x"} for number in range(10)]
    labels, _, counts, _ = parse(rows)
    assert sorted(labels) == sorted((row["task"], "w", "x") for row in rows)
    assert counts["labels_read"] == 10


def test_blocks_do_not_mix_windows():
    rows = [TimestampedValue({"task": f"t{second // 10}", "worker": "w", "label": "x"}, second) for second in range(30)]

    def of_one_window(blocks):
        found = [set(LabelBlock.from_bytes(data).task.to_pylist()) for data in blocks]
        assert sorted(map(sorted, found)) == [["t0"], ["t1"], ["t2"]]

    with TestPipeline("FnApiRunner") as pipeline:
        windowed = pipeline | beam.Create(rows, reshuffle=False) | beam.Map(lambda row: row)
        parsed = windowed | beam.WindowInto(FixedWindows(10)) | ParseRows()
        assert_that(parsed["blocks"], of_one_window)
