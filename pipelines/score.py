"""Scoring: task shards and the model in, answers out."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crowdcore.labels import TaskLabels
from crowdcore.scores import score_tasks
from pipelines import progress
from pipelines.answers import Answers, answer_table, counts_of, status_of
from pipelines.counts import pack_counts
from pipelines.grouped import TaskShard, gold_code
from pipelines.model import ISOLATED, Model
from pipelines.settings import AggregateSettings
from pipelines.spill import Spill
from pipelines.tables import to_bytes
from pipelines.threaded import PerWindow, Place, ThreadedFn


@dataclass
class ScoreTasks(beam.PTransform):
    """Answers every task.

    Input: tokens of task shards; `model` is the frame of the same window. Output: "scores", pairs of a shard's number
    and a table; "counts".
    """

    model: Any
    settings: AggregateSettings = field(default_factory=AggregateSettings)
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, shards: beam.PCollection[bytes]) -> Any:
        """Wires the steps."""
        # BundleBasedDirectRunner mixes up the outputs of a step when one of them is a side input: give it its own step.
        model = self.model | "PickModel" >> beam.Map(_same).with_output_types(bytes)
        fn = _ScoreFn(self.settings, self.threads, self.spill)
        return shards | "Score" >> beam.ParDo(fn, beam.pvalue.AsSingleton(model)).with_outputs("scores", "counts")


def _same(model: bytes) -> bytes:
    return model


class _ScoreFn(ThreadedFn):
    def __init__(self, settings: AggregateSettings, threads: int, spill: Spill) -> None:
        super().__init__(threads)
        self._settings = settings
        self._spill = spill
        self._counts: PerWindow[Counter[str]] = PerWindow(Counter)
        self._model: tuple[Any, Model] | None = None

    def start_bundle(self) -> None:
        super().start_bundle()
        self._counts = PerWindow(Counter)

    def process(  # type: ignore[override]
        self,
        element: bytes,
        model: bytes,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[Any]:
        return self.submit((element, model), Place(window, timestamp))

    def work(self, element: bytes, model: bytes) -> tuple[int, bytes, Counter[str]]:
        shard = TaskShard.from_bytes(self._spill.get(element))
        table, counts = score_shard(shard, self._model_of(model), self._settings)
        progress.add("score", len(shard.labels.worker))
        return shard.number, to_bytes(table), counts

    def emit(self, result: tuple[int, bytes, Counter[str]], place: Place) -> Iterable[tuple[str, Any]]:
        number, table, counts = result
        self._counts.at(place).update(counts)
        yield "scores", (number, table)

    def close(self) -> Iterable[tuple[str, Any, Place]]:
        for counts, place in self._counts.items():
            yield "counts", pack_counts(counts), place

    def _model_of(self, frame: bytes) -> Model:
        """The model of `frame`, unpacked once."""
        known = self._model
        if known is None or known[0] is not frame:
            known = self._model = (frame, Model.from_bytes(frame))
        return known[1]


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
