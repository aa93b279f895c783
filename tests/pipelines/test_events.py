"""Events become label blocks with times in microseconds; withdrawals are marked, the rest is rejected with a reason."""

import json

import numpy as np
import pyarrow as pa
import pytest

from pipelines.blocks import LabelBlock
from pipelines.errors import InvalidSettingError
from pipelines.events import EventSettings, parse_events
from pipelines.records import Origin
from pipelines.sources import BadRecord, Chunk
from pipelines.tables import from_bytes
from pipelines.texts import MAX_BYTES, column_of

LABELS = Origin(3, "kafka://host:9092/labels/3")
NOON = 1_704_110_400_000_000  # 2024-01-01T12:00:00Z
NAMES = ("task", "worker", "label", "time", "op")


def parsed(rows, arrived_us=NOON, first=0, positions=None, bad=(), **settings):
    columns = {name: column_of(values) for name, values in zip(NAMES, zip(*rows, strict=True), strict=False)}
    arrived = np.broadcast_to(np.asarray(arrived_us, np.int64), len(rows))
    return parse_events(Chunk(first, columns, bad, positions), LABELS, arrived, EventSettings(**settings))


def rejects_of(found):
    return [] if found.rejects is None else from_bytes(found.rejects).to_pylist()


def reasons_of(found):
    return [reject["reason"] for reject in rejects_of(found)]


def test_an_event_has_a_time_a_place_and_a_partition():
    rows = [("t1", "ann", "x", NOON + 1, None), ("t2", "bob", "y", NOON + 2, "label")]
    found = parsed(rows, arrived_us=[NOON + 9, NOON + 7], first=100, positions=[100, 102])
    block = found.block
    assert (block.source, block.path, block.sequence) == (3, "kafka://host:9092/labels/3", 100)
    assert (block.offset.tolist(), block.offset.dtype) == ([0, 2], np.uint32)
    assert (block.time.tolist(), block.arrived_us, block.deleted) == ([NOON + 1, NOON + 2], NOON + 7, None)
    assert (found.rejects, found.counts) == (None, {"events_read": 2, "events_rejected": 0})
    assert LabelBlock.from_bytes(block.to_bytes()).offset.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("time", "unit"),
    [
        (NOON, "us"),
        (str(NOON), "us"),
        (NOON // 1000, "ms"),
        (NOON / 1e6, "s"),
        ("2024-01-01T12:00:00Z", "s"),
        ("2024-01-01T14:00:00+02:00", "us"),
        ("2024-01-01 12:00", "ms"),
        (None, "us"),
        ("", "s"),
    ],
)
def test_times_are_microseconds_whatever_they_were_and_a_missing_one_is_the_arrival(time, unit):
    assert parsed([("t", "w", "x", time)], time_unit=unit).block.time.tolist() == [NOON]


def test_fractions_of_a_second_count():
    assert parsed([("t", "w", "x", 1.25), ("t", "w", "x", "0.000001")], time_unit="s").block.time.tolist() == [
        1_250_000,
        1,
    ]


def test_numbers_and_timestamps_of_arrow_are_times_too():
    columns = {name: pa.array(["a"]) for name in ("task", "worker", "label")}
    for time in (pa.array([NOON // 1000], pa.timestamp("ms")), pa.array([NOON // 1_000_000], pa.timestamp("s", "UTC"))):
        found = parse_events(Chunk(0, {**columns, "time": time}), LABELS, np.array([NOON]), EventSettings())
        assert found.block.time.tolist() == [NOON]


def test_events_without_any_time_have_their_own_arrivals():
    found = parsed([("t", "w", "x"), ("u", "w", "x")], arrived_us=[5, 3])
    assert (found.block.time.tolist(), found.block.arrived_us) == ([5, 3], 3)


def test_a_time_too_far_after_the_arrival_is_rejected():
    rows = [("t", "w", "x", NOON + ahead) for ahead in (0, 10, 11)] + [("t", "w", "x", None)]
    found = parsed(rows, max_ahead_us=10)
    assert found.block.offset.tolist() == [0, 1, 3]
    assert reasons_of(found) == ["time-in-the-future"]
    assert found.counts == {"events_read": 4, "events_rejected": 1, "events_rejected.time-in-the-future": 1}


@pytest.mark.parametrize("label", ["x", None, "", float("nan"), "not a class", b"\xff", "x" * (MAX_BYTES + 1)])
def test_a_withdrawal_needs_no_label(label):
    found = parsed([("t", "w", "x", NOON, "label"), ("t", "w", label, NOON, "delete")], classes=("x", "y"))
    assert found.block.deleted.tolist() == [False, True]
    assert found.rejects is None


def test_a_block_knows_only_workers_who_act_and_classes_that_are_chosen():
    rows = [("t", "ann", "x", None, None), ("t", "bob", "z", None, None), ("t", "cat", "y", None, "delete")]
    block = parsed([*rows, ("u", "ann", "w", None, None)], classes=("w", "x", "y")).block
    assert (block.workers.to_pylist(), block.classes.to_pylist()) == (["ann", "cat"], ["x", "w"])
    assert [block.workers[code].as_py() for code in block.worker] == ["ann", "cat", "ann"]
    labels = [block.classes[code].as_py() for code in block.label]
    assert [label for label, deleted in zip(labels, block.deleted, strict=True) if not deleted] == ["x", "w"]


def test_withdrawals_alone_make_a_block_without_classes():
    block = parsed([("t", "w", None, NOON, "delete")]).block
    assert block.classes.to_pylist() == LabelBlock.from_bytes(block.to_bytes()).classes.to_pylist() == []
    assert (block.task.to_pylist(), block.workers.to_pylist(), block.deleted.tolist()) == (["t"], ["w"], [True])


@pytest.mark.parametrize("op", ["Delete", "remove", 0, True, " ", b"\xff", "x" * (MAX_BYTES + 1)])
def test_an_unknown_op_is_rejected(op):
    found = parsed([("t", "w", "x", NOON, op), ("t", "w", "x", NOON, None), ("t", "w", "x", NOON, "")])
    assert (found.block.offset.tolist(), found.block.deleted) == ([1, 2], None)
    assert reasons_of(found) == ["unknown-op"]


BAD = [
    ((None, "w", "x"), "missing-task"),
    (("t", "", "x"), "missing-worker"),
    (("t", "w", None), "missing-label"),
    (("t" * (MAX_BYTES + 1), "w", "x"), "too-long-task"),
    (("t", "é" * MAX_BYTES, "x"), "too-long-worker"),
    (("t", "w", "x" * (MAX_BYTES + 1)), "too-long-label"),
    ((b"\xff", "w", "x"), "malformed-task"),
    (("t", b"\xff", "x"), "malformed-worker"),
    (("t", "w", b"\xff"), "malformed-label"),
    (("t", "w", "z"), "label-not-in-classes"),
    (("t", "w", "x", "soon"), "malformed-time"),
    (("t", "w", "x", 1 << 62), "malformed-time"),
    (("t", "w", "x", NOON * 2), "time-in-the-future"),
    (("t", "w", "x", None, "undo"), "unknown-op"),
    (("t", None, "x", None, "delete"), "missing-worker"),
    (("t", "w", "x", "soon", "undo"), "malformed-time"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_bad_event_is_rejected_with_its_reason_and_place_and_the_others_stay(row, reason):
    good, padded = ("t", "w", "x", None, None), (*row, *[None] * (5 - len(row)))
    found = parsed([good, padded, good], first=50, classes=("x", "y"))
    assert found.block.offset.tolist() == [0, 2]
    (reject,) = rejects_of(found)
    assert (reject["reason"], reject["source"], reject["position"]) == (reason, LABELS.path, 51)
    assert json.loads(reject["record"]).keys() == set(NAMES)
    assert found.counts == {"events_read": 3, "events_rejected": 1, f"events_rejected.{reason}": 1}
    alone = parsed([padded], classes=("x", "y"))
    assert (alone.block, reasons_of(alone)) == (None, [reason])


def test_messages_that_could_not_be_read_are_counted_as_events():
    bad = (BadRecord(7, "?", "malformed-message", "No object."),)
    found = parse_events(Chunk(7, {}, bad), LABELS, np.empty(0, np.int64), EventSettings())
    assert (found.block, rejects_of(found)[0]["position"]) == (None, 7)
    assert found.counts == {"events_read": 1, "events_rejected": 1, "events_rejected.malformed-message": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"format": "xml"},
        {"time_unit": "h"},
        {"max_ahead_us": -1},
        {"columns": (("tasks", "t"),)},
        {"columns": (("task", ""),)},
        {"columns": (("task", "a"), ("task", "b"))},
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(InvalidSettingError, match="--"):
        EventSettings(**settings)
