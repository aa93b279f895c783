"""Scoring: task shards and the model in, answers out."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines import progress
from pipelines.counts import pack_counts
from pipelines.grouped import TaskShard
from pipelines.model import Model
from pipelines.scoring import score_shard
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
