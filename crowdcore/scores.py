"""Answers from skills: weighted votes, their log-odds and probabilities.

A worker of skill s who chooses class k adds to the score of k, with K classes,

    w = log((1 + (K − 1) s) / (1 − s)),      P(k) ∝ π_k exp(score(k)),

which is the likelihood ratio of the one-coin model (Nitzan and Paroush's log-odds vote when K = 2). The paper's
"one-vs-rest" rule is score(k) = Σ ± log((1 + s) / (1 − s)), plus where the label is k, minus where it is not; P(k) is
then proportional to the logistic function of score(k). With two classes both rules are the same.

Weights are rounded to multiples of 2⁻³⁰. Their sums are then exact, so that an answer does not depend on the order in
which the labels of a task are added up, and labels of equal weight tie exactly. The highest score wins; between equals
the class with more votes, then the class that sorts first.

>>> from crowdcore.labels import group_labels
>>> labels = group_labels([0, 0, 0], [0, 1, 2], [1, 0, 0], n_tasks=1, n_workers=3, n_classes=2).labels
>>> weights = vote_weights(np.array([0.9, 0.2, 0.2]), np.array([0.95, 0.95, 0.95]), n_classes=2)
>>> found = score_tasks(labels, weights, n_classes=2)
>>> found.answer, found.probability.round(3)
(array([1]), array([0.894]))
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdcore.errors import InvalidOptionError
from crowdcore.labels import Ints, TaskLabels
from crowdcore.options import RULES

GOLD_WEIGHT = float(1 << 20)
_GRAIN = float(1 << 30)
_DENSE_CLASSES = 64
_DENSE_CELLS = 1 << 22

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TaskScores:
    """The answers to a group of tasks; every array has one entry a task.

    Attributes:
        answer: the class code.
        probability: of the answer.
        margin: score of the answer minus that of the runner-up.
        score: log-odds of the answer against all other classes together.
        tied: whether another class has the same score.
        with_majority: whether no class has more votes than the answer.
        probabilities: (tasks, classes) when asked for.
    """

    answer: Ints
    probability: Floats
    margin: Floats
    score: Floats
    tied: NDArray[np.bool_]
    with_majority: NDArray[np.bool_]
    probabilities: Floats | None = None


def accuracy_of(skills: Floats, n_classes: int) -> Floats:
    """The probability of being right that a skill stands for: (1 + (K − 1) s) / K, never below 0."""
    return np.maximum(1 + (n_classes - 1) * skills, 0.0) / n_classes


def vote_weights(skills: Floats, bounds: Floats, n_classes: int, rule: str = "one-coin") -> Floats:
    """(workers,) what each worker's vote weighs.

    With more than two classes a skill below −1/(K − 1) stands for no accuracy; it counts as that value, drawn in by the
    worker's bound as every skill is.
    """
    if rule not in RULES:
        raise InvalidOptionError(f"the multiclass rule is {rule!r}; it takes {', '.join(RULES)}")
    if rule == "one-vs-rest" or n_classes == 2:
        weights = np.log1p(skills) - np.log1p(-skills)
    else:
        weights = np.log(np.maximum(1 + (n_classes - 1) * skills, 1 - bounds)) - np.log1p(-skills)
    return np.rint(weights * _GRAIN) / _GRAIN


def score_tasks(
    labels: TaskLabels,
    weights: Floats,
    *,
    n_classes: int,
    rule: str = "one-coin",
    class_prior: Floats | None = None,
    gold: int = -1,
    probabilities: bool = False,
) -> TaskScores:
    """Scores every task.

    Args:
        labels: what was said.
        weights: (workers,) from `vote_weights`.
        n_classes: how many classes there are.
        rule: "one-coin" or "one-vs-rest".
        class_prior: (classes,) how frequent the classes are; all alike when not given.
        gold: worker code of the known answers: their weight is `GOLD_WEIGHT`, and they are no vote.
        probabilities: whether to give the probability of every class.
    """
    prior = np.zeros(n_classes) if class_prior is None else np.rint(np.log(class_prior) * _GRAIN) / _GRAIN
    if n_classes > _DENSE_CLASSES and not probabilities and class_prior is None:
        return _score_sparse(labels, weights, n_classes, rule, gold)
    step = max(1, _DENSE_CELLS // n_classes)
    cuts = range(0, max(labels.n_tasks, 1), step)
    groups = [tasks_between(labels, low, min(low + step, labels.n_tasks)) for low in cuts]
    parts = [_score_dense(group, weights, prior, rule, gold, probabilities) for group in groups]
    return parts[0] if len(parts) == 1 else joined_scores(parts)


def _score_dense(
    labels: TaskLabels, weights: Floats, prior: Floats, rule: str, gold: int, probabilities: bool
) -> TaskScores:
    shape = (labels.n_tasks, len(prior))
    cell = labels.task * len(prior) + labels.label
    weight, vote = _label_weights(labels, weights, gold)
    total = np.asarray(np.bincount(cell, weight, minlength=shape[0] * shape[1]), np.float64).reshape(shape)
    votes = np.bincount(cell, vote, minlength=shape[0] * shape[1]).reshape(shape)
    if rule == "one-vs-rest" and len(prior) > 2:
        total = 2 * total - total.sum(axis=1, keepdims=True)
    total = total + prior
    best = total.max(axis=1, initial=-np.inf)
    leads = total == best[:, None]
    answer = np.where(leads, votes, -1.0).argmax(axis=1)
    rows = np.arange(shape[0])
    others = total.copy()
    others[rows, answer] = -np.inf
    second = others.max(axis=1, initial=-np.inf)
    scale = _log_likelihood if rule == "one-coin" or len(prior) == 2 else _log_logistic
    top, level = scale(best), scale(second)
    rest = np.exp(scale(others) - level[:, None]).sum(axis=1)
    score = top - level - np.log(rest)
    every = None
    if probabilities:
        share = np.exp(scale(total) - top[:, None])
        every = share / share.sum(axis=1, keepdims=True)
    return TaskScores(
        answer,
        _logistic(score),
        best - second,
        score,
        leads.sum(axis=1) > 1,
        votes[rows, answer] == votes.max(axis=1, initial=0),
        every,
    )


@dataclass(frozen=True)
class _Cells:
    """Classes of tasks, one entry a cell; a cell may stand for several classes that are alike."""

    task: Ints
    label: Ints
    total: Floats
    votes: Floats
    n_alike: Floats


def _score_sparse(labels: TaskLabels, weights: Floats, n_classes: int, rule: str, gold: int) -> TaskScores:
    """As `_score_dense` for many classes: only those that a task's labels name have a cell, the rest are alike."""
    cells = _ranked_cells(labels, weights, n_classes, rule, gold)
    first = np.searchsorted(cells.task, np.arange(labels.n_tasks))
    scale = _log_likelihood if rule == "one-coin" else _log_logistic
    best = cells.total[first]
    n_others = cells.n_alike.copy()
    n_others[first] -= 1
    left = np.where(n_others > 0, cells.total, -np.inf)
    second: Floats = np.maximum.reduceat(left, first) if len(first) else best
    level = scale(second)
    share = np.exp(np.where(n_others > 0, scale(cells.total) - level[cells.task], -np.inf))
    rest = np.bincount(cells.task, n_others * share, labels.n_tasks)
    score = scale(best) - level - np.log(rest)
    most: Floats = np.maximum.reduceat(cells.votes, first) if len(first) else best
    with_majority = cells.votes[first] == most
    return TaskScores(cells.label[first], _logistic(score), best - second, score, best == second, with_majority)


def _ranked_cells(labels: TaskLabels, weights: Floats, n_classes: int, rule: str, gold: int) -> _Cells:
    """The cells of each task, the answer's first, and one for the classes that none of its labels names."""
    weight, vote = _label_weights(labels, weights, gold)
    named, cell = np.unique(labels.task * n_classes + labels.label, return_inverse=True)
    task, label = named // n_classes, named % n_classes
    silent = _silent_class(task, label, labels.n_tasks, n_classes)
    quiet = np.flatnonzero(silent >= 0)
    nothing = np.zeros(len(quiet))
    n_silent = n_classes - np.bincount(task, minlength=labels.n_tasks)[quiet]
    total = np.concatenate([np.bincount(cell, weight, len(named)), nothing])
    votes = np.concatenate([np.bincount(cell, vote, len(named)), nothing])
    n_alike = np.concatenate([np.ones(len(named)), n_silent.astype(np.float64)])
    task, label = np.concatenate([task, quiet]), np.concatenate([label, silent[quiet]])
    if rule == "one-vs-rest":
        total = 2 * total - np.bincount(task, total, labels.n_tasks)[task]
    order = np.lexsort([label, -votes, -total, task])
    return _Cells(task[order], label[order], total[order], votes[order], n_alike[order])


def _silent_class(task: Ints, label: Ints, n_tasks: int, n_classes: int) -> Ints:
    """(tasks,) the first class that no label of the task names, or -1; cells are sorted by task and label."""
    first = np.searchsorted(task, np.arange(n_tasks))
    place = np.arange(len(task)) - first[task]
    run = np.bincount(task, label == place, n_tasks).astype(np.int64)
    return np.where(run < n_classes, run, -1)


def _label_weights(labels: TaskLabels, weights: Floats, gold: int) -> tuple[Floats, Floats]:
    """(labels,) weight and vote of each label."""
    known = labels.worker == gold
    return np.where(known, GOLD_WEIGHT, weights[labels.worker]), np.where(known, 0.0, 1.0)


def tasks_between(labels: TaskLabels, low: int, high: int) -> TaskLabels:
    """The labels of the tasks from `low` to `high`, that one not among them."""
    if low == 0 and high == labels.n_tasks:
        return labels
    a, b = labels.starts[low], labels.starts[high]
    starts = labels.starts[low : high + 1] - a
    return TaskLabels(starts, labels.worker[a:b], labels.label[a:b], labels.n_workers, labels.n_classes)


def joined_scores(parts: list[TaskScores]) -> TaskScores:
    """The answers of several groups of tasks, one after the other."""
    every = [part.probabilities for part in parts if part.probabilities is not None]
    return TaskScores(
        np.concatenate([part.answer for part in parts]),
        np.concatenate([part.probability for part in parts]),
        np.concatenate([part.margin for part in parts]),
        np.concatenate([part.score for part in parts]),
        np.concatenate([part.tied for part in parts]),
        np.concatenate([part.with_majority for part in parts]),
        np.concatenate(every) if every else None,
    )


def _log_likelihood(score: Floats) -> Floats:
    return score


def _log_logistic(score: Floats) -> Floats:
    return -np.logaddexp(0.0, -score)


def _logistic(score: Floats) -> Floats:
    low = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, low) / (1.0 + low)
