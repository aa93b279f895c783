"""Scoring: labels of tasks and the model in, answers out."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crowdcore.labels import TaskLabels
from crowdcore.scores import score_tasks
from pipelines.answers import Answers, answer_table, counts_of, status_of
from pipelines.grouped import TaskShard, gold_code
from pipelines.model import ISOLATED, Model
from pipelines.settings import AggregateSettings


@dataclass(frozen=True)
class Votes:
    """What a model makes of the workers and classes of some labels.

    Attributes:
        weights, standing: (workers,) what a vote weighs; a worker the model does not know has no weight.
        classes: (classes,) places among the model's classes.
        gold: worker code of the known answers, or -1.
    """

    weights: NDArray[np.float64]
    standing: NDArray[np.uint8]
    classes: NDArray[np.int64]
    gold: int

    @classmethod
    def of(cls, model: Model, workers: pa.LargeStringArray, classes: pa.LargeStringArray) -> "Votes":
        """The votes of labels whose codes stand for `workers` and `classes`."""
        place = model.places(workers)
        weights, standing = np.append(model.weights, 0.0)[place], np.append(model.standing, np.uint8(ISOLATED))[place]
        return cls(weights, standing, model.class_places(classes), gold_code(workers))


def score_shard(shard: TaskShard, model: Model, settings: AggregateSettings) -> tuple[pa.Table, Counter[str]]:
    """The answers to the tasks of one shard, and their counts."""
    found = answer_tasks(shard.labels, Votes.of(model, shard.workers, shard.classes), model, settings)
    table = answer_table(shard.task, shard.n_received, found, model)
    answered = found.n_workers > 0
    if not answered.all():
        table = table.filter(pa.array(answered))
    return table, counts_of(found, answered)


def answer_tasks(labels: TaskLabels, votes: Votes, model: Model, settings: AggregateSettings) -> Answers:
    """The answers to the tasks of `labels`; a task without labels gets one that says nothing."""
    labels = replace(labels, label=votes.classes[labels.label], n_classes=model.n_classes)
    found = score_tasks(
        labels,
        votes.weights,
        n_classes=model.n_classes,
        rule=settings.multiclass,
        class_prior=model.class_prior if len(model.class_prior) else None,
        gold=votes.gold,
        probabilities=settings.probabilities,
    )
    has_gold = np.bincount(labels.task[labels.worker == votes.gold], minlength=labels.n_tasks) if votes.gold >= 0 else 0
    n_workers = labels.sizes - has_gold
    return Answers(found, n_workers, status_of(labels, found, n_workers, has_gold, votes.standing, settings.min_labels))
