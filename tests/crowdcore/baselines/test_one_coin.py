"""One-coin Dawid-Skene."""

import numpy as np
import pytest

from crowdcore.baselines.dawid_skene import e_step, vote_shares
from crowdcore.baselines.one_coin import m_step_right, one_coin_confusion, one_coin_dawid_skene, one_coin_e_step
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import group_labels
from crowdcore.simulate import simulate_crowd


def small():
    """Worker 0 says 0, 1, 0 on the tasks 0, 1, 2; worker 1 says 0, 1, 1; worker 2 says 0 on the tasks 0 and 2."""
    task, worker, label = [0, 1, 2, 0, 1, 2, 0, 2], [0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 0, 1, 1, 0, 0]
    return group_labels(task, worker, label, n_tasks=3, n_workers=3, n_classes=2).labels


def test_a_round_on_the_small_crowd_is_the_one_worked_out_by_hand():
    # Shares (1, 0), (0, 1), (2/3, 1/3): the workers are right on 8/3 of 3, 7/3 of 3 and 5/3 of 2 labels, π = (5, 4)/9.
    assert np.allclose(m_step_right(small(), vote_shares(small())), [8 / 3, 7 / 3, 5 / 3])
    found = one_coin_dawid_skene(small(), n_rounds=1)
    # Task 2, where worker 1 alone says 1: 5 · 8/9 · 2/9 · 5/6 against 4 · 1/9 · 7/9 · 1/6, that is 100 to 7.
    assert found.probabilities[2] == pytest.approx([100 / 107, 7 / 107], abs=1e-7)
    zero, one = 5 / 9 * 8 / 9 * 7 / 9 * 5 / 6, 4 / 9 * 1 / 9 * 2 / 9 * 1 / 6
    assert found.probabilities[0] == pytest.approx([zero / (zero + one), one / (zero + one)], abs=1e-7)
    likelihood = (zero + one) * (4 / 9 * 8 / 9 * 7 / 9 + 5 / 9 * 1 / 9 * 2 / 9) * (428 / (9**3 * 6))
    assert found.loss_history == pytest.approx([-np.log(likelihood) / 8], abs=1e-7)


def test_the_expectation_is_that_of_the_matrices_it_stands_for():
    crowd = simulate_crowd(n_tasks=50, n_workers=6, n_classes=4, labels_per_task=3, rng=np.random.default_rng(1))
    accuracies, prior = np.linspace(0.1, 0.9, 6), np.array([0.1, 0.2, 0.3, 0.4])
    found = one_coin_e_step(crowd.grouped(), accuracies, prior).probabilities
    assert np.allclose(found, e_step(crowd.grouped(), one_coin_confusion(accuracies, 4), prior), atol=1e-7)


def test_sums_of_groups_of_tasks_are_those_of_all():
    crowd = simulate_crowd(n_tasks=90, n_workers=7, n_classes=3, labels_per_task=4, rng=np.random.default_rng(2))
    first = crowd.task < 31
    halves = [
        group_labels(
            crowd.task[chosen], crowd.worker[chosen], crowd.label[chosen], n_tasks=90, n_workers=7, n_classes=3
        ).labels
        for chosen in (first, ~first)
    ]
    every = np.random.default_rng(3).dirichlet(np.ones(3), 90)
    total = m_step_right(halves[0], every) + m_step_right(halves[1], every)
    assert np.array_equal(total, m_step_right(crowd.grouped(), every))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_skills_of_a_large_crowd_are_found(n_classes):
    rng = np.random.default_rng(4)
    skills = np.linspace(0.2, 0.9, 12)
    crowd = simulate_crowd(n_tasks=4000, n_workers=12, n_classes=n_classes, labels_per_task=12, skills=skills, rng=rng)
    found = one_coin_dawid_skene(crowd.grouped())
    assert np.max(np.abs(found.skills - skills)) < 0.06  # four standard errors of the worst
    assert found.converged


def test_options_change_the_outcome_and_are_checked():
    crowd = simulate_crowd(
        n_tasks=100, n_workers=8, labels_per_task=3, rng=np.random.default_rng(5), skills="fixed:0.5"
    )
    plain = one_coin_dawid_skene(crowd.grouped())
    assert not one_coin_dawid_skene(crowd.grouped(), n_rounds=1).converged
    assert len(one_coin_dawid_skene(crowd.grouped(), tol=1e-2).loss_history) < len(plain.loss_history)
    turned = one_coin_dawid_skene(crowd.grouped(), start=vote_shares(crowd.grouped())[:, ::-1].copy())
    assert np.mean(turned.answer == plain.answer) < 0.1
    with pytest.raises(InvalidOptionError, match="n_rounds is 0"):
        one_coin_dawid_skene(crowd.grouped(), n_rounds=0)
    with pytest.raises(InvalidLabelsError, match="100 tasks and 2 classes"):
        one_coin_dawid_skene(crowd.grouped(), start=np.ones((1, 2)))
