"""Answering by majority vote or by confusion matrices: task shards and the model in, answers and totals out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from crowdcore.baselines.vote_scores import majority_scores
from crowdcore.scores import TaskScores
from pipelines import progress
from pipelines.answers import Answers, answer_table, counts_of, status_of
from pipelines.confusion_model import ConfusionModel
from pipelines.counts import pack_counts
from pipelines.expectation import expect_shard, totals_of, without_probabilities
from pipelines.grouped import TaskShard
from pipelines.settings import AggregateSettings
from pipelines.spill import Spill
from pipelines.sweep import TOTALS, SweepFn
from pipelines.tables import to_bytes
from pipelines.threaded import PerWindow, Place
from pipelines.worker_totals import WorkerTotals


@dataclass
class VoteOnTasks(beam.PTransform):
    """Answers every task.

    Input: tokens of task shards; `model` is the token of a `ConfusionModel` of the same window. Output: "scores", pairs
    of a shard's number and a table; "totals", parts of what the labels of each worker add up to; "counts".
    """

    model: Any
    settings: AggregateSettings = field(default_factory=AggregateSettings)
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, shards: beam.PCollection[bytes]) -> Any:
        """Wires the step."""
        fn = _VoteFn(self.settings, self.threads, self.spill)
        beside = beam.pvalue.AsSingleton(self.model)
        return shards | "Vote" >> beam.ParDo(fn, beside).with_outputs("scores", TOTALS, "counts")


class _VoteFn(SweepFn):
    def __init__(self, settings: AggregateSettings, threads: int, spill: Spill) -> None:
        super().__init__(threads, spill)
        self._settings = settings
        self._counts: PerWindow[Counter[str]] = PerWindow(Counter)

    def start_bundle(self) -> None:
        super().start_bundle()
        self._counts = PerWindow(Counter)

    def sweep(self, shard: TaskShard, model: ConfusionModel) -> tuple[WorkerTotals, Any]:
        totals, table, counts = vote_on_shard(shard, model, self._settings)
        progress.add("score", len(shard.labels.worker))
        return totals, (shard.number, to_bytes(table), counts)

    def emit(self, result: tuple[int, bytes, Counter[str]], place: Place) -> Iterable[tuple[str, Any]]:
        number, table, counts = result
        self._counts.at(place).update(counts)
        yield "scores", (number, table)

    def close(self) -> Iterable[tuple[str, Any, Place]]:
        yield from super().close()
        for counts, place in self._counts.items():
            yield "counts", pack_counts(counts), place


def vote_on_shard(
    shard: TaskShard, model: ConfusionModel, settings: AggregateSettings
) -> tuple[WorkerTotals, pa.Table, Counter[str]]:
    """What the labels of one shard add up to, the answers to its tasks, and their counts."""
    vote = _majority if settings.method == "majority" else _likelihood
    totals, scores = vote(shard, model, settings.probabilities)
    labels, sizes = shard.labels, shard.labels.sizes
    standing = np.append(model.standing, np.uint8(0))[model.places(shard)]
    status = status_of(labels, scores, sizes, 0, standing, settings.min_labels)
    found, answered = Answers(scores, sizes, status), sizes > 0
    table = answer_table(shard.task, shard.n_received, found, model)
    return totals, table if answered.all() else table.filter(pa.array(answered)), counts_of(found, answered)


def _majority(shard: TaskShard, model: ConfusionModel, probabilities: bool) -> tuple[WorkerTotals, TaskScores]:
    """The totals are how many of each worker's labels are the answer."""
    labels = model.coded(shard)
    scores = majority_scores(labels, probabilities=probabilities and labels.n_classes > 0)
    agrees = (labels.label == scores.answer[labels.task]).astype(np.float64)
    counts = np.asarray(np.bincount(labels.worker, agrees, minlength=labels.n_workers), np.float64)
    return totals_of(counts[:, None], np.zeros(1), model.places(shard)), scores


def _likelihood(shard: TaskShard, model: ConfusionModel, probabilities: bool) -> tuple[WorkerTotals, TaskScores]:
    """The totals are the counts of the maximisation step after these answers."""
    found = expect_shard(shard, model, answers=True)
    if found.answers is None:
        raise ValueError("the expectation step gave no answers")
    return found.totals, found.answers if probabilities else without_probabilities(found.answers)
