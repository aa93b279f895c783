"""Opt-D&S: the spectral start and what follows it."""

import numpy as np
import pytest

from crowdcore.baselines.dawid_skene import dawid_skene, e_step
from crowdcore.baselines.opt_dawid_skene import draw_groups, opt_dawid_skene, spectral_confusion
from crowdcore.labels import group_labels
from crowdcore.simulate import simulate_crowd


def full_crowd(confusion, prior, n_tasks, seed):
    """Every worker labels every task; `confusion` (workers, classes, classes), the label last."""
    rng = np.random.default_rng(seed)
    n_workers, n_classes, _ = confusion.shape
    truth = rng.choice(n_classes, size=n_tasks, p=prior)
    task, worker = np.repeat(np.arange(n_tasks), n_workers), np.tile(np.arange(n_workers), n_tasks)
    steps = confusion.cumsum(axis=2)[worker, truth[task]]
    label = np.minimum((steps < rng.random(len(task))[:, None]).sum(axis=1), n_classes - 1)
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": n_classes}
    return group_labels(task, worker, label, **sizes).labels, truth


def matrices(n_workers, n_classes, seed):
    rng = np.random.default_rng(seed)
    off = rng.dirichlet(np.ones(n_classes), (n_workers, n_classes))
    return 0.5 * np.eye(n_classes) + 0.5 * off


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_spectral_start_finds_the_matrices_before_any_em(n_classes):
    true = matrices(9, n_classes, seed=n_classes)
    prior = np.arange(2, n_classes + 2) / np.sum(np.arange(2, n_classes + 2))
    labels, _ = full_crowd(true, prior, 40_000, seed=1)
    rng = np.random.default_rng(2)
    found = spectral_confusion(labels, draw_groups(labels, rng), rng)
    assert found is not None
    assert np.allclose(found.sum(axis=-1), 1)
    assert np.max(np.abs(found - true)) < 0.08
    assert np.mean(np.abs(found - true)) < 0.02


def test_it_starts_right_where_the_majority_starts_wrong():
    # Six of nine workers call class 0 class 1 as often as not, and three always know: the vote leans to class 1.
    true = np.array([[[0.35, 0.65], [0.05, 0.95]]] * 6 + [[[0.97, 0.03], [0.03, 0.97]]] * 3)
    labels, truth = full_crowd(true, [0.5, 0.5], 3000, seed=3)
    rng = np.random.default_rng(4)
    found = spectral_confusion(labels, draw_groups(labels, rng), rng)
    assert np.max(np.abs(found - true)) < 0.1
    assert np.mean(opt_dawid_skene(labels, rng=rng).answer != truth) < 0.01


def test_groups_are_as_equal_as_can_be_and_leave_out_who_has_no_label():
    labels = group_labels([0, 0, 0, 0], [0, 2, 3, 5], [0, 1, 0, 1], n_tasks=1, n_workers=6, n_classes=2).labels
    group = draw_groups(labels, np.random.default_rng(0))
    assert group[[1, 4]].tolist() == [-1, -1]
    assert sorted(np.bincount(group[group >= 0])) == [1, 1, 2]


def test_the_groups_come_from_rng():
    crowd = simulate_crowd(
        n_tasks=200, n_workers=12, labels_per_task=6, n_classes=3, skills="fixed:0.6", rng=np.random.default_rng(6)
    )
    rngs = [np.random.default_rng(seed) for seed in (1, 1, 2)]
    results = [opt_dawid_skene(crowd.grouped(), rng=rng, n_rounds=1).probabilities for rng in rngs]
    assert np.array_equal(results[0], results[1])
    assert not np.allclose(results[0], results[2], atol=1e-3)


@pytest.mark.parametrize("case", ["two labels a task", "a class that nobody says", "two workers"])
def test_without_a_spectral_start_it_is_dawid_skene_from_the_votes(case):
    n_workers, per_task = (2, 2) if case == "two workers" else (9, 2 if case == "two labels a task" else 6)
    crowd = simulate_crowd(
        n_tasks=80, n_workers=n_workers, labels_per_task=per_task, skills="fixed:0.6", rng=np.random.default_rng(7)
    )
    n_classes = 3 if case == "a class that nobody says" else 2
    sizes = {"n_tasks": 80, "n_workers": n_workers, "n_classes": n_classes}
    labels = group_labels(crowd.task, crowd.worker, crowd.label, **sizes).labels
    rng = np.random.default_rng(8)
    assert spectral_confusion(labels, draw_groups(labels, rng), rng) is None
    even = np.full(n_classes, 1 / n_classes)
    plain = dawid_skene(labels, n_rounds=10, smoothing=0.1, prior=even)
    assert np.array_equal(opt_dawid_skene(labels, rng=rng).probabilities, plain.probabilities)


def test_other_class_codes_give_the_same_answers():
    labels, truth = full_crowd(matrices(9, 3, seed=5), [0.2, 0.3, 0.5], 3000, seed=6)
    classes = np.array([2, 0, 1])
    sizes = {"n_tasks": 3000, "n_workers": 9, "n_classes": 3}
    other = group_labels(labels.task, labels.worker, classes[labels.label], **sizes).labels
    plain, turned = (opt_dawid_skene(each, rng=np.random.default_rng(9)) for each in (labels, other))
    assert np.mean(plain.answer == truth) > 0.9
    assert np.array_equal(classes[plain.answer], turned.answer)


def test_a_group_that_is_mostly_wrong_does_not_turn_the_answers():
    # Of eleven workers four are worse than guessing; some of the groups drawn are made of these and few others.
    right = (1 + np.linspace(-0.3, 0.8, 11)) / 2
    true = np.stack([np.stack([right, 1 - right], axis=1), np.stack([1 - right, right], axis=1)], axis=1)
    even = np.array([0.5, 0.5])
    errors, turned = [], 0
    for seed in range(100):
        labels, truth = full_crowd(true, even, 300, seed)
        errors.append(np.mean(opt_dawid_skene(labels, rng=np.random.default_rng(seed)).answer != truth))
        rng = np.random.default_rng(seed)
        start = spectral_confusion(labels, draw_groups(labels, rng), rng)
        if start is not None:
            by_groups = dawid_skene(labels, start=e_step(labels, start, even), n_rounds=10, smoothing=0.1, prior=even)
            turned += np.mean(by_groups.answer != truth) > 0.5
    assert turned > 0  # else these crowds show nothing
    assert max(errors) < 0.15


def test_other_names_leave_everything_else_as_it_was():
    right = (1 + np.linspace(-0.3, 0.8, 11)) / 2
    true = np.stack([np.stack([right, 1 - right], axis=1), np.stack([1 - right, right], axis=1)], axis=1)
    labels, _ = full_crowd(true, [0.5, 0.5], 300, seed=0)
    found = opt_dawid_skene(labels, rng=np.random.default_rng(0))
    flipped = group_labels(labels.task, labels.worker, 1 - labels.label, n_tasks=300, n_workers=11, n_classes=2).labels
    other = opt_dawid_skene(flipped, rng=np.random.default_rng(0))
    assert np.allclose(found.probabilities, other.probabilities[:, ::-1], atol=1e-6)
    assert np.allclose(found.confusion, other.confusion[:, ::-1, ::-1], atol=1e-6)
    assert np.allclose(found.skills, other.skills, atol=1e-6)
    assert found.skills.mean() > 0


def test_rounds_and_tolerance_are_heeded():
    labels, _ = full_crowd(matrices(9, 3, seed=5), [0.2, 0.3, 0.5], 300, seed=6)
    assert len(opt_dawid_skene(labels, n_rounds=3, tol=-1).loss_history) == 3
    assert len(opt_dawid_skene(labels, tol=0.5).loss_history) == 2
