"""Dawid-Skene over shards: each round of EM is one pass, with the confusion matrices of the round before beside it."""

from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines import progress
from pipelines.confusion_model import ConfusionModel
from pipelines.expectation import expect_shard
from pipelines.grouped import TaskShard
from pipelines.spill import Spill
from pipelines.sweep import TOTALS, MergeTotals, SweepFn
from pipelines.worker_totals import WorkerTotals


@dataclass
class EstimateConfusion(beam.PTransform):
    """Finds confusion matrices by `passes` rounds of EM.

    Input: tokens of task shards; `begin` is the token of a `ConfusionModel` before the first pass, of the same window.
    Output: the token of the model whose expectation step gives the answers of the last round.
    """

    begin: Any
    passes: int
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, shards: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        """Wires the passes, one after the other: the first counts from the shares of the votes."""
        model = self.begin
        for number in range(1, self.passes + 1):
            beside = beam.pvalue.AsSingleton(model)
            counted = shards | f"CountPass{number}" >> beam.ParDo(
                _CountFn(number, self.threads, self.spill), beside
            ).with_outputs(TOTALS)
            total = counted[TOTALS] | f"MergePass{number}" >> MergeTotals(self.spill)
            model = total | f"Maximise{number}" >> beam.Map(maximise, beside, self.spill).with_output_types(bytes)
        return model


def maximise(totals: bytes, model: bytes, spill: Spill) -> bytes:
    """The token of the model that follows from one pass."""
    before = ConfusionModel.from_bytes(spill.get(model))
    after = before.maximised(WorkerTotals.from_bytes(spill.get(totals)))
    return spill.put(after.to_bytes())[0]


class _CountFn(SweepFn):
    def __init__(self, number: int, threads: int, spill: Spill) -> None:
        super().__init__(threads, spill)
        self._number = number

    def sweep(self, shard: TaskShard, model: ConfusionModel) -> tuple[WorkerTotals, Any]:
        totals = expect_shard(shard, model).totals
        progress.add(f"pass {self._number}", len(shard.labels.worker))
        return totals, None
