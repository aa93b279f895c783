"""Counts of worker pairs between nights: a table of pairs and one of workers, as Parquet."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdcore.edges import EdgeCounts
from crowdcore.labels import Ints, TaskLabels
from crowdcore.pairs import PairTally
from crowdcore.scores import Floats
from pipelines.ledger.task_state import TaskState
from pipelines.names import NameIndex


@dataclass(frozen=True)
class KeptCounts:
    """What is kept of the worker graph: the counts, and (workers,) the skills that were found last, NaN if none."""

    edges: EdgeCounts
    skills: Floats

    def to_files(self) -> tuple[bytes, bytes]:
        """The table of pairs and the table of workers."""
        edges = self.edges
        pairs = {"first": edges.first, "second": edges.second, "n_common": edges.n_common, "n_agree": edges.n_agree}
        workers: dict[str, Any] = {"worker": pa.array(edges.workers, pa.string()), "n_labels": edges.n_labels}
        workers |= {"n_triples": edges.n_triples, "skill": self.skills}
        small = {name: pa.array(_narrow(column)) for name, column in pairs.items()}
        return _parquet(pa.table(small), ["first", "n_common", "n_agree"]), _parquet(pa.table(workers), [])

    @classmethod
    def of_files(cls, pairs: str, workers: str, classes: Mapping[str, int], n_sampled: int) -> "KeptCounts":
        """The counts in two files; those of classes and of tasks with sampled pairs are kept elsewhere."""
        by_pair, by_worker = pq.read_table(pairs, memory_map=True), pq.read_table(workers, memory_map=True)
        names = np.asarray(by_worker["worker"].to_numpy(), object)
        found = sorted((name, n) for name, n in classes.items() if n)
        edges = EdgeCounts(
            names,
            by_worker["n_labels"].to_numpy(),
            by_worker["n_triples"].to_numpy(),
            _wide(by_pair, "first"),
            _wide(by_pair, "second"),
            _wide(by_pair, "n_common"),
            _wide(by_pair, "n_agree"),
            tuple(name for name, _ in found),
            n_sampled,
            tuple(n for _, n in found),
        )
        return cls(edges, by_worker["skill"].to_numpy())


def _wide(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _narrow(column: Ints) -> Any:
    return column.astype(np.int32) if len(column) == 0 or column.max() <= np.iinfo(np.int32).max else column


def _parquet(table: pa.Table, coded: list[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table, sink, compression="zstd", use_dictionary=coded, write_statistics=False, store_schema=False,
        column_encoding={"second": "DELTA_BINARY_PACKED"} if coded else None,
    )  # fmt: skip
    return sink.getvalue()


class CountsChange:
    """Adds up what tasks are now, and takes away what they were; threads may add at once."""

    def __init__(self) -> None:
        self._workers = NameIndex()
        self._tallies = {1: PairTally(), -1: PairTally()}
        self._by_class: dict[int, list[dict[str, int]]] = {1: [], -1: []}

    def add(self, state: TaskState, sign: int = 1) -> None:
        """Adds the labels that hold, or takes them away."""
        if not len(state):
            return
        labels, workers, classes = state.labels()
        n_by_class = np.bincount(labels.label, minlength=len(classes)).tolist()
        self._by_class[sign].append(dict(zip(classes.to_pylist(), n_by_class, strict=True)))
        code: Any = self._workers.place(workers).astype(np.int32)
        n_workers = int(code.max(initial=-1)) + 1
        self._tallies[sign].add(
            TaskLabels(labels.starts, code[labels.worker], labels.label, n_workers, labels.n_classes)
        )

    def total(self) -> EdgeCounts:
        """What is to be added to the counts; every number may be negative."""
        added, taken = self._counted(1), self._counted(-1)
        return added - taken if taken.n_workers else added

    def _counted(self, sign: int) -> EdgeCounts:
        if not self._by_class[sign]:
            return EdgeCounts.zero()
        total: dict[str, int] = {}
        for part in self._by_class[sign]:
            for name, n in part.items():
                total[name] = total.get(name, 0) + n
        names = self._workers.names.to_numpy(zero_copy_only=False)
        return EdgeCounts.from_tally(self._tallies[sign], names, total)


def changed_edges(change: EdgeCounts, edges: EdgeCounts) -> EdgeCounts:
    """The pairs of `change` with their counts in `edges`; pairs that have vanished have no common tasks."""
    names = np.unique(np.concatenate([change.workers, edges.workers])) if edges.n_workers else change.workers
    first, second = (np.searchsorted(names, change.workers)[side] for side in (change.first, change.second))
    place = np.searchsorted(names, edges.workers)
    key = place[edges.first] * len(names) + place[edges.second] if edges.n_edges else np.empty(0, np.int64)
    asked = first * len(names) + second
    at = np.minimum(np.searchsorted(key, asked), max(len(key) - 1, 0))
    there = key[at] == asked if len(key) else np.zeros(len(asked), bool)
    n_common = np.where(there, edges.n_common[at], 0) if len(key) else np.zeros(len(asked), np.int64)
    n_agree = np.where(there, edges.n_agree[at], 0) if len(key) else np.zeros(len(asked), np.int64)
    none = np.zeros(len(names), np.int64)
    return EdgeCounts(names, none, none, first, second, n_common, n_agree, ())
