import csv
from collections import Counter
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import crowdcore.baselines.majority
from crowdcore.baselines.majority import majority_vote
from crowdcore.errors import InvalidLabelsError
from crowdcore.labels import group_labels

DATA = Path(__file__).parents[3] / "shared" / "data"

# Majority vote error and tied tasks with truth, from the README.md of the data: every row is one vote.
PUBLISHED = {
    "rte1": (0.1031, 65),
    "temp": (0.0639, 17),
    "dogs": (0.1778, 50),
    "web": (0.2693, 567),
    "bluebirds": (0.2407, 0),
    "ducks": (0.3125, 6),
    "wsd": (0.0056, 0),
    "product": (0.1034, 0),
    "sentiment": (0.0665, 43),
    "barzan": (0.3040, 0),
    "face": (0.3633, 28),
    "leaves": (0.3572, 31),
    "labelme": (0.2340, 129),
    "reuters": (0.3437, 424),
    "trec": (0.3486, 154),
}
# These repeat (task, worker) pairs; each row stands for a worker of its own, to give every row a vote.
PUBLISHED_WITH_REPEATS = {
    "adult2": (0.2402, 11),
    "fact_eval": (0.0981, 1),
    "relevance": (0.4589, 916),
    "hitspam_cf": (0.3400, 0),
    "smile": (0.2799, 5),
}
N_CLASSES = 4
TASKS = st.lists(st.lists(st.integers(0, N_CLASSES - 1), max_size=6), min_size=1, max_size=6)
CELLS = st.sampled_from([0, 4, 100])


def vote_on(tasks, dense_cells=4):
    """Majority vote on lists of class codes, one list a task."""
    grouped = group_labels(
        np.array([task for task, labels in enumerate(tasks) for _ in labels], int),
        np.array([worker for labels in tasks for worker in range(len(labels))], int),
        np.array([label for labels in tasks for label in labels], int),
        n_tasks=len(tasks), n_workers=6, n_classes=N_CLASSES,
    )  # fmt: skip
    with patch.object(crowdcore.baselines.majority, "_DENSE_CELLS", dense_cells):
        return majority_vote(grouped.labels)


def leaders(labels):
    counts = Counter(labels)
    return sorted(label for label, count in counts.items() if count == max(counts.values()))


@given(TASKS, CELLS)
def test_the_answer_has_the_most_votes_and_ties_go_to_the_first_class(tasks, dense_cells):
    vote = vote_on(tasks, dense_cells)
    assert vote.answer.tolist() == [min(leaders(labels), default=-1) for labels in tasks]
    assert vote.tied.tolist() == [len(leaders(labels)) > 1 for labels in tasks]


@given(TASKS, CELLS)
def test_the_votes_are_the_counts_above_zero_in_order(tasks, dense_cells):
    votes = vote_on(tasks, dense_cells).votes
    rows = zip(votes.task.tolist(), votes.label.tolist(), votes.count.tolist(), votes.leads.tolist(), strict=True)
    assert list(rows) == [
        (task, label, labels.count(label), label in leaders(labels))
        for task, labels in enumerate(tasks)
        for label in sorted(set(labels))
    ]


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.integers(-1, 3)), min_size=1, max_size=4))
def test_the_expected_error_is_the_mean_over_every_way_to_break_the_ties(tasks_and_truth):
    tasks, truth = (list(column) for column in zip(*tasks_and_truth, strict=True))
    assume(max(truth) >= 0)
    errors = [
        np.mean([answer != code for answer, code in zip(answers, truth, strict=True) if code >= 0])
        for answers in product(*(leaders(labels) or [-1] for labels in tasks))
    ]
    assert vote_on(tasks).expected_error(truth) == pytest.approx(np.mean(errors))


def test_hundreds_of_classes_need_no_table_of_tasks_by_classes():
    n = 3_000_000  # such a table of 64-bit counts would be 21 TB
    labels = group_labels([0, 0, n - 1], [0, 1, 0], [7, 899_999, 3], n_tasks=n, n_workers=2, n_classes=900_000).labels
    vote = majority_vote(labels)
    assert (vote.answer[0], vote.answer[n - 1], vote.answer[1]) == (7, 3, -1)
    assert np.flatnonzero(vote.tied).tolist() == [0]


def test_a_truth_outside_the_classes_is_never_hit():
    assert vote_on([[0, 1], [2]]).expected_error([9, 2]) == 0.5


def test_a_truth_of_another_length_is_refused():
    with pytest.raises(InvalidLabelsError, match="there are 2 tasks"):
        vote_on([[0], [1]]).expected_error([0])


def test_a_truth_that_is_all_unknown_is_refused():
    with pytest.raises(InvalidLabelsError, match="no task has a known truth"):
        vote_on([[0], [1]]).expected_error([-1, -1])


def published_crowd(name, row_is_worker):
    """TaskLabels and truth codes of a published set of labels."""
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip("the published labels (../shared/data) are not here")
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["task"]: row["label"] for row in csv.DictReader(file)}
    tasks, task = np.unique([row["task"] for row in rows], return_inverse=True)
    workers, worker = np.unique([row["worker"] for row in rows], return_inverse=True)
    if row_is_worker:
        workers = worker = np.arange(len(rows))
    codes = {label: code for code, label in enumerate(sorted({row["label"] for row in rows} | set(truth.values())))}
    label = [codes[row["label"]] for row in rows]
    sizes = {"n_tasks": len(tasks), "n_workers": len(workers), "n_classes": len(codes)}
    return group_labels(task, worker, label, **sizes).labels, np.array([codes.get(truth.get(t), -1) for t in tasks])


@pytest.mark.parametrize("name", [*PUBLISHED, *PUBLISHED_WITH_REPEATS])
def test_published_errors_of_majority_vote_are_met(name):
    labels, truth = published_crowd(name, row_is_worker=name in PUBLISHED_WITH_REPEATS)
    error, n_tied = {**PUBLISHED, **PUBLISHED_WITH_REPEATS}[name]
    vote = majority_vote(labels)
    assert vote.expected_error(truth) == pytest.approx(error, abs=0.00005 + 1e-9)
    assert np.sum(vote.tied & (truth >= 0)) == n_tied
