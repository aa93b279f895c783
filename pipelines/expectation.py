"""One shard under a model of confusion matrices: the expectation step, and what its labels add up to."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdcore.baselines.dawid_skene import (
    class_scores,
    class_totals,
    m_step_counts,
    normalised,
    said_by_task,
    vote_shares,
)
from crowdcore.baselines.vote_scores import likelihood_scores
from crowdcore.labels import TaskLabels
from crowdcore.scores import TaskScores, joined_scores, tasks_between
from pipelines.confusion_model import ConfusionModel, Floats
from pipelines.grouped import TaskShard
from pipelines.worker_totals import WorkerTotals

_CELLS_AT_ONCE = 1 << 22
_LOSS_GRAIN = float(1 << 20)


@dataclass(frozen=True)
class Expected:
    """The totals of a shard's labels, and the answers to its tasks when they were asked for."""

    totals: WorkerTotals
    answers: TaskScores | None


def expect_shard(shard: TaskShard, model: ConfusionModel, *, answers: bool = False) -> Expected:
    """The expectation step on one shard, some tasks at a time, since there is a number for every task and class.

    Before the first pass, when the model has no matrices, probabilities are the shares of the votes.
    """
    labels, place = model.coded(shard), model.places(shard)
    n_classes = labels.n_classes
    counts, whole = np.zeros((labels.n_workers, n_classes, n_classes)), np.zeros(n_classes + 1)
    step = max(1, _CELLS_AT_ONCE // max(n_classes, 1))
    found = []
    for low in range(0, labels.n_tasks if len(labels.label) else 0, step):
        group = tasks_between(labels, low, min(low + step, labels.n_tasks))
        probabilities, log_likelihood, scores = _expect(group, place, model)
        counts += m_step_counts(group, probabilities)
        whole += np.append(class_totals(probabilities[group.sizes > 0]), log_likelihood)
        if answers and scores is not None:
            found.append(likelihood_scores(group, scores))
    return Expected(totals_of(counts, whole, place), _joined(found, labels.n_tasks) if answers else None)


def totals_of(counts: Floats, whole: Floats, place: Any) -> WorkerTotals:
    """Counts by the shard's workers as totals by the model's."""
    known = np.flatnonzero(place >= 0)
    order = known[np.argsort(place[known], kind="stable")]
    n_cells = int(np.prod(counts.shape[1:]))
    return WorkerTotals(place[order], counts.reshape(len(counts), n_cells)[order], whole)


def _expect(labels: TaskLabels, place: Any, model: ConfusionModel) -> tuple[Floats, float, Floats | None]:
    """Probabilities, log-likelihood and scores; the second is rounded, so that the order of its sums plays no part."""
    if model.confusion is None:
        return vote_shares(labels), 0.0, None
    scores = class_scores(said_by_task(labels), model.confusion[place], model.prior)
    found = normalised(scores.copy())
    return found.probabilities, float(np.rint(found.log_likelihood * _LOSS_GRAIN) / _LOSS_GRAIN), scores


def _joined(parts: list[TaskScores], n_tasks: int) -> TaskScores:
    """The answers of all groups; where there is no label, answers that say nothing."""
    if parts:
        return parts[0] if len(parts) == 1 else joined_scores(parts)
    nothing, no = np.zeros(n_tasks), np.zeros(n_tasks, bool)
    return TaskScores(np.zeros(n_tasks, np.int64), nothing, nothing, nothing, no, ~no)


def without_probabilities(answers: TaskScores) -> TaskScores:
    """The same answers without the probability of every class."""
    return replace(answers, probabilities=None)
