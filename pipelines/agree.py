"""Agreeing: the labels of task shards in; compact task shards and one table of worker-pair counts out."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import numpy as np

from crowdcore.edges import EdgeCounts
from crowdcore.pairs import PairTally
from pipelines import progress
from pipelines.blocks import LabelBlock
from pipelines.counts import pack_counts
from pipelines.edge_frames import EdgeCountsCombineFn, pack_edges
from pipelines.grouped import Contradiction, Grouping, group_blocks
from pipelines.names import NameIndex
from pipelines.spill import Spill
from pipelines.tables import reject_table, to_bytes
from pipelines.threaded import PerWindow, Place, ThreadedFn


@dataclass
class CountAgreements(beam.PTransform):
    """Counts, for each pair of workers, their common tasks and their agreements.

    Input: pairs of a shard's number and its blocks. Output: "shards", tokens of compact task shards with one label per
    task and worker; "edges", the token of one frame of `EdgeCounts` a window; "rejects", pairs of
    a name and a table; "counts".
    """

    repeats: str = "last"
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, shards: beam.PCollection[tuple[int, Iterable[bytes]]]) -> Any:
        """Wires the steps."""
        grouped = shards | "GroupTasks" >> beam.ParDo(
            _GroupTasksFn(self.repeats, self.threads, self.spill)
        ).with_outputs("shards", "edges", "rejects", "counts")
        merged = (
            grouped["edges"] | "MergeEdges" >> beam.CombineGlobally(EdgeCountsCombineFn(self.spill)).without_defaults()
        )
        return {
            "shards": grouped["shards"],
            "edges": merged,
            "rejects": grouped["rejects"],
            "counts": grouped["counts"],
        }


@dataclass
class _BundleTotal:
    """What a bundle adds up for one window; worker codes are given out as workers appear."""

    tally: PairTally = field(default_factory=PairTally)
    workers: NameIndex = field(default_factory=NameIndex)
    n_by_class: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, grouping: Grouping) -> None:
        """Adds the pairs of a shard."""
        shard = grouping.shard
        n_by_class = np.bincount(shard.labels.label, minlength=len(shard.classes)).tolist()
        code: Any = self.workers.place(shard.workers).astype(np.int32)  # pairs take half the memory
        n_workers = int(code.max(initial=-1)) + 1
        with self.lock:
            self.n_by_class.update(dict(zip(shard.classes.to_pylist(), n_by_class, strict=True)))
            self.counts.update(grouping.counts)
        self.tally.add(replace(shard.labels, worker=code[shard.labels.worker], n_workers=n_workers))

    def edges(self) -> bytes:
        """The counts as a frame."""
        workers = self.workers.names.to_numpy(zero_copy_only=False)
        return pack_edges(EdgeCounts.from_tally(self.tally, workers, self.n_by_class))


class _GroupTasksFn(ThreadedFn):
    """Groups shards in threads and adds up their pairs; one edge frame a bundle and window."""

    def __init__(self, repeats: str, threads: int, spill: Spill) -> None:
        super().__init__(threads)
        self._repeats = repeats
        self._spill = spill
        self._totals = PerWindow(_BundleTotal)

    def start_bundle(self) -> None:
        super().start_bundle()
        self._totals = PerWindow(_BundleTotal)

    def process(
        self,
        element: tuple[int, Iterable[bytes]],
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[Any]:
        place = Place(window, timestamp)
        return self.submit((element[0], list(element[1]), self._totals.at(place)), place)

    def work(self, number: int, tokens: list[bytes], total: _BundleTotal) -> tuple[bytes, Grouping]:
        blocks = [LabelBlock.from_bytes(self._spill.get(token)) for token in tokens]
        grouping = group_blocks(number, blocks, self._repeats)
        total.add(grouping)
        progress.add("count agreements", grouping.counts["labels_used"])
        return self._spill.put(grouping.shard.to_bytes())[0], grouping

    def emit(self, result: tuple[bytes, Grouping], place: Place) -> Iterable[tuple[str, Any]]:
        token, grouping = result
        yield "shards", token
        if grouping.contradictions:
            rows = [_reject_of(one) for one in grouping.contradictions]
            yield "rejects", (f"shard-{grouping.shard.number:05d}", to_bytes(reject_table(rows)))

    def close(self) -> Iterable[tuple[str, Any, Place]]:
        for total, place in self._totals.items():
            yield "edges", self._spill.put(total.edges())[0], place
            yield "counts", pack_counts(total.counts), place
        self._totals = PerWindow(_BundleTotal)


def _reject_of(one: Contradiction) -> dict[str, Any]:
    record = {"task": one.task, "worker": one.worker, "label": one.label}
    return {
        "record": json.dumps(record, ensure_ascii=False),
        "reason": "contradicting-repeat",
        "detail": "The worker gave this task different labels; none of them counts.",
        "source": one.path,
        "position": -1,
    }
