"""Reading: parts of files in; blocks, rejects and counts out, each record once."""

import json

import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, is_empty
from source_files import ROWS, WRITERS, csv_bytes, write

from pipelines.blocks import LabelBlock
from pipelines.counts import add_counts
from pipelines.inputs import plan_inputs
from pipelines.read import ReadLabels, pack_part, unpack_part
from pipelines.settings import BatchSettings
from pipelines.sources import FilePart
from pipelines.tables import from_bytes


def labels_of(data):
    block = LabelBlock.from_bytes(data)
    workers, classes = block.workers.to_pylist(), block.classes.to_pylist()
    codes = zip(block.task.to_pylist(), block.worker, block.label, strict=True)
    return [(block.source, task, workers[worker], classes[label]) for task, worker, label in codes]


def equal(expected, convert):
    def check(found):
        converted = sorted(row for one in found for row in convert(one))
        assert converted == sorted(expected), converted[:5]

    return check


def counts_are(**expected):
    def check(found):
        counts = json.loads(add_counts(found))
        assert {name: counts[name] for name in expected} == expected, counts

    return check


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("spread", [False, True])
def test_files_of_all_formats_are_read_each_record_once(tmp_path, small, threads, spread):
    paths = [str(write(tmp_path, name, pack(ROWS))) for name, pack in WRITERS.items()]
    parts = plan_inputs(BatchSettings(tuple(paths), "out")).parts
    with TestPipeline("FnApiRunner") as pipeline:
        read = pipeline | ReadLabels(parts, threads=threads, spread=spread)
        expected = [(source, *row) for source in range(len(paths)) for row in ROWS]
        assert_that(read["blocks"], equal(expected, labels_of), "Blocks")
        assert_that(read["rejects"], is_empty(), "Rejects")
        assert_that(read["counts"], counts_are(labels_read=len(expected), labels_rejected=0), "Counts")


def test_rejects_tell_the_file_and_the_position_and_the_rest_goes_on(tmp_path):
    labels = write(tmp_path, "labels.csv", csv_bytes([*ROWS[:2], ("", "w", "x"), ("t", "w", "z")]) + b"one,two\n")
    gold = write(tmp_path, "gold.csv", b"task,label\nt,\n")
    parts = plan_inputs(BatchSettings((str(labels),), "out", gold=(str(gold),))).parts

    def rows(named):
        _, table = named
        return [(row["source"], row["position"], row["reason"]) for row in from_bytes(table).to_pylist()]

    expected = [
        (str(labels), 2, "missing-task"),
        (str(labels), 3, "label-not-in-classes"),
        (str(labels), 4, "malformed-record"),
        (str(gold), 0, "missing-label"),
    ]
    with TestPipeline("FnApiRunner") as pipeline:
        read = pipeline | ReadLabels(parts, tuple({label for *_, label in ROWS} | {"x"}))
        assert_that(read["rejects"], equal(expected, rows), "Rejects")
        assert_that(
            read["counts"], counts_are(labels_read=5, labels_rejected=3, gold_read=1, gold_rejected=1), "Counts"
        )


@pytest.mark.parametrize("groups", [None, (2, 5)])
def test_a_part_travels_as_bytes(groups):
    part = FilePart("a/ü.parquet", 3, "gold", "parquet", (("task", "the task"), ("label", "l")), 17, groups)
    assert unpack_part(pack_part(part)) == part


def test_a_file_that_vanishes_before_it_is_read_fails_the_run(tmp_path):
    labels = write(tmp_path, "labels.csv", csv_bytes(ROWS))
    parts = plan_inputs(BatchSettings((str(labels),), "out")).parts
    labels.unlink()
    with pytest.raises(RuntimeError, match="FileNotFoundError"), TestPipeline("FnApiRunner") as pipeline:
        _ = pipeline | ReadLabels(parts)
