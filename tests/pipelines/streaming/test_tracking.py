"""Tasks close by the shard's clock, which waits for every reader; labels that come later are late."""

import json

import numpy as np
import pytest
from histories import Event, block_of, cut, random_events
from test_label_table import edges_of

from pipelines.late import LATE
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN
from pipelines.streaming.label_table import LABELS_FRAME
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.tracking import REMEMBERED, TaskTracker, TrackRules
from pipelines.tables import from_bytes

TTL = 160
STEP = TTL // 16  # how often a tracker looks for tasks to close


def tracker(late="reject", n_readers=1, ttl=TTL):
    made = TaskTracker(TrackRules(n_readers, ttl, late))
    made.heard(0, CAUGHT_UP)
    return made


def at(time, task="other", worker="ann", label="x", **more):
    return block_of([Event(task, worker, label, time, **more)])


def names(closing):
    return [] if closing is None else closing.to_pylist()


def rows(table):
    """What a label table holds, whatever the order of its codes."""
    block = table.block()
    deleted = np.zeros(len(block), bool) if block.deleted is None else block.deleted
    workers, classes = block.workers.to_pylist(), block.classes.to_pylist()
    return {
        (task, workers[worker]): ("" if gone else classes[label], int(time))
        for task, worker, label, time, gone in zip(
            block.task.to_pylist(), block.worker, block.label, block.time, deleted, strict=True
        )
    }


def test_a_task_closes_when_the_clock_is_more_than_its_ttl_past_its_last_label():
    tracked = tracker()
    assert names(tracked.take(at(0, "t")).closing) == []
    assert names(tracked.take(at(TTL)).closing) == []
    assert names(tracked.take(at(TTL + STEP)).closing) == ["t"]
    assert [task for task, _ in rows(tracked.table)] == ["other"]


def test_a_label_keeps_its_task_open():
    tracked = tracker()
    tracked.take(at(0, "t"))
    tracked.take(at(TTL // 2, "t", "bob"))
    assert names(tracked.take(at(TTL + STEP)).closing) == []
    assert names(tracked.take(at(TTL + TTL // 2 + STEP)).closing) == ["t"]


def test_tasks_are_looked_at_from_time_to_time_only():
    tracked = tracker()
    tracked.take(at(0, "t"))
    tracked.take(at(TTL))
    assert names(tracked.take(at(TTL + STEP - 1)).closing) == []
    assert names(tracked.take(at(TTL + STEP)).closing) == ["t"]


def test_without_a_ttl_nothing_closes_and_nothing_is_late():
    tracked = tracker(ttl=0)
    tracked.take(at(0, "t"))
    assert names(tracked.take(at(10**15)).closing) == []
    assert tracked.take(at(1, "u")).n_late == 0


def test_what_a_closed_task_has_counted_stays_counted():
    tracked, ledger = tracker(), Ledger()
    labels = [Event("t", "ann", "x", 0), Event("t", "bob", "x", 0)]
    last = Event("other", "ann", "x", TTL + STEP)
    found = [tracked.take(block) for block in (block_of(labels), block_of([last]))]
    for one in found:
        ledger.add(one.change)
    assert names(found[1].closing) == ["t"]
    assert ledger.edges() == edges_of([*labels, last])


def test_a_label_of_a_closed_task_is_rejected_with_its_reason_and_its_place():
    tracked = tracker()
    tracked.take(at(0, "t"))
    tracked.take(at(TTL + STEP))
    late = block_of([Event("other", "bob", "x", TTL + STEP), Event("t", "bob", "y", TTL + STEP)])
    found = tracked.take(late)
    (row,) = from_bytes(found.rejects).to_pylist()
    assert (found.n_late, row["reason"], row["source"], row["position"]) == (1, LATE, "test://", 1)
    assert json.loads(row["record"]) == {"task": "t", "worker": "bob", "label": "y", "submitted_at_us": TTL + STEP}
    assert [task for task, _ in rows(tracked.table)] == ["other", "other"]


def test_a_late_withdrawal_is_told_as_one():
    tracked = tracker()
    tracked.take(at(0, "t"))
    tracked.take(at(TTL + STEP))
    (row,) = from_bytes(tracked.take(at(TTL, "t", deleted=True)).rejects).to_pylist()
    assert json.loads(row["record"]) == {"task": "t", "worker": "ann", "op": "delete", "submitted_at_us": TTL}


def test_a_task_that_nobody_knows_is_late_when_its_label_is_older_than_the_clock_less_the_ttl():
    tracked = tracker()
    tracked.take(at(1000))
    assert tracked.take(at(1000 - TTL - 1, "old")).n_late == 1
    assert tracked.take(at(1000 - TTL, "young")).n_late == 0


def test_an_old_label_of_an_open_task_is_not_late():
    tracked = tracker()
    tracked.take(at(1000))
    assert tracked.take(at(0, "other", "bob")).n_late == 0


def test_late_events_count_as_events():
    tracked, ledger = tracker(), Ledger()
    for block in (at(0, "t"), at(TTL + STEP), at(0, "t")):
        ledger.add(tracked.take(block).change)
    assert ledger.n_events == 3


def test_with_reopen_a_closed_task_begins_anew_with_the_late_label():
    tracked = tracker("reopen")
    tracked.take(at(0, "t"))
    tracked.take(at(TTL + STEP))
    found = tracked.take(at(TTL + STEP, "t", "bob", "y"))
    assert (found.n_late, found.rejects) == (0, None)
    assert found.kept.task.to_pylist() == ["t"]
    assert {key for key in rows(tracked.table) if key[0] == "t"} == {("t", "bob")}
    assert tracked.take(at(TTL + STEP, "t", "cem")).n_late == 0, "it is not closed any more"
    assert names(tracked.take(at(2 * TTL + 3 * STEP)).closing) == ["t"]


def test_a_reader_that_is_behind_holds_the_clock_back():
    tracked = tracker(n_readers=2)
    tracked.take(at(0, "t"))
    assert names(tracked.take(at(5 * TTL)).closing) == [], "nobody has heard of reader 1"
    tracked.heard(1, TTL)
    assert names(tracked.take(at(5 * TTL)).closing) == [], "reader 1 may still bring labels of time 160"
    assert tracked.take(at(1, "u")).n_late == 0, "and they are not late"
    tracked.heard(1, CAUGHT_UP)
    assert sorted(names(tracked.close_due())) == ["t", "u"]


def test_the_clock_never_goes_back():
    tracked = tracker(n_readers=2)
    tracked.heard(1, CAUGHT_UP)
    tracked.take(at(5 * TTL))
    tracked.heard(1, 0)
    assert tracked.take(at(1, "old")).n_late == 1


def test_closed_tasks_are_remembered_for_ten_times_the_ttl():
    tracked = tracker()
    tracked.take(at(0, "t"))
    tracked.take(at(TTL + STEP))
    closed_at = TTL + STEP
    tracked.take(at(closed_at + TTL + STEP, "next"))
    assert tracked.take(at(closed_at + TTL + STEP, "t", "bob")).n_late == 1, "it is still remembered"
    later = closed_at + REMEMBERED * TTL + STEP
    tracked.take(at(later, "later"))
    assert tracked.take(at(later, "t", "bob")).n_late == 0, "a task of that name is a new one"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("late", ["reject", "reopen"])
def test_a_tracker_of_its_frames_in_any_order_goes_on_as_the_first_would(seed, late):
    rng = np.random.default_rng(seed)
    rules = TrackRules(2, TTL, late)
    tracked, frames = TaskTracker(rules), []
    events = random_events(rng, 200, n_tasks=30, n_times=20 * TTL)
    events.sort(key=lambda event: event.time + int(rng.integers(3 * TTL)))
    before, after = events[:150], events[150:]
    for piece in cut(rng, before, 10):
        tracked.heard(int(rng.integers(2)), CAUGHT_UP if rng.random() < 0.7 else piece[0].time)
        found = tracked.take(block_of(piece))
        if found.closing is not None:
            frames = [tracked.to_bytes()]
        elif found.kept is not None:
            frames.append(LABELS_FRAME + found.kept.to_bytes())
    shuffled = [frames[place] for place in rng.permutation(len(frames))]
    again = TaskTracker.of(rules, shuffled, json.loads(json.dumps(tracked.note())))
    assert rows(again.table) == rows(tracked.table)
    for piece in cut(rng, after, 4):
        one, other = tracked.take(block_of(piece)), again.take(block_of(piece))
        assert (one.n_late, one.rejects) == (other.n_late, other.rejects)
        assert sorted(names(one.closing)) == sorted(names(other.closing))
    assert rows(again.table) == rows(tracked.table)


def test_what_one_poll_brought_of_several_partitions_closes_nothing_before_all_of_it_is_there():
    tracked = tracker()
    tracked.heard(0, NOT_KNOWN)
    assert names(tracked.take(at(0, "t")).closing) == []
    assert names(tracked.take(at(100 * TTL, "u")).closing) == []
    tracked.heard(0, 100 * TTL)
    late = tracked.take(at(50 * TTL, "v"))
    assert (late.n_late, sorted(names(late.closing))) == (0, ["t", "v"])


def test_after_a_long_break_the_clock_waits_for_a_reader_that_had_caught_up_before_it():
    tracked = tracker(n_readers=2)
    tracked.heard(1, TTL)
    tracked.take(at(TTL, "t"))
    tracked = TaskTracker.of(TrackRules(2, TTL), [tracked.to_bytes()], json.loads(json.dumps(tracked.note())))
    tracked.heard(0, 100 * TTL)
    assert names(tracked.take(at(100 * TTL, "u")).closing) == []
    tracked.heard(1, 3 * TTL)
    assert tracked.take(at(2 * TTL, "v")).n_late == 0


def test_the_clock_never_goes_back_when_a_reader_falls_behind():
    tracked = tracker()
    tracked.take(at(10 * TTL, "t"))
    tracked.heard(0, 0)
    tracked.take(at(0, "old"))
    assert tracked.take(at(8 * TTL, "u")).n_late == 1
    assert tracked.note()["clock"] == 10 * TTL


def test_after_a_restart_the_clock_goes_on_to_what_was_the_latest_event():
    tracked = tracker(n_readers=2)
    tracked.heard(1, 0)
    tracked.take(at(5 * TTL, "t"))
    again = TaskTracker.of(TrackRules(2, TTL), [tracked.to_bytes()], json.loads(json.dumps(tracked.note())))
    again.heard(1, CAUGHT_UP)
    again.close_due()
    assert again.note()["clock"] == 5 * TTL


def test_a_closed_task_is_remembered_until_more_than_ten_times_the_ttl_have_passed():
    tracked, closed_at = tracker(), TTL + STEP
    for time, task in ((0, "t"), (closed_at, "next")):
        tracked.take(at(time, task))
    tracked.take(at(closed_at + REMEMBERED * TTL, "later"))  # closes "next"
    assert tracked.take(at(closed_at + REMEMBERED * TTL, "t")).n_late == 1
