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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.oracle import oracle_vote
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidLabelsError
from crowdcore.graph import GOLD
from crowdcore.labels import Ints, TaskLabels, group_labels
from crowdcore.pgd import fit_skills
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
    found = _found_skills(known, has_gold=gold is not None, **options)
    gold_code = -1 if gold is None else 0
    answers = oracle_vote(
        known, found.skills, bounds=found.bounds, rule=rule, class_prior=class_prior, gold=gold_code
    )  # fmt: skip
    return replace(
        answers, skills=found.skills[gold_code + 1 :], loss_history=found.loss_history, converged=found.converged
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Skills:
    """What is needed of a fit, without its edges, which may be larger than the labels; (workers,) arrays by code."""

    skills: Floats
    bounds: Floats
    loss_history: tuple[float, ...]
    converged: bool


def _found_skills(labels: TaskLabels, *, has_gold: bool, **options: Any) -> _Skills:
    names = _names(labels.n_workers, has_gold)
    edges = EdgeCounts.of(labels, names, [f"{code:09d}" for code in range(labels.n_classes)])
    fit = fit_skills(edges, n_classes=max(2, labels.n_classes), **options)
    code = np.searchsorted(names, fit.workers)
    skills, bounds = np.zeros(labels.n_workers), np.zeros(labels.n_workers)
    skills[code], bounds[code] = fit.skills, fit.bounds
    return _Skills(skills, bounds, fit.loss_history, fit.converged)


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
