"""Sweeping: one pass over task shards with a model beside them; each bundle adds up one `WorkerTotals`."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np

from pipelines.confusion_model import ConfusionModel
from pipelines.grouped import TaskShard
from pipelines.spill import Spill
from pipelines.threaded import PerWindow, Place, ThreadedFn
from pipelines.worker_totals import WorkerTotals, WorkerTotalsCombineFn

TOTALS = "totals"


@dataclass
class MergeTotals(beam.PTransform):
    """Adds up `WorkerTotals`: tokens of parts in, the token of one total a window out."""

    spill: Spill = field(default_factory=Spill)

    def expand(self, parts: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        """Wires the step."""
        return parts | "Merge" >> beam.CombineGlobally(WorkerTotalsCombineFn(self.spill)).without_defaults()


class _BundleTotals:
    """What a bundle adds up for one window: dense, so that threads add to it in place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: Any = None
        self._seen = np.zeros(0, bool)
        self._whole: Any = np.zeros(0)

    def add(self, part: WorkerTotals, n_workers: int) -> None:
        """Adds the totals of a shard."""
        with self._lock:
            if self._cells is None:
                self._cells, self._seen = np.zeros((n_workers, part.cells.shape[1])), np.zeros(n_workers, bool)
                self._whole = np.zeros(len(part.whole))
            self._cells[part.place] += part.cells
            self._seen[part.place] = True
            self._whole += part.whole

    def total(self) -> WorkerTotals:
        """All that was added."""
        if self._cells is None:
            return WorkerTotals.zero()
        place = np.flatnonzero(self._seen)
        return WorkerTotals(place, self._cells[place], self._whole)


class SweepFn(ThreadedFn):
    """Does `sweep` with every shard, in threads. Its first side input is the token of a `ConfusionModel`."""

    def __init__(self, threads: int, spill: Spill) -> None:
        super().__init__(threads)
        self._spill = spill
        self._totals = PerWindow(_BundleTotals)
        self._model: tuple[bytes, ConfusionModel] | None = None

    def sweep(self, shard: TaskShard, model: ConfusionModel) -> tuple[WorkerTotals, Any]:
        """What is made of one shard: its totals, and what `emit` is given."""
        raise NotImplementedError

    def start_bundle(self) -> None:
        """Begins with no totals."""
        super().start_bundle()
        self._totals = PerWindow(_BundleTotals)

    def process(  # type: ignore[override]
        self,
        element: bytes,
        model: bytes,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[Any]:
        """Hands the shard to a thread."""
        place = Place(window, timestamp)
        return self.submit((element, model, self._totals.at(place)), place)

    def work(self, element: bytes, token: bytes, totals: _BundleTotals) -> Any:
        """Unpacks, sweeps and adds up."""
        model = self._model_of(token)
        part, result = self.sweep(TaskShard.from_bytes(self._spill.get(element)), model)
        totals.add(part, len(model.workers))
        return result

    def emit(self, result: Any, place: Place) -> Iterable[tuple[str, Any]]:
        """Nothing leaves the step but the totals."""
        return ()

    def close(self) -> Iterable[tuple[str, Any, Place]]:
        """The totals of each window."""
        for totals, place in self._totals.items():
            yield TOTALS, self._spill.put(totals.total().to_bytes())[0], place

    def _model_of(self, token: bytes) -> ConfusionModel:
        """The model of `token`, unpacked once."""
        known = self._model
        if known is None or known[0] != token:
            known = self._model = (token, ConfusionModel.from_bytes(self._spill.get(token)))
        return known[1]
