from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import group_labels, order_by

N_TASKS, N_WORKERS, N_CLASSES = 4, 3, 3
NEVER = np.iinfo(np.int64).min

ROW = st.tuples(
    st.integers(0, N_TASKS - 1),
    st.integers(0, N_WORKERS - 1),
    st.integers(0, N_CLASSES - 1),
    st.sampled_from([NEVER, 0, 1, 2]),
    st.integers(0, 3),
)
ROWS = st.lists(ROW, max_size=25)
REPEATS = st.sampled_from(["last", "first", "error"])
EVENTS = st.lists(st.tuples(ROW, st.booleans()), max_size=25)


def group(rows, repeats="last", dtype=np.int64, deleted=None):
    task, worker, label, time, position = np.array(rows, np.int64).reshape(-1, 5).T
    return group_labels(
        task.astype(dtype), worker.astype(dtype), label.astype(dtype),
        n_tasks=N_TASKS, n_workers=N_WORKERS, n_classes=N_CLASSES, time=time, position=position, deleted=deleted,
        repeats=repeats,
    )  # fmt: skip


def as_dictionary(labels):
    return {
        (task, int(labels.worker[place])): int(labels.label[place])
        for task in range(labels.n_tasks)
        for place in range(labels.starts[task], labels.starts[task + 1])
    }


def keep_one(rows, repeats):
    """The rule said plainly: the labels that count, and the rows that contradict each other."""
    groups = defaultdict(list)
    for row, (task, worker, label, time, position) in enumerate(rows):
        groups[task, worker].append(((time, position, label), row))
    kept, contradictions = {}, []
    for key, group in groups.items():
        if repeats == "error" and len({rows[row][2] for _, row in group}) > 1:
            contradictions += [row for _, row in group]
        else:
            (_, _, label), _ = min(group) if repeats == "first" else max(group)
            kept[key] = label
    return kept, sorted(contradictions)


@given(ROWS, REPEATS)
def test_grouping_keeps_what_a_dictionary_would(rows, repeats):
    grouped = group(rows, repeats)
    kept, contradictions = keep_one(rows, repeats)
    assert as_dictionary(grouped.labels) == kept
    assert grouped.contradictions.tolist() == contradictions


@given(ROWS, REPEATS)
def test_every_row_is_kept_repeated_or_contradicted(rows, repeats):
    grouped = group(rows, repeats)
    left_out = set(grouped.contradictions.tolist())
    assert len(grouped.kept) + grouped.n_repeated + len(left_out) == len(rows)
    received = [0] * N_TASKS
    for row, (task, *_) in enumerate(rows):
        received[task] += row not in left_out
    assert grouped.n_received.tolist() == received


@given(ROWS, REPEATS)
def test_kept_says_which_row_each_label_is(rows, repeats):
    grouped = group(rows, repeats)
    found = [rows[row][:3] for row in grouped.kept]
    labels = grouped.labels
    assert found == list(zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True))
    assert labels.sizes.tolist() == [sum(task == t for task, _, _ in found) for t in range(N_TASKS)]


@given(ROWS, REPEATS)
def test_labels_of_a_task_are_in_the_order_of_their_workers(rows, repeats):
    labels = group(rows, repeats).labels
    keys = list(zip(labels.task.tolist(), labels.worker.tolist(), strict=True))
    assert keys == sorted(set(keys))


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))), REPEATS)
def test_arrival_plays_no_part(rows_and_shuffled, repeats):
    rows, shuffled = rows_and_shuffled
    assert as_dictionary(group(rows, repeats).labels) == as_dictionary(group(shuffled, repeats).labels)


@given(ROWS, REPEATS, st.sampled_from([np.int8, np.uint16, np.int32]))
def test_narrow_codes_give_the_same_labels(rows, repeats, dtype):
    assert as_dictionary(group(rows, repeats, dtype).labels) == as_dictionary(group(rows, repeats).labels)


def withdrawn_rows(events):
    """Deletions, and labels that are not later than one of their task and worker."""
    deletions = [(row[:2], row[3:]) for row, deleted in events if deleted]
    return [
        number
        for number, (row, deleted) in enumerate(events)
        if deleted or any(pair == row[:2] and moment >= row[3:] for pair, moment in deletions)
    ]


@given(EVENTS, REPEATS)
def test_deletions_withdraw_what_is_not_later_and_the_rule_chooses_among_the_rest(events, repeats):
    rows, deleted = [row for row, _ in events], [deleted for _, deleted in events]
    grouped = group(rows, repeats, deleted=deleted)
    gone = withdrawn_rows(events)
    left = [number for number in range(len(rows)) if number not in gone]
    kept, contradictions = keep_one([rows[number] for number in left], repeats)
    assert as_dictionary(grouped.labels) == kept
    assert grouped.contradictions.tolist() == [left[number] for number in contradictions]
    assert (grouped.withdrawn.tolist(), grouped.n_deletions) == (gone, sum(deleted))
    assert len(grouped.kept) + grouped.n_repeated + len(contradictions) + len(gone) == len(rows)
    received = [0] * N_TASKS
    for number, (task, *_) in enumerate(rows):
        received[task] += not deleted[number] and number not in grouped.contradictions
    assert grouped.n_received.tolist() == received


@given(EVENTS)
def test_with_the_rule_last_the_latest_event_decides(events):
    latest = {}
    for (task, worker, label, time, position), deleted in events:
        moment = (time, position, deleted, label)
        latest[task, worker] = max(latest.get((task, worker), moment), moment)
    kept = {pair: label for pair, (_, _, deleted, label) in latest.items() if not deleted}
    grouped = group([row for row, _ in events], deleted=[deleted for _, deleted in events])
    assert as_dictionary(grouped.labels) == kept


@given(ROWS, REPEATS)
def test_where_no_row_is_a_deletion_nothing_changes(rows, repeats):
    one, other = group(rows, repeats), group(rows, repeats, deleted=np.zeros(len(rows), bool))
    assert one.kept.tolist() == other.kept.tolist()
    assert one.n_received.tolist() == other.n_received.tolist()


@pytest.mark.parametrize(("repeats", "label"), [("last", 1), ("first", 0)])
def test_without_times_and_positions_the_order_of_the_arrays_decides(repeats, label):
    grouped = group_labels([0, 0], [0, 0], [0, 1], n_tasks=1, n_workers=1, n_classes=2, repeats=repeats)
    assert grouped.labels.label.tolist() == [label]


def test_a_label_without_a_time_is_older_than_any_with_one():
    rows = [(0, 0, 2, -5, 0), (0, 0, 1, NEVER, 9)]
    assert as_dictionary(group(rows).labels) == {(0, 0): 2}


def test_no_labels_make_empty_tasks():
    grouped = group_labels([], [], [], n_tasks=2, n_workers=0, n_classes=0)
    assert grouped.labels.sizes.tolist() == [0, 0]
    assert grouped.n_repeated == 0


def test_an_unknown_rule_for_repeats_is_refused():
    with pytest.raises(InvalidOptionError, match="'newest'; it takes last, first, error"):
        group_labels([0], [0], [0], n_tasks=1, n_workers=1, n_classes=1, repeats="newest")


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(InvalidLabelsError, match="one length"):
        group_labels([0, 1], [0], [0], n_tasks=2, n_workers=1, n_classes=1)


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 70_000)), max_size=30))
def test_order_by_sorts_codes_wider_than_a_digit_stably(codes):
    minor, major = np.array(codes, np.int64).reshape(-1, 2).T
    expected = sorted(range(len(codes)), key=lambda row: (codes[row][1], codes[row][0]))
    assert order_by(minor, major, limits=(200_001, 70_001)).tolist() == expected
