"""One-coin Dawid-Skene: one probability of being right for each worker, by expectation and maximisation.

Worker w is right with probability p_w and otherwise says any of the K − 1 other classes alike. A task has the class k
with probability π_k. The two steps are repeated:

    expectation     q_t(k) ∝ π_k Π_{(w, l) on t} p_w where l = k, (1 − p_w)/(K − 1) where not
    maximisation    p_w = mean of q_t(l) over the labels (t, l) of w,    π_k = mean_t q_t(k)

with p kept 1e-10 away from 0 and 1. They start from the shares of the labels. No step lowers the likelihood; its mean
over the labels, with its sign changed, is the loss, and the rounds end when it falls by less than `tol`.

Y. Zhang, X. Chen, D. Zhou, M. I. Jordan: Spectral methods meet EM. Journal of Machine Learning Research 17 (2016),
section 5, has the model. The start and the limits are those of crowd-kit, to which the results compare.

Only the labels are walked through, whatever the number of classes: memory is that of the labels and of the
probabilities. What is added up is rounded to multiples of 2⁻³⁰, so that sums below 2²³ are exact in any order and
`m_step_right` of groups of tasks adds up to that of all.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels(
...     [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2] * 3, [0, 0, 1, 1, 1, 1, 0, 0, 1], n_tasks=3, n_workers=3, n_classes=2
... )
>>> found = one_coin_dawid_skene(crowd.labels)
>>> found.answer, found.accuracies.round(2)
(array([0, 1, 0]), array([1.  , 1.  , 0.33]))
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.dawid_skene import (
    SMOOTHING,
    Expectation,
    check_rounds,
    class_totals,
    normalised,
    on_grain,
    prior_of,
    vote_shares,
)
from crowdcore.labels import TaskLabels
from crowdcore.weights import Floats


def one_coin_dawid_skene(
    labels: TaskLabels, *, n_rounds: int = 100, tol: float = 1e-5, start: Floats | None = None
) -> Aggregation:
    """Answers, class frequencies and accuracies of greatest likelihood, from a start.

    The result has no confusion matrices; `one_coin_confusion` makes them. A task without labels gets the class
    frequencies, and has no part in them. A worker without labels says every class alike. Of equally probable classes
    the one with the smallest code is the answer.

    Args:
        labels: what was said.
        n_rounds: at most so many rounds of both steps; at least 1.
        tol: the rounds end when the loss falls by less than this; a negative number means that they never do.
        start: (tasks, classes) probabilities to start from; shares of the labels when not given.
    """
    check_rounds(labels, n_rounds, start)
    answered = labels.sizes > 0
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    probabilities = vote_shares(labels) if start is None else start
    losses: list[float] = []
    converged = False
    for _ in range(n_rounds):
        accuracies = accuracies_of(m_step_right(labels, probabilities), n_labels, labels.n_classes)
        prior = prior_of(class_totals(probabilities[answered]))
        step = one_coin_e_step(labels, accuracies, prior)
        probabilities = step.probabilities
        losses.append(-step.log_likelihood / max(len(labels.label), 1))
        converged = len(losses) > 1 and losses[-2] - losses[-1] < tol
        if converged:
            break
    accuracies = accuracies_of(m_step_right(labels, probabilities), n_labels, labels.n_classes)
    prior = prior_of(class_totals(probabilities[answered]))
    return Aggregation.of(
        probabilities, _skills(accuracies, labels.n_classes), prior, loss_history=tuple(losses),
        converged=converged or not len(labels.label),
    )  # fmt: skip


def m_step_right(labels: TaskLabels, probabilities: Floats) -> Floats:
    """(workers,) how many labels of each worker are right; sums of groups of tasks add up to those of all.

    Args:
        labels: what was said on a group of tasks.
        probabilities: (tasks, classes) of each class on these tasks.
    """
    right = on_grain(probabilities[labels.task, labels.label])
    return np.bincount(labels.worker, right, labels.n_workers).astype(np.float64, copy=False)


def accuracies_of(right: Floats, n_labels: NDArray[Any], n_classes: int) -> Floats:
    """(workers,) p from the labels of all tasks: the share of right ones, 1/K without labels.

    With two classes or more p stays 1e-10 away from 0 and 1.

    >>> accuracies_of(np.array([3.0, 0.0]), np.array([4, 0]), n_classes=2)
    array([0.75, 0.5 ])
    """
    share = np.where(n_labels > 0, right / np.maximum(n_labels, 1), 1 / max(n_classes, 1))
    return np.clip(share, SMOOTHING, 1 - SMOOTHING) if n_classes > 1 else np.ones(len(share))


def one_coin_e_step(labels: TaskLabels, accuracies: Floats, prior: Floats) -> Expectation:
    """The probability of each class on each task, and the log-likelihood of the labels.

    Args:
        labels: what was said on a group of tasks.
        accuracies: (workers,) p; between 0 and 1.
        prior: (classes,) class frequencies; above 0.
    """
    shape = (labels.n_tasks, len(prior))
    wrong = on_grain(np.log((1 - accuracies) / (len(prior) - 1)) if len(prior) > 1 else np.zeros(len(accuracies)))
    gain = (on_grain(np.log(accuracies)) - wrong)[labels.worker]
    total = np.bincount(labels.task * shape[1] + labels.label, gain, shape[0] * shape[1])
    score = total.astype(np.float64, copy=False).reshape(shape)  # without labels they are integers
    score += np.bincount(labels.task, wrong[labels.worker], shape[0])[:, None]
    score += on_grain(np.log(prior))
    return normalised(score)


def one_coin_confusion(accuracies: Floats, n_classes: int) -> Floats:
    """(workers, classes, classes) probability of the label (last) given the class.

    >>> one_coin_confusion(np.array([0.7]), 2)
    array([[[0.7, 0.3],
            [0.3, 0.7]]])
    """
    same = np.eye(n_classes, dtype=bool)
    wrong = (1 - accuracies) / max(n_classes - 1, 1)
    return np.where(same, accuracies[:, None, None], wrong[:, None, None])


def _skills(accuracies: Floats, n_classes: int) -> Floats:
    """(workers,) (K p − 1)/(K − 1); 1 with one class."""
    return (n_classes * accuracies - 1) / (n_classes - 1) if n_classes > 1 else np.ones(len(accuracies))
