"""Records become label blocks or rejects: each is counted once, and a reject says what was given, where and why."""

import json
import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from event_reasons import EVENT_REASONS
from hypothesis import given
from hypothesis import strategies as st

from pipelines.blocks import GOLD, NO_TIME
from pipelines.records import REASONS, Origin, parse_chunk
from pipelines.sources import BadRecord, Chunk
from pipelines.tables import from_bytes
from pipelines.texts import MAX_BYTES, column_of

FILE = Origin(3, "labels.csv")
PIPELINES = Path(__file__).parents[2] / "pipelines"


def chunk_of(rows, names=("task", "worker", "label"), first=0, **more):
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return Chunk(first, {name: column_of(column) for name, column in zip(names, columns, strict=True)}, **more)


def labels_of(block):
    workers, classes = block.workers.to_pylist(), block.classes.to_pylist()
    codes = zip(block.task.to_pylist(), block.worker, block.label, strict=True)
    return [(task, workers[worker], classes[label]) for task, worker, label in codes]


def rejects_of(parsed):
    return [] if parsed.rejects is None else from_bytes(parsed.rejects).to_pylist()


def test_good_records_become_a_block_and_nothing_else():
    rows = [("t1", "ann", "x"), ("t2", "bob", "y"), ("t1", "bob", "x")]
    parsed = parse_chunk(chunk_of(rows, first=7), FILE)
    assert labels_of(parsed.block) == rows
    assert (parsed.block.source, parsed.block.sequence, parsed.block.path) == (3, 7, "labels.csv")
    assert parsed.block.time is None
    assert parsed.rejects is None
    assert parsed.counts == {"labels_read": 3, "labels_rejected": 0}


BAD = [
    ((None, "w", "x"), "missing-task"),
    (("t", "", "x"), "missing-worker"),
    (("t", "w", float("nan")), "missing-label"),
    (("t" * (MAX_BYTES + 1), "w", "x"), "too-long-task"),
    (("t", "é" * MAX_BYTES, "x"), "too-long-worker"),
    (("t", "w", "x" * (MAX_BYTES + 1)), "too-long-label"),
    ((b"\xff", "w", "x"), "malformed-task"),
    (("t", "\ud800", "x"), "malformed-worker"),
    (("t", "w", b"\xc3"), "malformed-label"),
    (("t", "w", "z"), "label-not-in-classes"),
    ((None, None, None), "missing-task"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_bad_record_is_rejected_with_its_reason_and_place_and_the_others_stay(row, reason):
    good = [("t1", "ann", "x"), ("t2", "bob", "y")]
    parsed = parse_chunk(chunk_of([good[0], row, good[1]], first=10), FILE, ("x", "y"))
    assert labels_of(parsed.block) == good
    assert "" not in parsed.block.workers.to_pylist()
    (reject,) = rejects_of(parsed)
    assert (reject["reason"], reject["source"], reject["position"]) == (reason, "labels.csv", 11)
    assert reject["detail"].endswith(".")
    assert json.loads(reject["record"]).keys() == {"task", "worker", "label"}
    assert parsed.counts == {"labels_read": 3, "labels_rejected": 1, f"labels_rejected.{reason}": 1}


def test_all_reasons_are_told_by_their_first_wrong_field_and_counted():
    parsed = parse_chunk(chunk_of([row for row, _ in BAD]), FILE, ("x", "y"))
    assert parsed.block is None
    assert [reject["reason"] for reject in rejects_of(parsed)] == [reason for _, reason in BAD]
    assert [reject["position"] for reject in rejects_of(parsed)] == list(range(len(BAD)))
    assert parsed.counts["labels_rejected.missing-task"] == 2
    assert sum(count for name, count in parsed.counts.items() if "." in name) == parsed.counts["labels_rejected"]


def test_a_reject_shows_the_record_with_the_values_it_had():
    columns = {
        "task": pa.array([1, 2]),
        "worker": pa.array(["ann", 'b"\n'], pa.string_view()),
        "label": pa.array([float("nan"), float("inf")]),
        "time": pa.array([datetime(2024, 1, 2), None], pa.timestamp("ns")),
    }
    parsed = parse_chunk(Chunk(0, columns), FILE, ("x",))
    assert [json.loads(reject["record"]) for reject in rejects_of(parsed)] == [
        {"task": 1, "worker": "ann", "label": "nan", "time": "2024-01-02 00:00:00"},
        {"task": 2, "worker": 'b"\n', "label": "inf", "time": None},
    ]
    (reject,) = rejects_of(parse_chunk(chunk_of([(b"a\xff", "w", "x")]), FILE))
    assert json.loads(reject["record"])["task"] == "a\ufffd"


def test_records_that_could_not_be_read_are_rejected_and_counted_too():
    bad = (BadRecord(1, "t,w", "malformed-record", "Too few."), BadRecord(3, "", "unreadable-rest", "Cut."))
    parsed = parse_chunk(chunk_of([("t", "w", "x"), ("", "w", "x")], bad=bad, positions=[0, 2]), FILE)
    assert sorted((reject["position"], reject["reason"]) for reject in rejects_of(parsed)) == [
        (1, "malformed-record"),
        (2, "missing-task"),
        (3, "unreadable-rest"),
    ]
    assert (parsed.counts["labels_read"], parsed.counts["labels_rejected"]) == (4, 3)
    assert parse_chunk(Chunk(0, {}, bad), FILE).counts["labels_read"] == 2


def test_rows_that_have_no_order_have_no_position():
    (reject,) = rejects_of(parse_chunk(chunk_of([("", "w", "x")]), Origin()))
    assert (reject["source"], reject["position"]) == ("", -1)


def test_gold_is_the_answers_of_one_worker_and_counted_apart():
    parsed = parse_chunk(chunk_of([("t", "x"), ("u", None)], ("task", "label")), Origin(0, "gold.csv", "gold"))
    assert labels_of(parsed.block) == [("t", GOLD, "x")]
    assert parsed.counts == {"gold_read": 2, "gold_rejected": 1, "gold_rejected.missing-label": 1}


def test_times_follow_their_labels_and_a_malformed_one_rejects_its_label():
    names = ("task", "worker", "label", "time")
    rows = [("a", "w", "x", "20"), ("b", "w", "x", "soon"), ("c", "w", "x", None), ("d", "w", "x", "10")]
    parsed = parse_chunk(chunk_of(rows, names), FILE)
    assert parsed.block.task.to_pylist() == ["a", "c", "d"]
    assert np.argsort(parsed.block.time).tolist() == [1, 2, 0]
    assert parsed.block.time[1] == NO_TIME
    (reject,) = rejects_of(parsed)
    assert (reject["reason"], reject["position"], json.loads(reject["record"])["time"]) == ("malformed-time", 1, "soon")
    assert parse_chunk(chunk_of([("a", "w", "x", None)], names), FILE).block.time is None


FIELD = st.sampled_from(["a", "b", "", None, float("nan"), b"\xff", "x" * (MAX_BYTES + 1), 1, True])


@given(st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=12), st.booleans())
def test_every_record_is_either_in_the_block_or_rejected(rows, known):
    parsed = parse_chunk(chunk_of(rows), FILE, ("a", "b") if known else ())
    good = 0 if parsed.block is None else len(parsed.block)
    rejects = rejects_of(parsed)
    assert parsed.counts["labels_read"] == len(rows) == good + len(rejects)
    assert parsed.counts["labels_rejected"] == len(rejects)
    places = [place for place, row in enumerate(rows) if not all(_fine(value) for value in row)]
    if not known:
        assert [reject["position"] for reject in rejects] == places
    assert {reject["reason"] for reject in rejects} <= REASONS


def _fine(value):
    return value in ("a", "b", 1, True)


def test_every_reason_in_the_code_is_among_the_reasons():
    written = "\n".join(path.read_text("utf-8") for path in PIPELINES.rglob("*.py"))
    found = set(re.findall(r'"((?:missing|malformed|too-long|unreadable|contradicting|label-not)-[a-z-]+)"', written))
    assert found <= EVENT_REASONS
    assert {"contradicting-repeat", "unreadable-rest", "unreadable-block", "malformed-record"} <= found


def test_a_withdrawal_needs_no_label_and_an_unknown_op_is_rejected():
    names = ("task", "worker", "label", "op")
    rows = [("t", "a", "x", ""), ("t", "b", None, "delete"), ("t", "c", "?", "delete"), ("t", "d", "x", "undo")]
    parsed = parse_chunk(chunk_of([*rows, ("t", "e", "y", "label"), ("t", "f", "", None)], names), FILE, ("x", "y"))
    assert parsed.block.deleted.tolist() == [False, True, True, False]
    assert (parsed.block.workers.to_pylist(), parsed.block.classes.to_pylist()) == (["a", "b", "c", "e"], ["x", "y"])
    assert [(reject["reason"], reject["position"]) for reject in rejects_of(parsed)] == [
        ("unknown-op", 3),
        ("missing-label", 5),
    ]
    only_labels = parse_chunk(chunk_of([("t", "a", "x", "label"), ("t", "b", "y", None)], names), FILE)
    assert only_labels.block.deleted is None


def test_gold_cannot_be_withdrawn():
    chunk = chunk_of([("t", "x", "delete")], ("task", "label", "op"))
    assert parse_chunk(chunk, Origin(0, "gold.csv", "gold")).block.deleted is None
