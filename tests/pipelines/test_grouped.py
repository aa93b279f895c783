from test_blocks import block_of

from pipelines.blocks import LabelBlock
from pipelines.grouped import TaskShard, group_blocks


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
