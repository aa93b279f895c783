"""Sharding: label blocks in, the blocks of each task shard together out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines.blocks import LabelBlock, split_block
from pipelines.spill import Spill
from pipelines.threaded import Place, ThreadedFn


@dataclass
class ShardByTask(beam.PTransform):
    """Brings together the labels of a task: those of one shard of the tasks' ids.

    Input: label blocks. Output: pairs of a shard's number and the tokens (see `Spill`) of its label blocks.
    """

    shards: int
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, blocks: beam.PCollection[bytes]) -> beam.PCollection[tuple[int, Iterable[bytes]]]:
        """Wires the step."""
        split = blocks | "SplitBlocks" >> beam.ParDo(
            _SplitBlocksFn(self.shards, self.threads, self.spill)
        ).with_outputs("parts")
        parts = split["parts"] | "TypeParts" >> beam.Map(tuple).with_output_types(tuple[int, bytes])
        return parts | "GroupByShard" >> beam.GroupByKey()


class _SplitBlocksFn(ThreadedFn):
    def __init__(self, shards: int, threads: int, spill: Spill) -> None:
        super().__init__(threads)
        self._shards = shards
        self._spill = spill

    def work(self, element: bytes) -> list[tuple[int, bytes]]:
        parts = list(split_block(LabelBlock.from_bytes(element), self._shards))
        tokens = self._spill.put(*(part.to_bytes() for _, part in parts))
        return [(number, token) for (number, _), token in zip(parts, tokens, strict=True)]

    def emit(self, result: list[tuple[int, bytes]], place: Place) -> Iterable[tuple[str, Any]]:
        return (("parts", part) for part in result)
