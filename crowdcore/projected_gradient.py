"""The paper's method from labels to answers: pair counts, skills by `fit_skills`, answers by weighted votes.

Gold, the known answers of some tasks, is a worker that is always right: its skill is held at 1, its pairs with the
others tell their skills and the sign, and its answers stand.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1, 1], [0, 1, 2] * 2, [1, 1, 0, 0, 0, 1], n_tasks=2, n_workers=3, n_classes=2)
>>> projected_gradient(crowd.labels).answer
array([1, 0])
>>> projected_gradient(crowd.labels, gold=np.array([0, -1])).answer
array([0, 1])
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidLabelsError
from crowdcore.graph import GOLD
from crowdcore.labels import Ints, TaskLabels, group_labels
from crowdcore.pgd import fit_skills
from crowdcore.scores import score_tasks, vote_weights
from crowdcore.weights import Floats


def projected_gradient(
    labels: TaskLabels,
    *,
    gold: Ints | None = None,
    rule: str = "one-coin",
    class_prior: Floats | None = None,
    **options: Any,
) -> Aggregation:
    """Answers, probabilities and skills.

    Between equal scores the class with more votes is the answer, then the one with the smallest code. A worker without
    labels has the skill 0.

    Args:
        labels: what was said.
        gold: (tasks,) class codes of known answers; -1 where none is known.
        rule: "one-coin" or "one-vs-rest", see `crowdcore.scores`.
        class_prior: (classes,) how frequent the classes are; all alike when not given.
        options: of `crowdcore.pgd.fit_skills`.
    """
    known = labels if gold is None else _with_gold(labels, gold)
    names = _names(known.n_workers, has_gold=gold is not None)
    edges = EdgeCounts.of(known, names, [f"{code:09d}" for code in range(labels.n_classes)])
    fit = fit_skills(edges, n_classes=max(2, labels.n_classes), **options)
    code = np.searchsorted(names, fit.workers)
    skills, bounds = np.zeros(known.n_workers), np.zeros(known.n_workers)
    skills[code], bounds[code] = fit.skills, fit.bounds
    gold_code = -1 if gold is None else 0
    found = weighted_vote(known, skills, bounds, rule=rule, class_prior=class_prior, gold=gold_code)
    return replace(
        found, skills=skills[gold_code + 1 :], loss_history=fit.loss_history, converged=fit.converged
    )  # fmt: skip


def weighted_vote(
    labels: TaskLabels,
    skills: Floats,
    bounds: Floats,
    *,
    rule: str = "one-coin",
    class_prior: Floats | None = None,
    gold: int = -1,
) -> Aggregation:
    """The answers of workers whose skills are known.

    Args:
        labels: what was said.
        skills: (workers,) s.
        bounds: (workers,) how far from 0 a skill may be; farther ones are drawn in.
        rule: "one-coin" or "one-vs-rest".
        class_prior: (classes,) how frequent the classes are; all alike when not given.
        gold: worker code of the known answers.
    """
    n_classes, one = max(2, labels.n_classes), labels.n_classes == 1
    drawn_in = np.where(np.arange(len(skills)) == gold, 0.0, np.clip(skills, -bounds, bounds))
    found = score_tasks(
        labels, vote_weights(drawn_in, bounds, n_classes, rule), n_classes=n_classes, rule=rule,
        class_prior=None if one else class_prior, gold=gold, probabilities=True,
    )  # fmt: skip
    every = np.ones((labels.n_tasks, 1)) if one or found.probabilities is None else found.probabilities
    prior = np.full(labels.n_classes, 1 / max(labels.n_classes, 1)) if class_prior is None else class_prior
    return Aggregation(np.where(one, 0, found.answer), every, skills, prior)


def skill_bounds(labels: TaskLabels, tau: float = 1.0) -> Floats:
    """(workers,) 1 − τ / √n, n the labels of the worker: how far from 0 `fit_skills` lets a skill be."""
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    return np.maximum(0.0, 1 - tau / np.sqrt(np.maximum(n_labels, 1)))


def _names(n_workers: int, has_gold: bool) -> NDArray[Any]:
    """(workers,) ids that sort as the codes do; gold comes first."""
    names = np.array([f"{code:09d}" for code in range(n_workers)], object)
    names[: int(has_gold)] = GOLD
    return names


def _with_gold(labels: TaskLabels, gold: Ints) -> TaskLabels:
    """The labels with one more worker, of code 0, who gives the known answers; the others move up by one."""
    if gold.shape != (labels.n_tasks,) or np.any(gold >= labels.n_classes):
        raise InvalidLabelsError(
            f"gold takes one class code below {labels.n_classes} for each of {labels.n_tasks} tasks"
        )
    task = np.flatnonzero(gold >= 0)
    return group_labels(
        np.concatenate([labels.task, task]),
        np.concatenate([labels.worker + 1, np.zeros(len(task), np.int64)]),
        np.concatenate([labels.label, gold[task]]),
        n_tasks=labels.n_tasks, n_workers=labels.n_workers + 1, n_classes=labels.n_classes,
    ).labels  # fmt: skip
