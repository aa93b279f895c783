"""Dawid-Skene where the answers of some tasks are known.

The model and the steps are those of `dawid_skene`. The probabilities of a task with a known answer are 1 for it and 0
for the rest: in the start and after every expectation step, so that both the confusion matrices and the class
frequencies learn from it (as in crowd-kit 1.4). With q the probabilities, n_w[k, l] the counts they give and H their
entropy, the loss is

    −(Σ_{w,k,l} n_w[k, l] log C_w[k, l] + Σ_{t,k} q_t(k) log π_k + H(q)) / labels,

which without known answers is that of `dawid_skene`.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 1, 1], [0, 1] * 2, [0, 1, 0, 1], n_tasks=2, n_workers=2, n_classes=2)
>>> dawid_skene_with_gold(crowd.labels, np.array([1, -1])).answer
array([1, 1])
"""

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.dawid_skene import (
    check_rounds,
    class_totals,
    confusion_of,
    e_step,
    m_step_counts,
    prior_of,
    skills_of,
    vote_shares,
)
from crowdcore.labels import Ints, TaskLabels
from crowdcore.weights import Floats


def dawid_skene_with_gold(labels: TaskLabels, gold: Ints, *, n_rounds: int = 100, tol: float = 1e-5) -> Aggregation:
    """Answers, class frequencies and confusion matrices; every task must have a label.

    Args:
        labels: what was said.
        gold: (tasks,) class codes of known answers; -1 where none is known.
        n_rounds: at most so many rounds of both steps.
        tol: the rounds end when the loss falls by less than this.
    """
    check_rounds(labels, n_rounds, None)
    probabilities = _corrected(vote_shares(labels), gold)
    losses: list[float] = []
    converged = False
    for _ in range(n_rounds):
        confusion, prior = _maximised(labels, probabilities)
        probabilities = _corrected(e_step(labels, confusion, prior), gold)
        losses.append(_loss(labels, probabilities, confusion, prior))
        converged = len(losses) > 1 and losses[-2] - losses[-1] < tol
        if converged:
            break
    confusion, prior = _maximised(labels, probabilities)
    return Aggregation.of(
        probabilities, skills_of(confusion, prior), prior, confusion=confusion, loss_history=tuple(losses),
        converged=converged,
    )  # fmt: skip


def _maximised(labels: TaskLabels, probabilities: Floats) -> tuple[Floats, Floats]:
    return confusion_of(m_step_counts(labels, probabilities)), prior_of(class_totals(probabilities))


def _corrected(probabilities: Floats, gold: Ints) -> Floats:
    known = gold >= 0
    sure = np.arange(probabilities.shape[1]) == gold[:, None]
    return np.where(known[:, None], sure.astype(np.float64), probabilities)


def _loss(labels: TaskLabels, probabilities: Floats, confusion: Floats, prior: Floats) -> float:
    explained = np.sum(m_step_counts(labels, probabilities) * np.log(confusion))
    expected = np.sum(probabilities * np.log(prior))
    entropy = -np.sum(probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0)))
    return -float(explained + expected + entropy) / max(len(labels.label), 1)
