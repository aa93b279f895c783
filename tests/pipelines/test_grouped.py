from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_blocks import block_of, rows_of

from pipelines.blocks import NO_TIME, UNORDERED, LabelBlock, joined, pruned
from pipelines.grouped import TaskShard, group_blocks, last_events


def kept(grouping):
    """{(task, worker): label} of a shard."""
    shard = TaskShard.from_bytes(grouping.shard.to_bytes())
    tasks, workers, classes = shard.task.to_pylist(), shard.workers.to_pylist(), shard.classes.to_pylist()
    codes = zip(shard.labels.task, shard.labels.worker, shard.labels.label, strict=True)
    return {(tasks[t], workers[w]): classes[y] for t, w, y in codes}


def test_the_later_source_position_wins_however_the_blocks_arrive():
    early = block_of([("t", "ann", "x"), ("t", "bob", "x")], source=0)
    late = block_of([("t", "ann", "y")], source=1)
    for blocks in ([early, late], [late, early]):
        grouping = group_blocks(0, blocks, "last")
        assert kept(grouping) == {("t", "ann"): "y", ("t", "bob"): "x"}
        assert grouping.counts == {"labels_used": 2, "labels_repeated": 1, "labels_rejected": 0, "tasks": 1}
        assert grouping.shard.n_received.tolist() == [3]
    assert kept(group_blocks(0, [late, early], "first"))["t", "ann"] == "x"


def test_time_goes_before_position_and_no_time_is_older_than_any():
    early = block_of([("t", "ann", "x")], source=0, times=[-5])
    late = block_of([("t", "ann", "y")], source=1)
    assert kept(group_blocks(0, [early, late], "last")) == {("t", "ann"): "x"}


def test_labels_without_order_are_decided_by_class():
    rows = [("t", "ann", "x"), ("t", "ann", "z"), ("t", "ann", "y")]
    for order in (rows, rows[::-1]):
        blocks = [block_of([row], source=-1) for row in order]
        assert kept(group_blocks(0, blocks, "last")) == {("t", "ann"): "z"}
        assert kept(group_blocks(0, blocks, "first")) == {("t", "ann"): "x"}


def test_contradictions_leave_all_of_them_out_and_say_where_they_were():
    block = block_of([("t", "ann", "x"), ("t", "ann", "y"), ("t", "bob", "x"), ("t", "bob", "x")])
    grouping = group_blocks(0, [block], "error")
    assert kept(grouping) == {("t", "bob"): "x"}
    assert {(one.task, one.worker, one.label, one.path) for one in grouping.contradictions} == {
        ("t", "ann", "x", "labels.csv"),
        ("t", "ann", "y", "labels.csv"),
    }
    assert grouping.counts["labels_rejected"] == 2
    assert grouping.counts["labels_rejected.contradicting-repeat"] == 2
    assert grouping.shard.n_received.tolist() == [2]


def test_gold_is_counted_on_its_own():
    labels = block_of([("t", "ann", "x"), ("u", "ann", "y")])
    gold = block_of([("t", "", "x"), ("t", "", "x"), ("v", "", "y")], source=1)
    grouping = group_blocks(3, [labels, gold], "last")
    assert grouping.counts == {
        "labels_used": 2, "labels_repeated": 0, "labels_rejected": 0, "tasks": 2,
        "gold_used": 2, "gold_repeated": 1, "gold_rejected": 0, "gold_unmatched": 1,
    }  # fmt: skip
    assert dict(zip(grouping.shard.task.to_pylist(), grouping.shard.n_received.tolist(), strict=True)) == {
        "t": 1, "u": 1, "v": 0,
    }  # fmt: skip


def test_a_shard_goes_through_a_frame_unchanged():
    blocks = [block_of([("t", "ann", "x"), ("ü", "bob", "y"), ("t", "ann", "x")])]
    grouping = group_blocks(9, [LabelBlock.from_bytes(one.to_bytes()) for one in blocks], "last")
    again = TaskShard.from_bytes(grouping.shard.to_bytes())
    assert again.number == 9
    assert again.task.to_pylist() == ["t", "ü"]
    assert again.n_received.tolist() == [2, 1]
    assert kept(grouping) == {("t", "ann"): "x", ("ü", "bob"): "y"}


def events_block(rows, **more):
    """A block of (task, worker, label or None) rows; None is a withdrawal."""
    block = block_of([(task, worker, label or "never") for task, worker, label in rows], **more)
    return pruned(replace(block, deleted=np.array([label is None for *_, label in rows])))


def test_withdrawals_and_what_they_withdrew_are_counted_on_their_own():
    early = events_block(
        [("t", "ann", "x"), ("t", "bob", "y"), ("u", "ann", "x"), ("u", "bob", "x"), ("u", "ann", "y")]
    )
    late = events_block([("t", "ann", None), ("u", "ann", None), ("u", "ann", "z"), ("v", "cat", None)], source=1)
    gold = block_of([("t", "", "x"), ("v", "", "x"), ("v", "", "x")], source=2)
    counts = {"labels_used": 3, "labels_repeated": 0, "labels_rejected": 0, "labels_withdrawn": 6, "tasks": 2}
    of_gold = {"gold_used": 2, "gold_repeated": 1, "gold_rejected": 0, "gold_unmatched": 1}
    for blocks, expected in (([early, late], counts), ([gold, late, early], counts | of_gold)):
        grouping = group_blocks(0, blocks, "last")
        labels = {pair: label for pair, label in kept(grouping).items() if pair[1]}
        assert labels == {("t", "bob"): "y", ("u", "ann"): "z", ("u", "bob"): "x"}
        assert grouping.counts == expected
        received = dict(zip(grouping.shard.task.to_pylist(), grouping.shard.n_received.tolist(), strict=True))
        assert received == {"t": 2, "u": 4, "v": 0}


@pytest.mark.parametrize(("repeats", "label"), [("last", "z"), ("first", "y"), ("error", None)])
def test_rules_for_repeats_choose_among_labels_after_the_last_withdrawal(repeats, label):
    rows = [("t", "ann", said) for said in ("x", None, "w", None, "y", "z")]
    grouping = group_blocks(0, [events_block(rows)], repeats)
    assert kept(grouping) == ({("t", "ann"): label} if label else {})
    assert grouping.counts["labels_withdrawn"] == 4


def test_among_rows_without_order_a_withdrawal_goes_before_a_label_of_its_time():
    rows = [("t", "ann", "x"), ("t", "ann", None), ("u", "ann", None), ("u", "ann", "x")]
    times = [5, 5, 5, 6]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        blocks = [events_block([rows[at]], source=UNORDERED, times=[times[at]]) for at in order]
        assert kept(group_blocks(0, blocks, "last")) == {("u", "ann"): "x"}


def test_withdrawals_alone_leave_a_shard_without_labels():
    block = events_block([("t", "ann", None)])
    assert len(block.classes) == 0
    grouping = group_blocks(0, [block], "last")
    assert kept(grouping) == {}
    assert grouping.counts == {
        "labels_used": 0, "labels_repeated": 0, "labels_rejected": 0, "labels_withdrawn": 1, "tasks": 0,
    }  # fmt: skip


def test_blocks_of_withdrawals_can_be_joined_with_others():
    both = joined([events_block([("t", "ann", None)]), events_block([("t", "bob", "x")])])
    assert (both.deleted.tolist(), both.classes.to_pylist()) == ([True, False], ["x"])


EVENT = st.tuples(
    st.sampled_from("tuv"), st.sampled_from(["ann", "bob"]), st.sampled_from(["x", "y", "z", None]),
    st.sampled_from([NO_TIME, 0, 1, 2]),
)  # fmt: skip
PIECES = st.lists(st.lists(EVENT, min_size=1, max_size=6), min_size=1, max_size=5)


@given(PIECES, st.booleans(), st.randoms(use_true_random=False))
def test_the_last_events_are_those_of_a_dictionary(pieces, ordered, chance):
    latest = {}
    for at, (task, worker, label, time) in enumerate(event for piece in pieces for event in piece):
        moment = (time, at if ordered else 0, label is None, label or "")
        latest[task, worker] = max(latest.get((task, worker), moment), moment)
    blocks, first = [], 0
    for piece in pieces:
        times = [time for *_, time in piece]
        rows = [event[:3] for event in piece]
        blocks.append(events_block(rows, source=0 if ordered else UNORDERED, sequence=first, times=times))
        first += len(piece)
    chance.shuffle(blocks)
    found = last_events(blocks)
    gone = np.zeros(len(found), bool) if found.deleted is None else found.deleted
    named = found if len(found.classes) else replace(found, classes=block_of([("t", "w", "?")]).classes)
    assert len(found) == len(latest)
    assert {
        (task, worker): (time, deleted, "" if deleted else label)
        for (task, worker, label), time, deleted in zip(rows_of(named), found.time.tolist(), gone.tolist(), strict=True)
    } == {pair: (time, deleted, label) for pair, (time, _, deleted, label) in latest.items()}
    assert (found.deleted is None) == (not gone.any())
    assert set(found.classes.to_pylist()) == {label for _, _, _, label in latest.values() if label}
