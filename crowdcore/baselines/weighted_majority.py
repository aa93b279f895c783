"""Majority vote in which a worker's vote weighs what it is said to weigh; without weights, plain majority vote.

The answer to a task is the class with the greatest sum of weights; of several the one with the smallest code. Its
probability is its share of the sum. A worker's accuracy is the share of its labels that are the answer.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 0, 0, 1, 0], n_tasks=2, n_workers=3, n_classes=2)
>>> weighted_majority(crowd.labels).answer
array([0, 0])
>>> weighted_majority(crowd.labels, np.array([3.0, 1.0, 1.0])).probabilities
array([[0.4 , 0.6 ],
       [0.25, 0.75]])
"""

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import Ints, TaskLabels
from crowdcore.weights import Floats

_GRAIN = float(1 << 30)


def weighted_majority(labels: TaskLabels, weights: Floats | None = None, *, gold: Ints | None = None) -> Aggregation:
    """Answers each task with the class of the greatest weight.

    Weights are rounded to multiples of 2⁻³⁰, so that their sums do not depend on the order of the labels. A task on
    which they add up to 0 has all classes alike.

    Args:
        labels: what was said.
        weights: (workers,) at least 0; NaN: the labels of this worker do not count. All alike when not given.
        gold: (tasks,) class codes of known answers, which stand; -1 where none is known.
    """
    shape = (labels.n_tasks, labels.n_classes)
    each = None if weights is None else _label_weights(labels, weights)
    cells = labels.task * labels.n_classes + labels.label
    total = np.bincount(cells, each, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    whole = total.sum(axis=1, keepdims=True)
    shares = np.full(shape, 1 / max(labels.n_classes, 1))
    np.divide(total, whole, out=shares, where=whole > 0)
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        shares[known] = 0.0
        shares[known, gold[known]] = 1.0
    found = Aggregation.of(shares, np.zeros(labels.n_workers), _mean(shares))
    right = np.bincount(labels.worker, found.answer[labels.task] == labels.label, minlength=labels.n_workers)
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    n_classes = max(2, labels.n_classes)
    skills = (n_classes * right / np.maximum(n_labels, 1) - 1) / (n_classes - 1)
    return Aggregation.of(shares, np.where(n_labels > 0, skills, 0.0), found.prior)


def _label_weights(labels: TaskLabels, weights: Floats) -> Floats:
    if np.any(weights < 0) or np.any(np.isinf(weights)):
        raise InvalidOptionError("a weight is below 0 or infinite; majority vote takes finite weights of at least 0")
    each = (np.rint(weights * _GRAIN) / _GRAIN)[labels.worker]
    counts = ~np.isnan(each)
    silent = int(np.sum(np.bincount(labels.task[counts], minlength=labels.n_tasks)[labels.sizes > 0] == 0))
    if silent:
        raise InvalidLabelsError(
            f"{silent} tasks have no label of a worker with a weight; give weights for more workers"
        )
    return np.where(counts, each, 0.0)


def _mean(shares: Floats) -> Floats | None:
    return shares.mean(axis=0) if len(shares) else None
