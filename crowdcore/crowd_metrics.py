"""How much workers agree, from labels in a data frame, with the names and arguments of crowd-kit.

Krippendorff's alpha compares the disagreement within tasks with that between any two labels. With n_tk labels of class
k on task t, n_t of them on the task, tasks with one label left out, n_k = Σ_t n_tk, n = Σ_k n_k and δ a distance,

    α = 1 − (Σ_t Σ_kl n_tk n_tl δ_kl / (n_t − 1)) / (Σ_kl n_k n_l δ_kl / (n − 1)),

which takes counts only, never pairs of labels (K. Krippendorff: Computing Krippendorff's alpha-reliability, 2011).

The other metrics take workers' accuracies p, the probability of being right (crowd-kit calls them skills, too). A
worker who says l adds p to class l and (1 − p)/(K − 1) to every other class; see each function.

>>> labels = [("x", "ann", "yes"), ("x", "bob", "yes"), ("y", "ann", "no"), ("y", "bob", "no")]
>>> alpha_krippendorff(labels), alpha_krippendorff([*labels, ("z", "ann", "yes"), ("z", "bob", "no")])
(1.0, 0.4444444444444444)
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from crowdcore.baselines.majority import count_votes
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.estimators import MajorityVote
from crowdcore.frames import CodedLabels, code_labels, known_values
from crowdcore.frames.known import gold_codes
from crowdcore.labels import Ints
from crowdcore.weights import Floats


def alpha_krippendorff(
    answers: Any, distance: Callable[[Any, Any], float] | None = None, *, repeats: str = "last"
) -> float:
    """Krippendorff's alpha: 1 for full agreement, about 0 for labels drawn at random.

    Args:
        answers: the labels.
        distance: between two classes, symmetric, 0 for equal ones; 1 for any two that differ when not given.
        repeats: which label of a worker on a task counts.
    """
    coded = code_labels(answers, repeats)
    votes, sizes = count_votes(coded.labels), coded.labels.sizes
    if not np.any(sizes > 1):
        raise InvalidLabelsError("no task has two labels, so there is no agreement to measure")
    counts = sizes[votes.task] > 1
    task, label, count = votes.task[counts], votes.label[counts], votes.count[counts].astype(np.float64)
    n_by_class = np.bincount(label, count, minlength=coded.labels.n_classes)
    n = n_by_class.sum()
    far = _distances(coded, distance)
    expected = n_by_class @ far @ n_by_class / (n - 1)
    if expected == 0:
        return 1.0
    paired = 1 / (sizes[task] - 1.0)
    if distance is None:
        observed = np.sum(count * (sizes[task] - count) * paired)
    else:
        nearby = np.zeros(len(task))
        for other in range(coded.labels.n_classes):  # over classes: a task's labels of one class at a time
            mine = np.bincount(task[label == other], count[label == other], minlength=coded.labels.n_tasks)
            nearby += mine[task] * far[label, other]
        observed = np.sum(count * nearby * paired)
    return float(1 - observed / expected)


def consistency(
    answers: Any, workers_skills: Any = None, aggregator: Any = None, by_task: bool = False, *, repeats: str = "last"
) -> Any:
    """The probability of the aggregated label given the workers' accuracies: its mean, or by task.

    Of class k on a task it is proportional to the product over its labels of p, where the label is k, and of
    (1 − p)/(K − 1), where it is not. A task on which every class is impossible has 0, and so has one without an
    aggregated label, which does not count in the mean.

    Args:
        answers: the labels.
        workers_skills: accuracies by worker; those that the aggregator finds when not given.
        aggregator: what aggregates; majority vote when not given.
        by_task: whether to give a value a task.
        repeats: which label of a worker on a task counts.
    """
    coded = code_labels(answers, repeats)
    _check_labels(coded)
    aggregator = MajorityVote(repeats=repeats) if aggregator is None else aggregator
    aggregated, _ = gold_codes(coded, aggregator.fit_predict(answers))
    right = _accuracies(coded, _found_by(aggregator) if workers_skills is None else workers_skills)
    p, q = right, (1 - right) / max(coded.labels.n_classes - 1, 1)
    chance = _products(coded, p, q)
    total = chance.sum(axis=1)
    answered = aggregated >= 0
    shares = np.zeros(len(total))
    np.divide(chance[np.arange(len(chance)), aggregated], total, out=shares, where=answered & (total > 0))
    if by_task:
        return coded.frames.series(shares, "consistency", "task", coded.tasks)
    return float(shares[answered].mean()) if answered.any() else 0.0


def uncertainty(
    answers: Any,
    workers_skills: Any = None,
    aggregator: Any = None,
    compute_by: str = "task",
    aggregate: bool = True,
    *,
    repeats: str = "last",
) -> Any:
    """Entropy −Σ_k P_k log P_k of the labels of a task, or of a worker: its mean, or each.

    P_k is the mean over the labels of p, where the label is k, and of (1 − p)/(K − 1), where it is not.

    Args:
        answers: the labels.
        workers_skills: accuracies by worker; those that the aggregator finds when not given, else 1 each.
        aggregator: what finds accuracies.
        compute_by: "task" or "worker".
        aggregate: whether to give the mean.
        repeats: which label of a worker on a task counts.
    """
    if compute_by not in ("task", "worker"):
        raise InvalidOptionError(f"compute_by is {compute_by!r}; it takes task or worker")
    coded = code_labels(answers, repeats)
    _check_labels(coded)
    if workers_skills is None and aggregator is not None:
        aggregator.fit(answers)
        workers_skills = _found_by(aggregator)
    right = np.ones(coded.labels.n_workers) if workers_skills is None else _accuracies(coded, workers_skills)
    group, ids = (coded.labels.task, coded.tasks) if compute_by == "task" else (coded.labels.worker, coded.workers)
    p = right[coded.labels.worker]
    q = (1 - p) / max(coded.labels.n_classes - 1, 1)
    total = _summed(coded, group, len(ids), p - q) + np.bincount(group, q, minlength=len(ids))[:, None]
    whole = total.sum(axis=1, keepdims=True)
    shares = np.divide(total, whole, out=np.zeros_like(total), where=whole > 0)
    entropy = np.abs(xlogy(shares, shares).sum(axis=1))
    return float(entropy.mean()) if aggregate else coded.frames.series(entropy, "uncertainty", compute_by, ids)


def accuracy_on_aggregates(
    answers: Any, aggregator: Any = None, aggregates: Any = None, by: str | None = None, *, repeats: str = "last"
) -> Any:
    """The share of labels that are the aggregated label of their task: of all, or by worker or task.

    Args:
        answers: the labels.
        aggregator: what aggregates; majority vote when not given.
        aggregates: aggregated labels by task, instead; tasks without one are left out.
        by: "worker", "task", or None for one number.
        repeats: which label of a worker on a task counts.
    """
    if by not in (None, "task", "worker"):
        raise InvalidOptionError(f"by is {by!r}; it takes task, worker or None")
    coded = code_labels(answers, repeats)
    _check_labels(coded)
    if aggregates is None:
        aggregates = (MajorityVote(repeats=repeats) if aggregator is None else aggregator).fit_predict(answers)
    given = known_values(aggregates, "task")
    known = np.array([task in given for task in coded.frames.values(coded.tasks)], bool)[coded.labels.task]
    if not known.any():
        raise InvalidLabelsError("no task of the labels has an aggregated label, so there is nothing to compare with")
    right = (gold_codes(coded, given)[0][coded.labels.task] == coded.labels.label)[known]
    if by is None:
        return float(right.mean())
    group, ids = (coded.labels.task, coded.tasks) if by == "task" else (coded.labels.worker, coded.workers)
    n_known = np.bincount(group[known], minlength=len(ids))
    there = np.flatnonzero(n_known)
    shares = np.bincount(group[known], right, minlength=len(ids))[there] / n_known[there]
    return coded.frames.series(shares, "accuracy", by, coded.frames.take(ids, there))


def _check_labels(coded: CodedLabels) -> None:
    if not len(coded.labels.label):
        raise InvalidLabelsError("there are no labels to measure")


def _distances(coded: CodedLabels, distance: Callable[[Any, Any], float] | None) -> Floats:
    """(classes, classes) δ."""
    classes = coded.frames.values(coded.classes)
    if distance is None:
        return 1 - np.eye(len(classes))
    return np.array([[distance(one, other) for other in classes] for one in classes], np.float64)


def _found_by(aggregator: Any) -> Any:
    """Accuracies of the workers; other libraries call them skills."""
    if hasattr(aggregator, "accuracies_"):
        return aggregator.accuracies_
    if hasattr(aggregator, "skills_"):
        return aggregator.skills_
    raise InvalidOptionError(f"{type(aggregator).__name__} finds no accuracies; give workers_skills")


def _accuracies(coded: CodedLabels, given: Any) -> Floats:
    known = known_values(given, "worker")
    right = np.array([known.get(worker, np.nan) for worker in coded.frames.values(coded.workers)], np.float64)
    if np.isnan(right).any():
        raise InvalidOptionError(f"{int(np.isnan(right).sum())} workers have no accuracy; give one for each")
    if np.any((right < 0) | (right > 1)):
        raise InvalidOptionError("an accuracy is below 0 or above 1; give probabilities of being right, not skills")
    return right


def _summed(coded: CodedLabels, group: Ints, n_groups: int, values: Any) -> Floats:
    """(groups, classes) sums of a (labels,) array."""
    n_classes = coded.labels.n_classes
    cells = np.bincount(group * n_classes + coded.labels.label, values, minlength=n_groups * n_classes)
    return cells.reshape(n_groups, n_classes).astype(np.float64)


def _products(coded: CodedLabels, p: Floats, q: Floats) -> Floats:
    """(tasks, classes) Π p where the label is the class, Π q where it is not, each task scaled; zeros stay exact."""
    worker, task, n_tasks = coded.labels.worker, coded.labels.task, coded.labels.n_tasks
    (log_p, none_p), (log_q, none_q) = (
        (np.log(np.where(value > 0, value, 1.0))[worker], (value <= 0)[worker].astype(np.float64)) for value in (p, q)
    )
    logs = _summed(coded, task, n_tasks, log_p - log_q) + np.bincount(task, log_q, minlength=n_tasks)[:, None]
    nones = _summed(coded, task, n_tasks, none_p - none_q) + np.bincount(task, none_q, minlength=n_tasks)[:, None]
    possible = np.where(nones == 0, logs, -np.inf)
    best = possible.max(axis=1, keepdims=True, initial=-np.inf)
    return np.where(nones == 0, np.exp(logs - np.where(np.isfinite(best), best, 0.0)), 0.0)
