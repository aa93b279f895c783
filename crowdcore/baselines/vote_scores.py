"""The answers of majority vote and of Dawid-Skene in the terms of `crowdcore.scores`: with margins and log-odds.

Of majority vote a score is a number of votes: the margin is the lead over the runner-up, the score the votes for the
answer minus all others. Of Dawid-Skene it is log π_k + Σ log C_w[k, l], from `class_scores`; the margin is the
difference of two such, the score the log-odds of the answer against all other classes together. Where there is no other
class both are `GOLD_WEIGHT`, as for an answer that is given.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 1, 0, 1, 0], n_tasks=2, n_workers=3, n_classes=2)
>>> found = majority_scores(crowd.labels)
>>> found.answer, found.margin, found.tied
(array([1, 0]), array([1., 0.]), array([False,  True]))
>>> likelihood_scores(crowd.labels, np.log([[0.2, 0.8], [0.5, 0.5]])).probability
array([0.8, 0.5])
"""

import numpy as np

from crowdcore.baselines.dawid_skene import normalised, vote_shares
from crowdcore.baselines.majority import count_votes, majority_vote
from crowdcore.labels import TaskLabels
from crowdcore.scores import GOLD_WEIGHT, TaskScores
from crowdcore.weights import Floats


def majority_scores(labels: TaskLabels, *, probabilities: bool = False) -> TaskScores:
    """The answers of majority vote; a task without labels gets class 0 with the probability 0.

    Args:
        labels: what was said.
        probabilities: whether to give the share of every class.
    """
    vote = majority_vote(labels)
    votes, answer = vote.votes, np.maximum(vote.answer, 0)
    chosen = votes.label == answer[votes.task]
    for_answer, runner_up = np.zeros(labels.n_tasks), np.zeros(labels.n_tasks)
    for_answer[votes.task[chosen]] = votes.count[chosen]
    np.maximum.at(runner_up, votes.task[~chosen], votes.count[~chosen])
    return TaskScores(
        answer,
        for_answer / np.maximum(labels.sizes, 1),
        for_answer - runner_up,
        2 * for_answer - labels.sizes,
        vote.tied,
        np.ones(labels.n_tasks, bool),
        vote_shares(labels) if probabilities else None,
    )


def likelihood_scores(labels: TaskLabels, scores: Floats) -> TaskScores:
    """The answers to which the classes' scores lead, with the probability of every class.

    Args:
        labels: what was said.
        scores: (tasks, classes) logarithms of numbers in proportion to the probabilities; one class at least.
    """
    shape, rows = scores.shape, np.arange(labels.n_tasks)
    every = normalised(scores.copy()).probabilities
    answer = np.argmax(every, axis=1)
    best = scores[rows, answer]
    others = scores.copy()
    others[rows, answer] = -np.inf
    second = others.max(axis=1, initial=-np.inf)
    margin = score = np.full(shape[0], GOLD_WEIGHT)
    if shape[1] > 1:
        margin = best - second
        score = margin - np.log(np.exp(others - second[:, None]).sum(axis=1))
    votes = count_votes(labels)
    most = np.zeros(shape[0], np.int64)
    most[votes.task[votes.leads]] = votes.count[votes.leads]
    for_answer = np.zeros(shape[0], np.int64)
    chosen = votes.label == answer[votes.task]
    for_answer[votes.task[chosen]] = votes.count[chosen]
    return TaskScores(answer, every[rows, answer], margin, score, best == second, for_answer == most, every)
