"""Dawid-Skene with confusion matrices, and what all methods of this family share."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdcore.baselines.dawid_skene import (
    class_totals,
    confusion_of,
    dawid_skene,
    e_step,
    m_step_counts,
    prior_of,
    skills_of,
    vote_shares,
)
from crowdcore.baselines.gold_dawid_skene import dawid_skene_with_gold
from crowdcore.baselines.one_coin import one_coin_dawid_skene
from crowdcore.baselines.opt_dawid_skene import opt_dawid_skene
from crowdcore.confusion import pgd_confusion
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import TaskLabels, group_labels
from crowdcore.simulate import simulate_crowd

METHODS = [dawid_skene, one_coin_dawid_skene, opt_dawid_skene, pgd_confusion]


def grouped(task, worker, label, n_tasks, n_workers, n_classes):
    return group_labels(task, worker, label, n_tasks=n_tasks, n_workers=n_workers, n_classes=n_classes).labels


def small():
    """Worker 0 says 0, 1, 0 on the tasks 0, 1, 2; worker 1 says 0, 1, 1; worker 2 says 0 on the tasks 0 and 2."""
    return grouped([0, 1, 2, 0, 1, 2, 0, 2], [0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 0, 1, 1, 0, 0], 3, 3, 2)


def crowd(seed=0, **options):
    settings = {"n_tasks": 200, "n_workers": 15, "labels_per_task": 5, "n_classes": 3, "skills": "uniform:0.2,0.9"}
    return simulate_crowd(**{**settings, **options}, rng=np.random.default_rng(seed))


def test_the_start_is_the_share_of_the_labels():
    assert np.allclose(vote_shares(small()), [[1, 0], [0, 1], [2 / 3, 1 / 3]])


def test_counts_and_matrices_of_the_small_crowd_are_those_worked_out_by_hand():
    counts = m_step_counts(small(), vote_shares(small()))
    # Worker 0 says 0 on tasks 0 and 2: 1 + 2/3 of class 0, 1/3 of class 1; and 1 on task 1, which is of class 1.
    expected = [[[5 / 3, 0], [1 / 3, 1]], [[1, 2 / 3], [0, 4 / 3]], [[5 / 3, 0], [1 / 3, 0]]]
    assert np.allclose(counts, expected, atol=1e-8)
    rows = [[[1, 0], [1 / 4, 3 / 4]], [[3 / 5, 2 / 5], [0, 1]], [[1, 0], [1, 0]]]
    assert np.allclose(confusion_of(counts), rows, atol=1e-8)


def test_the_loss_of_the_small_crowd_is_the_one_worked_out_by_hand():
    # With the matrices above and π = (5/9, 4/9): task 0 5/9 · 1 · 3/5 · 1, task 1 4/9 · 3/4 · 1,
    # task 2 5/9 · 2/5 + 4/9 · 1/4, each 1/3; eight labels.
    found = dawid_skene(small(), n_rounds=1)
    assert found.loss_history == pytest.approx([3 * np.log(3) / 8], abs=1e-7)
    assert np.allclose(found.probabilities[2], [2 / 3, 1 / 3], atol=1e-7)


def test_the_expectation_step_multiplies_prior_and_matrices():
    labels = grouped([0, 0], [0, 1], [0, 1], 1, 2, 2)
    confusion = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]]])
    found = e_step(labels, confusion, np.array([0.75, 0.25]))
    yes, no = 0.75 * 0.9 * 0.4, 0.25 * 0.2 * 0.7
    assert np.allclose(found, [[yes / (yes + no), no / (yes + no)]])


def test_skills_are_accuracies_on_the_scale_of_the_skill():
    confusion = np.array([[[0.9, 0.1], [0.4, 0.6]]])
    assert skills_of(confusion, np.array([0.5, 0.5])) == pytest.approx([0.5])  # right in 0.75 of cases
    assert skills_of(confusion, np.array([1.0, 0.0])) == pytest.approx([0.8])


def test_steps_do_not_depend_on_how_tasks_are_split():
    labels = crowd().grouped()
    every = vote_shares(labels)
    cuts = [0, 13, 14, 120, 200]
    shards = [part(labels, low, high) for low, high in pairwise(cuts)]
    shares = [every[low:high] for low, high in pairwise(cuts)]
    counts = sum(m_step_counts(shard, share) for shard, share in zip(shards, shares, strict=True))
    totals = sum(class_totals(share) for share in shares)
    assert np.array_equal(counts, m_step_counts(labels, every))
    assert np.array_equal(totals, class_totals(every))
    confusion, prior = confusion_of(counts), prior_of(totals)
    split = np.concatenate([e_step(shard, confusion, prior) for shard in shards])
    assert np.array_equal(split, e_step(labels, confusion, prior))
    assert np.array_equal(split, dawid_skene(labels, n_rounds=1).probabilities)


def part(labels, low, high):
    a, b = labels.starts[low], labels.starts[high]
    starts = labels.starts[low : high + 1] - a
    return TaskLabels(starts, labels.worker[a:b], labels.label[a:b], labels.n_workers, labels.n_classes)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 6))
def test_the_loss_never_rises(seed, n_classes, per_task):
    drawn = crowd(seed, n_tasks=30, n_workers=6, n_classes=n_classes, labels_per_task=per_task, skills="uniform:0,1")
    for found in (
        dawid_skene(drawn.grouped(), n_rounds=30, tol=-1),
        one_coin_dawid_skene(drawn.grouped(), n_rounds=30, tol=-1),
        dawid_skene(drawn.grouped(), n_rounds=30, tol=-1, smoothing=0.7, additive=True),
    ):
        assert len(found.loss_history) == 30
        assert np.all(np.diff(found.loss_history) <= 1e-7)


def test_who_confuses_classes_in_a_fixed_way_is_understood():
    truth = np.arange(60) % 3
    label = np.concatenate([truth, truth, truth, (truth + 1) % 3])
    labels = grouped(np.tile(np.arange(60), 4), np.repeat(range(4), 60), label, 60, 4, 3)
    found = dawid_skene(labels)
    assert np.array_equal(found.answer, truth)
    assert np.allclose(found.confusion[3], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], atol=1e-6)
    assert np.allclose(found.confusion[0], np.eye(3), atol=1e-6)
    assert found.skills == pytest.approx([1, 1, 1, -0.5], abs=1e-6)
    assert found.converged


def test_the_matrices_of_a_large_crowd_are_found():
    rng = np.random.default_rng(5)
    true = np.array([[[0.9, 0.1], [0.3, 0.7]]] * 8 + [[[0.6, 0.4], [0.05, 0.95]]] * 8)
    truth = (rng.random(4000) < 0.3).astype(int)
    task, worker = np.repeat(np.arange(4000), 16), np.tile(np.arange(16), 4000)
    label = (rng.random(len(task)) < true[worker, truth[task], 1]).astype(int)
    found = dawid_skene(grouped(task, worker, label, 4000, 16, 2))
    assert np.max(np.abs(found.confusion - true)) < 0.05  # the standard error of a cell is 0.014
    assert found.prior == pytest.approx([0.7, 0.3], abs=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_where_nobody_errs_every_answer_is_right(method):
    drawn = crowd(n_tasks=150, n_workers=9, skills="fixed:1", n_classes=4)
    found = method(drawn.grouped())
    assert np.array_equal(found.answer, drawn.truth)
    assert np.min(found.probabilities.max(axis=1)) > 0.95
    assert np.min(found.skills) > 0.8


@pytest.mark.parametrize("method", [dawid_skene, one_coin_dawid_skene, pgd_confusion])
def test_other_codes_of_workers_and_classes_give_the_same_answers(method):
    drawn = crowd(n_tasks=400)
    plain = method(drawn.grouped())
    workers, classes = np.array([4, 2, 0, 1, 3, *range(14, 4, -1)]), np.array([2, 0, 1])
    other = method(grouped(drawn.task, workers[drawn.worker], classes[drawn.label], 400, 15, 3))
    assert np.allclose(other.probabilities[:, classes], plain.probabilities, atol=1e-6)
    assert np.allclose(other.skills[workers], plain.skills, atol=1e-6)
    assert np.allclose(other.prior[classes], plain.prior, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "labels",
    [
        grouped([], [], [], 0, 0, 2),
        grouped([], [], [], 0, 0, 0),
        grouped([], [], [], 3, 2, 2),
        grouped([0, 0, 1], [0, 1, 0], [0, 0, 0], 2, 2, 1),
        grouped([0, 1, 2], [0, 0, 1], [1, 0, 1], 3, 2, 2),
        grouped([0, 0, 3], [0, 2, 0], [1, 0, 1], 5, 4, 3),
        crowd(n_tasks=300, n_workers=20, n_classes=100).grouped(),
    ],
    ids=["empty", "no class", "no label", "one class", "one label a task", "tasks, workers without", "100 classes"],
)
def test_awkward_crowds_have_probabilities(method, labels):
    found = method(labels)
    assert found.probabilities.shape == (labels.n_tasks, labels.n_classes)
    assert found.answer.shape == (labels.n_tasks,)
    assert found.skills.shape == (labels.n_workers,)
    if labels.n_classes:
        assert np.allclose(found.probabilities.sum(axis=1), 1)
        assert found.prior.sum() == pytest.approx(1)
    for array in (found.probabilities, found.skills, found.prior, found.loss_history):
        assert np.all(np.isfinite(array))
    assert np.all(np.abs(found.skills) <= 1)
    assert found.confusion is None or np.allclose(found.confusion.sum(axis=-1), 1)


@pytest.mark.parametrize("method", METHODS)
def test_one_label_a_task_is_the_answer(method):
    said = np.arange(40) % 3
    found = method(grouped(np.arange(40), np.arange(40) % 2, said, 40, 2, 3))
    assert np.array_equal(found.answer, said)


@pytest.mark.parametrize("method", METHODS)
def test_a_task_without_labels_gets_the_class_frequencies(method):
    labels = grouped([0, 0, 1, 1, 2, 2], [0, 1] * 3, [1, 1, 1, 1, 0, 0], 4, 2, 2)
    found = method(labels)
    assert found.answer[:3].tolist() == [1, 1, 0]
    assert found.probabilities[3] == pytest.approx(found.prior, abs=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_ties_go_to_the_smallest_code(method):
    labels = grouped([0, 0], [0, 1], [2, 1], 1, 2, 3)
    found = method(labels)
    assert found.probabilities[0, 1] == found.probabilities[0, 2]
    assert found.answer[0] == int(np.argmax(found.probabilities[0]))
    assert found.answer[0] != 2


def test_options_change_the_outcome_and_are_checked():
    labels = crowd().grouped()
    plain = dawid_skene(labels)
    assert not dawid_skene(labels, n_rounds=1).converged
    assert len(dawid_skene(labels, tol=1e-3).loss_history) < len(plain.loss_history)
    skewed = np.array([0.98, 0.01, 0.01])
    for other in (
        dawid_skene(labels, smoothing=0.5),
        dawid_skene(labels, smoothing=0.5, additive=True),
        dawid_skene(labels, start=vote_shares(labels)[:, ::-1].copy()),
        dawid_skene(labels, prior=skewed),
    ):
        assert not np.allclose(other.probabilities, plain.probabilities, atol=1e-3)
    assert np.array_equal(dawid_skene(labels, prior=skewed).prior, skewed)
    with pytest.raises(InvalidOptionError, match="n_rounds is 0"):
        dawid_skene(labels, n_rounds=0)
    with pytest.raises(InvalidOptionError, match="smoothing is 0"):
        dawid_skene(labels, smoothing=0.0)
    with pytest.raises(InvalidLabelsError, match="200 tasks and 3 classes"):
        dawid_skene(labels, start=np.ones((2, 2)))


@pytest.mark.parametrize("additive", [False, True])
def test_a_task_without_labels_has_no_part_in_the_class_frequencies(additive):
    rng = np.random.default_rng(11)
    task, worker, label = np.repeat(np.arange(30), 4), np.tile(np.arange(4), 30), (rng.random(120) < 0.2).astype(int)
    options = {"smoothing": 0.5, "additive": additive, "n_rounds": 3}
    few, many = (
        dawid_skene(group_labels(task, worker, label, n_tasks=n, n_workers=4, n_classes=2).labels, **options)
        for n in (30, 90)
    )
    assert np.array_equal(few.prior, many.prior)
    assert np.array_equal(few.probabilities, many.probabilities[:30])


def test_added_smoothing_is_added_to_the_class_totals_too():
    crowd = group_labels([0, 1, 2], [0, 0, 0], [0, 0, 1], n_tasks=3, n_workers=1, n_classes=2).labels
    start = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = dawid_skene(crowd, start=start, smoothing=1e6, additive=True, n_rounds=1)
    assert np.allclose(found.prior, 0.5, atol=1e-5)
    assert not np.allclose(dawid_skene(crowd, start=start, smoothing=1e-6, n_rounds=1).prior, 0.5, atol=0.1)


def test_without_known_answers_the_loss_with_gold_is_that_without():
    rng = np.random.default_rng(12)
    task, worker, label = np.repeat(np.arange(30), 5), np.tile(np.arange(5), 30), rng.integers(0, 3, 150)
    labels = group_labels(task, worker, label, n_tasks=30, n_workers=5, n_classes=3).labels
    plain, golden = dawid_skene(labels, n_rounds=8), dawid_skene_with_gold(labels, np.full(30, -1), n_rounds=8)
    assert np.allclose(plain.loss_history, golden.loss_history, atol=1e-6)
    known = dawid_skene_with_gold(labels, np.zeros(30, np.int64), n_rounds=1)
    shares = np.stack([np.bincount(label[worker == w], minlength=3) / 30 for w in range(5)])
    by_hand = -np.mean(np.log(shares[worker, label]))  # all tasks of one class: no entropy, no doubt about the class
    assert known.loss_history[0] == pytest.approx(by_hand, abs=1e-6)
