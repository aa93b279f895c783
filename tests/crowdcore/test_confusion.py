"""The confusion-matrix stage from PGD's answers."""

import numpy as np
import pytest

from crowdcore.baselines.dawid_skene import class_totals, confusion_of, e_step, m_step_counts, prior_of
from crowdcore.confusion import pgd_confusion
from crowdcore.errors import InvalidOptionError
from crowdcore.labels import group_labels
from crowdcore.projected_gradient import projected_gradient


def biased_crowd(n_tasks=600, seed=0):
    """Class 1 is rare; ten workers see it in half of the cases and invent it never, six say it at random."""
    rng = np.random.default_rng(seed)
    true = np.array([[[0.99, 0.01], [0.45, 0.55]]] * 10 + [[[0.5, 0.5], [0.5, 0.5]]] * 6)
    truth = (rng.random(n_tasks) < 0.3).astype(int)
    worker = np.concatenate([rng.permutation(16)[:6] for _ in range(n_tasks)])
    task = np.repeat(np.arange(n_tasks), 6)
    label = (rng.random(len(task)) < true[worker, truth[task], 1]).astype(int)
    return group_labels(task, worker, label, n_tasks=n_tasks, n_workers=16, n_classes=2).labels, truth, true


def test_one_round_is_pgd_and_both_steps_with_one_label_more_a_cell():
    labels, _, _ = biased_crowd()
    start = projected_gradient(labels).probabilities
    counts = m_step_counts(labels, start) + 1
    totals = class_totals(start) + 1
    expected = e_step(labels, counts / counts.sum(axis=2, keepdims=True), totals / totals.sum())
    found = pgd_confusion(labels, n_rounds=1)
    assert np.allclose(found.probabilities, expected, atol=1e-9)
    assert np.allclose(found.confusion, confusion_of(m_step_counts(labels, expected), 1.0, additive=True), atol=1e-9)
    assert np.allclose(found.prior, prior_of(class_totals(expected), 1.0), atol=1e-9)


def test_the_loss_is_the_smoothed_likelihood_and_never_rises():
    labels, _, _ = biased_crowd(100)
    found = pgd_confusion(labels)
    assert len(found.loss_history) > 3
    assert np.all(np.diff(found.loss_history) <= 1e-9)
    start = projected_gradient(labels).probabilities
    confusion = confusion_of(m_step_counts(labels, start), 1.0, additive=True)
    prior = prior_of(class_totals(start), 1.0)
    per_task = np.tile(prior, (100, 1))
    np.multiply.at(per_task, labels.task, confusion[labels.worker, :, labels.label])
    posterior = np.log(per_task.sum(axis=1)).sum() + np.log(confusion).sum() + np.log(prior).sum()
    assert found.loss_history[0] == pytest.approx(-posterior / len(labels.label), abs=1e-7)


def test_it_sees_what_one_coin_cannot():
    labels, truth, true = biased_crowd(4000)
    one_coin, found = projected_gradient(labels), pgd_confusion(labels)
    # A coin cannot tell "says 1 and means it" from "says 0, which means little".
    assert np.mean(found.answer != truth) < np.mean(one_coin.answer != truth) - 0.03
    assert np.max(np.abs(found.confusion - true)) < 0.08
    assert found.prior == pytest.approx([0.7, 0.3], abs=0.03)


def test_every_option_changes_the_outcome():
    labels, _, _ = biased_crowd(150)
    plain = pgd_confusion(labels, n_rounds=1).probabilities
    for options in ({"weights": "squared"}, {"smoothing": 5.0}, {"n_rounds": 2}):
        assert not np.allclose(pgd_confusion(labels, **{"n_rounds": 1, **options}).probabilities, plain, atol=1e-4)
    assert len(pgd_confusion(labels, tol=1.0).loss_history) == 2
    with pytest.raises(InvalidOptionError, match="smoothing is -1"):
        pgd_confusion(labels, smoothing=-1)
    with pytest.raises(InvalidOptionError, match="weights is 'none'"):
        pgd_confusion(labels, weights="none")
