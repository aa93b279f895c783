from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crowdcore.scores
from crowdcore.errors import InvalidOptionError
from crowdcore.labels import group_labels
from crowdcore.scores import GOLD_WEIGHT, accuracy_of, score_tasks, vote_weights

BOUND = np.full(4, 0.95)


def labels_of(*tasks, n_workers=4, n_classes=3):
    """Each task a dictionary of worker: class."""
    rows = [(t, w, y) for t, task in enumerate(tasks) for w, y in task.items()]
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return group_labels(*columns, n_tasks=len(tasks), n_workers=n_workers, n_classes=n_classes).labels


def posterior(task, skills, n_classes, prior):
    """P(class | labels) by Bayes' rule from the one-coin model, class by class."""
    joint = []
    for truth in range(n_classes):
        p = prior[truth]
        for worker, label in task.items():
            right = (1 + (n_classes - 1) * skills[worker]) / n_classes
            p *= right if label == truth else (1 - right) / (n_classes - 1)
        joint.append(p)
    return np.array(joint) / sum(joint)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_probabilities_are_those_of_bayes_rule(n_classes):
    skills = np.array([0.8, 0.3, -0.2, 0.5])
    prior = np.arange(1.0, n_classes + 1) / np.arange(1.0, n_classes + 1).sum()
    tasks = [dict(enumerate(votes)) for votes in product(range(n_classes), repeat=3)]
    labels = labels_of(*tasks, n_classes=n_classes)
    weights = vote_weights(skills, BOUND, n_classes)
    found = score_tasks(labels, weights, n_classes=n_classes, class_prior=prior, probabilities=True)
    expected = np.array([posterior(task, skills, n_classes, prior) for task in tasks])
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-8)
    np.testing.assert_allclose(found.probability, expected.max(axis=1), atol=1e-8)
    np.testing.assert_allclose(found.score, np.log(expected.max(axis=1) / (1 - expected.max(axis=1))), atol=1e-6)
    assert (found.answer == expected.argmax(axis=1))[~found.tied].all()


def test_with_two_classes_the_score_is_the_papers():
    skills = np.array([0.9, -0.4, 0.2, 0.1])
    tasks = [dict(enumerate(votes)) for votes in product((0, 1), repeat=4)]
    log_odds = np.log((1 + skills) / (1 - skills))
    paper = np.array(
        [sum(v * (1 if y else -1) for v, y in zip(log_odds, task.values(), strict=True)) for task in tasks]
    )
    for rule in crowdcore.scores.RULES:
        weights = vote_weights(skills, BOUND, 2, rule)
        found = score_tasks(labels_of(*tasks, n_classes=2), weights, n_classes=2, rule=rule)
        np.testing.assert_allclose(found.score, np.abs(paper), atol=1e-8)
        np.testing.assert_allclose(found.margin, np.abs(paper), atol=1e-8)
        assert found.answer.tolist() == (paper > 0).astype(int).tolist()


def test_one_vs_rest_adds_and_takes_away_the_same_log_odds():
    skills = np.array([0.6, 0.5, 0.4, 0.3])
    task = {0: 0, 1: 1, 2: 1}
    v = np.log((1 + skills) / (1 - skills))
    scores = np.array([v[0] - v[1] - v[2], v[1] + v[2] - v[0], -v[0] - v[1] - v[2]])
    shares = 1 / (1 + np.exp(-scores))
    weights = vote_weights(skills, BOUND, 3, "one-vs-rest")
    found = score_tasks(labels_of(task), weights, n_classes=3, rule="one-vs-rest", probabilities=True)
    np.testing.assert_allclose(found.probabilities[0], shares / shares.sum(), atol=1e-8)
    np.testing.assert_allclose(found.margin, scores[1] - scores[0], atol=1e-8)


def test_the_class_with_more_votes_goes_first_between_equal_scores_then_the_first_class():
    weights = np.array([1.0, 0.5, 0.5, 0.0])
    labels = labels_of({0: 0, 1: 1, 2: 1}, {0: 2, 1: 0, 2: 1, 3: 1}, {3: 2}, {1: 2, 2: 1})
    found = score_tasks(labels, weights, n_classes=3)
    assert found.answer.tolist() == [1, 2, 2, 1]
    assert found.tied.tolist() == [True, False, True, True]
    assert found.with_majority.tolist() == [True, False, True, True]
    np.testing.assert_allclose(found.probability[2], 1 / 3)


def test_gold_decides_and_is_no_vote():
    weights = np.array([0.0, 9.0, 9.0, 9.0])
    labels = labels_of({0: 2, 1: 1, 2: 1, 3: 1}, {1: 1, 2: 1})
    found = score_tasks(labels, weights, n_classes=3, gold=0)
    assert found.answer.tolist() == [2, 1]
    assert found.probability[0] == 1.0
    assert GOLD_WEIGHT - 30 < found.score[0] < GOLD_WEIGHT
    assert found.with_majority.tolist() == [False, True]


def test_gold_that_agrees_with_half_of_the_votes_makes_no_majority():
    """One vote for each of two classes, gold for the second: none of them has more votes than the other."""
    labels = labels_of({0: 1, 1: 0, 2: 1, 3: 0}, {0: 1, 1: 0, 2: 0})
    found = score_tasks(labels, np.array([0.0, 1.0, 1.0, 1.0]), n_classes=2, gold=0)
    assert found.answer.tolist() == [1, 1]
    assert found.with_majority.tolist() == [False, False]


CROWDS = st.lists(
    st.dictionaries(st.integers(0, 3), st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=12
)


@given(CROWDS, st.lists(st.floats(-0.2, 0.94), min_size=4, max_size=4), st.sampled_from(crowdcore.scores.RULES))
def test_many_classes_are_scored_like_few(tasks, skills, rule):
    labels = labels_of(*tasks, n_classes=5)
    weights = vote_weights(np.array(skills), BOUND, 5, rule)
    few = score_tasks(labels, weights, n_classes=5, rule=rule)
    with patch.object(crowdcore.scores, "_DENSE_CLASSES", 4):
        many = score_tasks(labels, weights, n_classes=5, rule=rule)
    assert few.answer.tolist() == many.answer.tolist()
    assert few.tied.tolist() == many.tied.tolist()
    assert few.with_majority.tolist() == many.with_majority.tolist()
    for name in ("probability", "margin", "score"):
        np.testing.assert_allclose(getattr(few, name), getattr(many, name), atol=1e-9)


@given(CROWDS, st.lists(st.floats(-0.2, 0.94), min_size=4, max_size=4), st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_workers_or_on_other_tasks(tasks, skills, random):
    weights = vote_weights(np.array(skills), BOUND, 5)
    together = score_tasks(labels_of(*tasks, n_classes=5), weights, n_classes=5)
    names = random.sample(range(4), 4)
    renamed = [{names[w]: y for w, y in task.items()} for task in tasks]
    moved = np.empty(4)
    moved[names] = weights
    with patch.object(crowdcore.scores, "_DENSE_CELLS", 5):
        apart = score_tasks(labels_of(*renamed, n_classes=5), moved, n_classes=5)
    for name in ("answer", "probability", "margin", "score", "tied", "with_majority"):
        assert getattr(together, name).tolist() == getattr(apart, name).tolist()


def test_a_skill_below_what_the_classes_allow_has_the_weight_of_its_bound():
    weights = vote_weights(np.array([-0.9, -0.5]), np.array([0.9, 0.5]), 3)
    np.testing.assert_allclose(weights, [np.log(0.1 / 1.9), np.log(0.5 / 1.5)], atol=1e-9)


def test_accuracy_is_a_probability():
    np.testing.assert_allclose(accuracy_of(np.array([1.0, 0.0, -0.5, -1.0]), 3), [1, 1 / 3, 0, 0])


def test_an_unknown_rule_is_refused():
    with pytest.raises(InvalidOptionError, match="one-coin, one-vs-rest"):
        vote_weights(np.zeros(2), np.ones(2), 2, "softmax")
