"""Dawid-Skene: a confusion matrix for each worker, by expectation and maximisation.

A task has the class k with probability π_k. Worker w says l on a task of class k with probability C_w[k, l], whatever
the others say. The two steps are repeated:

    expectation     q_t(k) ∝ π_k Π_{(w, l) on t} C_w[k, l]
    maximisation    n_w[k, l] = Σ_{t: w says l} q_t(k),    C_w[k, l] = m_w[k, l] / Σ_l m_w[k, l],    π_k = mean_t q_t(k)

with m = max(n, smoothing). They start from q_t(k), the share of the labels of t that are k. No step lowers the
likelihood Σ_t log Σ_k π_k Π C_w[k, l]; its mean over the labels, with its sign changed, is the loss. The rounds end
when it falls by less than `tol`.

A. P. Dawid, A. M. Skene: Maximum likelihood estimation of observer error-rates using the EM algorithm. Applied
Statistics 28 (1979). The start, the smoothing of 1e-10 and the class frequencies from the latest q are those of
crowd-kit, to which the results compare. It differs in a row without counts, which crowd-kit spreads over the labels
that the worker has used, not over all classes, and in the end of the rounds, which there goes by another bound.

A step is a product with one sparse matrix of tasks by (worker, label), so that nothing as large as workers × tasks is
ever made. Both steps work on any group of whole tasks: `m_step_counts` and `class_totals` of the groups add up to those
of all. Probabilities that are added up and logarithms are rounded to multiples of 2⁻³⁰. Sums below 2²³ are then exact,
in any order, and the result does not depend on how the tasks were grouped.

Two workers agree on three tasks and differ on one. Nothing but the start tells who is right there, so it stays even:

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels(
...     [0, 0, 1, 1, 2, 2, 3, 3], [0, 1] * 4, [0, 0, 1, 1, 1, 1, 0, 1], n_tasks=4, n_workers=2, n_classes=2
... )
>>> found = dawid_skene(crowd.labels, n_rounds=1)
>>> found.answer, found.probabilities[:, 1].round(2)
(array([0, 1, 1, 0]), array([0. , 1. , 1. , 0.5]))
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import TaskLabels
from crowdcore.weights import Floats

SMOOTHING = 1e-10
_GRAIN = float(1 << 30)


def dawid_skene(
    labels: TaskLabels,
    *,
    n_rounds: int = 100,
    tol: float = 1e-5,
    smoothing: float = SMOOTHING,
    start: Floats | None = None,
    prior: Floats | None = None,
    additive: bool = False,
) -> Aggregation:
    """Answers, class frequencies and confusion matrices of greatest likelihood, from a start.

    A task without labels gets the class frequencies, and has no part in them. A worker without labels says every class
    alike. Of equally probable classes the one with the smallest code is the answer.

    Args:
        labels: what was said.
        n_rounds: at most so many rounds of both steps; at least 1.
        tol: the rounds end when the loss falls by less than this; a negative number means that they never do.
        smoothing: the least count that a cell of a confusion matrix gets, above 0; see `additive`.
        start: (tasks, classes) probabilities to start from; shares of the labels when not given.
        prior: (classes,) class frequencies that are held fixed; found with the rest when not given.
        additive: whether `smoothing` is added to every cell, and to every class total, instead. The steps then climb
            the posterior density under Dirichlet priors of 1 + smoothing, and the loss is its logarithm's instead.
    """
    check_rounds(labels, n_rounds, start)
    if not smoothing > 0:
        raise InvalidOptionError(f"smoothing is {smoothing}; it takes a number above 0")
    said = said_by_task(labels)
    probabilities = vote_shares(labels) if start is None else start
    losses: list[float] = []
    converged = False
    for _ in range(n_rounds):
        confusion, frequency = _maximise(labels, said, probabilities, smoothing, prior, additive)
        step = _expect(said, confusion, frequency)
        probabilities = step.probabilities
        gain = smoothing * float(np.log(confusion).sum() + np.log(frequency).sum()) if additive else 0.0
        losses.append(-(step.log_likelihood + gain) / max(len(labels.label), 1))
        converged = len(losses) > 1 and losses[-2] - losses[-1] < tol
        if converged:
            break
    confusion, frequency = _maximise(labels, said, probabilities, smoothing, prior, additive)
    return Aggregation.of(
        probabilities, skills_of(confusion, frequency), frequency, confusion=confusion, loss_history=tuple(losses),
        converged=converged or not len(labels.label),
    )  # fmt: skip


def vote_shares(labels: TaskLabels) -> Floats:
    """(tasks, classes) the share of each class among the labels of a task; all classes alike where there are none."""
    shape = (labels.n_tasks, labels.n_classes)
    votes = np.bincount(labels.task * labels.n_classes + labels.label, minlength=shape[0] * shape[1])
    sizes = labels.sizes[:, None]
    return np.where(sizes > 0, votes.reshape(shape) / np.maximum(sizes, 1), 1 / max(labels.n_classes, 1))


def m_step_counts(labels: TaskLabels, probabilities: Floats) -> Floats:
    """(workers, classes, classes) how often each worker says the label (last) on a task of the class (middle).

    Counts of groups of tasks add up to the counts of all: exactly, while a sum is below 2²³.

    Args:
        labels: what was said on a group of tasks.
        probabilities: (tasks, classes) of each class on these tasks.
    """
    return _counts(said_by_task(labels), probabilities, labels.n_workers)


def class_totals(probabilities: Floats) -> Floats:
    """(classes,) how many tasks are of each class; totals of groups of tasks add up, as the counts do."""
    return np.asarray(on_grain(probabilities).sum(axis=0))


def confusion_of(counts: Floats, smoothing: float = SMOOTHING, *, additive: bool = False) -> Floats:
    """(workers, classes, classes) probability of the label (last) given the class, from the counts of all tasks.

    Cells below `smoothing` are raised to it, or it is added to all; then each row is divided by its sum.

    >>> confusion_of(np.array([[[3.0, 1.0], [0.0, 0.0]]]))
    array([[[0.75, 0.25],
            [0.5 , 0.5 ]]])
    >>> confusion_of(np.array([[[6.0, 2.0], [0.0, 0.0]]]), 1.0, additive=True)
    array([[[0.7, 0.3],
            [0.5, 0.5]]])
    """
    raised = counts + smoothing if additive else np.maximum(counts, smoothing)
    raised /= raised.sum(axis=-1, keepdims=True)
    return np.asarray(raised)


def prior_of(totals: Floats, added: float = 0.0) -> Floats:
    """(classes,) class frequencies from the class totals of all tasks; totals below 1e-10 are raised to it.

    >>> prior_of(np.array([3.0, 1.0])), prior_of(np.array([3.0, 1.0]), added=2.0)
    (array([0.75, 0.25]), array([0.625, 0.375]))
    """
    raised = np.maximum(totals + added, SMOOTHING)
    return np.asarray(raised / raised.sum()) if len(raised) else raised


def e_step(labels: TaskLabels, confusion: Floats, prior: Floats) -> Floats:
    """(tasks, classes) the probability of each class on each task.

    Args:
        labels: what was said on a group of tasks.
        confusion: (workers, classes, classes) probability of the label (last) given the class; above 0.
        prior: (classes,) class frequencies; above 0.
    """
    return _expect(said_by_task(labels), confusion, prior).probabilities


def skills_of(confusion: Floats, prior: Floats) -> Floats:
    """(workers,) (K p − 1)/(K − 1), with p = Σ_k π_k C_w[k, k] the probability of being right; 1 with one class."""
    n_classes = len(prior)
    right = np.einsum("wkk,k->w", confusion, prior)
    return np.clip((n_classes * right - 1) / (n_classes - 1), -1.0, 1.0) if n_classes > 1 else np.ones(len(confusion))


@dataclass(frozen=True, eq=False)
class Expectation:
    """(tasks, classes) probabilities, and the log-likelihood of the labels."""

    probabilities: Floats
    log_likelihood: float


def said_by_task(labels: TaskLabels) -> Any:
    """Sparse (tasks, workers · classes): 1 where the worker said the class on the task."""
    column = labels.worker * labels.n_classes + labels.label
    shape = (labels.n_tasks, labels.n_workers * labels.n_classes)
    return sparse.csr_array((np.ones(len(column)), column, labels.starts), shape=shape)


def _counts(said: Any, probabilities: Floats, n_workers: int) -> Floats:
    totals = said.T @ on_grain(probabilities)
    n_classes = probabilities.shape[1]
    return np.asarray(totals.reshape(n_workers, n_classes, n_classes).transpose(0, 2, 1))


def _maximise(
    labels: TaskLabels, said: Any, probabilities: Floats, smoothing: float, prior: Floats | None, additive: bool
) -> tuple[Floats, Floats]:
    """The maximisation step: confusion matrices and class frequencies."""
    counts = _counts(said, probabilities, labels.n_workers)
    if prior is None:
        prior = prior_of(class_totals(probabilities[labels.sizes > 0]), smoothing if additive else 0.0)
    return confusion_of(counts, smoothing, additive=additive), prior


def _expect(said: Any, confusion: Floats, prior: Floats) -> Expectation:
    """The expectation step. `said` may be any sparse matrix with the columns of `said_by_task`."""
    return normalised(class_scores(said, confusion, prior))


def class_scores(said: Any, confusion: Floats, prior: Floats) -> Floats:
    """(tasks, classes) log π_k + Σ log C_w[k, l], each logarithm on its grain; `normalised` makes probabilities of it.

    Args:
        said: from `said_by_task`.
        confusion: (workers, classes, classes) probability of the label (last) given the class; above 0.
        prior: (classes,) class frequencies; above 0.
    """
    n_classes = len(prior)
    logs = on_grain(np.log(confusion.transpose(0, 2, 1)))
    score: Floats = said @ logs.reshape(said.shape[1], n_classes)
    score += on_grain(np.log(prior))
    return score


def on_grain(values: Floats) -> Floats:
    """Rounded to multiples of 2⁻³⁰, so that sums do not depend on their order."""
    return np.rint(values * _GRAIN) / _GRAIN


def normalised(score: Floats) -> Expectation:
    """Probabilities in proportion to exp(score), which is written over, and the sum of the logarithms of the sums."""
    best = score.max(axis=1, keepdims=True, initial=-np.inf)
    score -= best
    share = np.exp(score, out=score)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    return Expectation(share, float(best.sum() + np.log(total).sum()))


def check_rounds(labels: TaskLabels, n_rounds: int, start: Floats | None) -> None:
    """Raises where there is no round, or where the start does not fit the labels."""
    if n_rounds < 1:
        raise InvalidOptionError(f"n_rounds is {n_rounds}; it takes 1 or more")
    if start is not None and start.shape != (labels.n_tasks, labels.n_classes):
        raise InvalidLabelsError(
            f"start has shape {start.shape}; there are {labels.n_tasks} tasks and {labels.n_classes} classes"
        )
