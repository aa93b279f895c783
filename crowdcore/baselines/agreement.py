"""Skills read off answers: how often a worker agrees with them.

With p the share of a worker's labels that equal the answer and K classes the skill is (K p − 1)/(K − 1), drawn in to
±(1 − 1/√n), n the labels of the worker: the bound that the skills of `fit_skills` keep. It is the rule by which methods
without skills of their own (majority vote, KOS, Ghosh et al.) tell theirs. A worker's own label helps to make the
answer, so that on tasks with few labels these skills are too high.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 1, 2, 3], [0, 0, 0, 0], [1, 1, 0, 0], n_tasks=4, n_workers=2, n_classes=2)
>>> agreement_skills(crowd.labels, np.array([1, 1, 0, 1]))
array([0.5, 0. ])
"""

import numpy as np
from numpy.typing import ArrayLike

from crowdcore.labels import Ints, TaskLabels
from crowdcore.weights import Floats


def agreement_skills(labels: TaskLabels, answer: Ints) -> Floats:
    """(workers,) skills; 0 for a worker without labels.

    Args:
        labels: what was said.
        answer: (tasks,) class codes.
    """
    n = np.bincount(labels.worker, minlength=labels.n_workers)
    agrees = np.bincount(labels.worker, labels.label == answer[labels.task], minlength=labels.n_workers)
    return skills_from_agreements(agrees, n, labels.n_classes)


def skills_from_agreements(n_agree: ArrayLike, n_labels: ArrayLike, n_classes: int) -> Floats:
    """(workers,) skills, from how many of a worker's labels are the answer and how many labels there are.

    >>> skills_from_agreements([3, 0], [4, 0], n_classes=2)
    array([0.5, 0. ])
    """
    n_classes = max(2, n_classes)
    share = np.asarray(n_agree) / np.maximum(np.asarray(n_labels), 1)
    bounds = skill_bounds(n_labels)
    skills: Floats = np.clip((n_classes * share - 1) / (n_classes - 1), -bounds, bounds)
    return skills


def bounds_of(labels: TaskLabels, tau: float = 1.0) -> Floats:
    """(workers,) the `skill_bounds` of the workers of `labels`."""
    return skill_bounds(np.bincount(labels.worker, minlength=labels.n_workers), tau)


def skill_bounds(n_labels: ArrayLike, tau: float = 1.0) -> Floats:
    """(workers,) 1 − τ/√n: how far from 0 the skill of a worker with n labels may be, but never below 0.

    >>> skill_bounds([0, 1, 4, 100])
    array([0. , 0. , 0.5, 0.9])
    """
    bounds: Floats = np.maximum(0.0, 1 - tau / np.sqrt(np.maximum(np.asarray(n_labels), 1)))
    return bounds
