"""One class against the rest: codes, and probabilities from weights in any unit."""

import numpy as np
import pytest

from crowdcore.baselines.agreement import bounds_of
from crowdcore.baselines.one_vs_rest import class_codes, solve_one_vs_rest
from crowdcore.labels import group_labels
from crowdcore.scores import vote_weights
from crowdcore.simulate import simulate_crowd


def drawn(n_classes, seed=0):
    crowd = simulate_crowd(
        n_tasks=40, n_workers=8, labels_per_task=5, n_classes=n_classes, skills="fixed:0.5",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return crowd.grouped()


def test_the_codes_of_a_task_whose_labels_are_all_classes_once_add_up_to_nothing():
    labels = group_labels([0] * 4, range(4), range(4), n_tasks=1, n_workers=4, n_classes=4).labels
    for k in range(4):
        codes = class_codes(labels, k)
        assert codes[k] == 1
        assert codes.sum() == pytest.approx(0)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("unit", [1.0, 7.0])
def test_labels_of_equal_weight_count_by_their_mean_log_odds(n_classes, unit):
    # With one weight for all, log P(k) − log P(l) must be the mean log-odds of a label times n_k − n_l, in any unit.
    labels = drawn(n_classes)
    found = solve_one_vs_rest(labels, lambda graph, codes: (np.full(len(codes), unit), True))
    odds = vote_weights(found.skills, bounds_of(labels), n_classes)[labels.worker].mean()
    votes = np.bincount(labels.task * n_classes + labels.label, minlength=40 * n_classes).reshape(40, n_classes)
    wanted = np.exp(odds * votes)
    assert odds > 0.1
    assert np.allclose(found.probabilities, wanted / wanted.sum(axis=1, keepdims=True))


def test_it_has_settled_only_if_every_class_has():
    labels = drawn(3)
    verdicts = iter([True, False, True])
    assert not solve_one_vs_rest(labels, lambda graph, codes: (np.ones(len(codes)), next(verdicts))).converged
    assert solve_one_vs_rest(labels, lambda graph, codes: (np.ones(len(codes)), True)).converged
