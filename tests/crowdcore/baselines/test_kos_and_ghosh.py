"""The two methods on the task-worker graph, and the oracle."""

import numpy as np
import pytest

from crowdcore.baselines.ghosh import ghosh
from crowdcore.baselines.kos import kos, pass_messages
from crowdcore.baselines.majority import majority_vote
from crowdcore.baselines.one_vs_rest import TaskWorkerGraph, class_codes
from crowdcore.baselines.oracle import oracle_vote
from crowdcore.labels import group_labels
from crowdcore.simulate import simulate_crowd


def test_messages_leave_out_the_label_they_travel_by():
    # Tasks 0, 1; workers 0, 1; A = [[1, -1], [1, 1]]; y = [[1, 2], [3, 5]].
    labels = group_labels([0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 1], n_tasks=2, n_workers=2, n_classes=2).labels
    # x00 = -2, x01 = 1, x10 = 5, x11 = 3; y00 = x10 = 5, y01 = x11 = 3, y10 = x00 = -2, y11 = -x01 = -1.
    found = pass_messages(TaskWorkerGraph(labels), class_codes(labels, 1), np.array([1.0, 2.0, 3.0, 5.0]))
    assert found.tolist() == [5.0, 3.0, -2.0, -1.0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", [kos, ghosh])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_spammers_hurt_less_than_they_hurt_majority_vote(method, seed, n_classes):
    crowd = simulate_crowd(
        n_tasks=1000, n_workers=1000, labels_per_task=15, n_classes=n_classes, skills="hammer-spammer:0.7",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    labels = crowd.grouped()
    mine, votes, best = (
        float(np.mean(found.answer != crowd.truth))
        for found in (method(labels), majority_vote(labels), oracle_vote(labels, crowd.skills))
    )
    assert best <= mine + 0.01
    assert mine < 0.6 * votes


def test_ghosh_finds_the_top_eigenvector_of_the_task_task_matrix():
    crowd = simulate_crowd(
        n_tasks=40, n_workers=15, labels_per_task=6, skills="uniform:0,0.9", rng=np.random.default_rng(4)
    )
    U = np.zeros((40, 15))
    U[crowd.task, crowd.worker] = 2.0 * crowd.label - 1
    top = np.linalg.eigh(U @ U.T)[1][:, -1]
    top *= np.sign(top @ U.sum(axis=1))
    assert np.array_equal(ghosh(crowd.grouped()).answer, (top > 0).astype(int))


def test_oracle_weighs_by_the_log_odds():
    labels = group_labels([0] * 4, range(4), [0, 1, 2, 2], n_tasks=1, n_workers=4, n_classes=3).labels
    # Odds (1 + 2 s)/(1 - s): 7 for class 0; 4 for class 1; 2 * 2 for class 2.
    found = oracle_vote(labels, [2 / 3, 0.5, 0.25, 0.25])
    assert found.probabilities[0] == pytest.approx(np.array([7, 4, 4]) / 15)
    assert oracle_vote(labels, [1.0, 0.5, 0.25, 0.25]).answer.tolist() == [0]
    assert oracle_vote(labels, np.zeros(4)).answer.tolist() == [2]  # all scores equal: by votes
