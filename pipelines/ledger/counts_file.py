"""Counts of worker pairs between nights: the pairs in a compressed frame, the workers in a Parquet table.

A frame of pairs tells with whom each worker has common tasks: by the numbers of these peers or, where most workers have
met, by a bit for each two workers. Arrow would take ten times as long for the same as Parquet, each night.
"""

import io
from collections import Counter
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
from pipelines.frames import narrow, pack, unpack
from pipelines.ledger.task_state import TaskState
from pipelines.names import NameIndex

_BITS_PER_PAIR = 8  # at most, where there is a bit for each two workers


@dataclass(frozen=True)
class KeptCounts:
    """What is kept of the worker graph: the counts, and (workers,) the skills that were found last, NaN if none."""

    edges: EdgeCounts
    skills: Floats

    def to_files(self) -> tuple[bytes, bytes]:
        """The frame of pairs and the table of workers."""
        edges = self.edges
        workers: dict[str, Any] = {"worker": pa.array(edges.workers, pa.string()), "n_labels": edges.n_labels}
        workers |= {"n_triples": edges.n_triples, "skill": self.skills}
        sink = io.BytesIO()
        pq.write_table(pa.table(workers), sink, compression="zstd", use_dictionary=False, write_statistics=False)
        return _pack_pairs(edges), sink.getvalue()

    @classmethod
    def of_files(cls, pairs: str, workers: str, classes: Mapping[str, int], n_sampled: int) -> "KeptCounts":
        """The counts in two files; those of classes and of tasks with sampled pairs are kept elsewhere."""
        by_worker = pq.read_table(workers, memory_map=True)
        names = np.asarray(by_worker["worker"].to_numpy(), object)
        found = sorted((name, n) for name, n in classes.items() if n)
        edges = EdgeCounts(
            names,
            by_worker["n_labels"].to_numpy(),
            by_worker["n_triples"].to_numpy(),
            *(_read_table(pairs) if pairs.endswith(".parquet") else _read_pairs(pairs, len(names))),
            tuple(name for name, _ in found),
            n_sampled,
            tuple(n for _, n in found),
        )
        return cls(edges, by_worker["skill"].to_numpy())


def _pack_pairs(edges: EdgeCounts) -> bytes:
    """The pairs as a frame, compressed."""
    size = edges.n_workers
    if edges.n_edges * _BITS_PER_PAIR >= size * size:
        met = np.zeros(size * size, bool)
        met[edges.first * size + edges.second] = True
        who = {"met": np.packbits(met)}
    else:
        who = {"second": narrow(edges.second, size)}
    arrays = {"peers": narrow(np.bincount(edges.first, minlength=size), size + 1), **who}
    for name, counts in (("n_common", edges.n_common), ("n_agree", edges.n_agree)):
        arrays[name] = narrow(counts, int(counts.max(initial=0)) + 1)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(pack(arrays))
    return bytes(sink.getvalue().to_pybytes())


def _read_pairs(path: str, n_workers: int) -> tuple[Ints, Ints, Ints, Ints]:
    """(edges,) first worker, second worker, common tasks, agreements."""
    with pa.input_stream(path, compression="zstd") as stream:
        arrays = unpack(stream.read())
    first = np.repeat(np.arange(n_workers), arrays["peers"])
    if "met" in arrays:
        second = np.flatnonzero(np.unpackbits(arrays["met"], count=n_workers**2).view(bool))
        second -= first * n_workers
    else:
        second = arrays["second"].astype(np.int64)
    return first, second, arrays["n_common"].astype(np.int64), arrays["n_agree"].astype(np.int64)


def _read_table(path: str) -> tuple[Ints, Ints, Ints, Ints]:
    """The same from a Parquet table, as format 1 kept it."""
    table = pq.read_table(path, memory_map=True)

    def wide(name: str) -> Ints:
        return np.asarray(table[name].to_numpy(), np.int64)

    return wide("first"), wide("second"), wide("n_common"), wide("n_agree")


class CountsChange:
    """Adds up what tasks are now, and takes away what they were; threads may add at once."""

    def __init__(self) -> None:
        self._workers = NameIndex()
        self._tally = PairTally()
        self._by_class: list[tuple[int, dict[str, int]]] = []

    def add(self, state: TaskState, sign: int = 1) -> None:
        """Adds the labels that hold, or takes them away."""
        if not len(state):
            return
        labels, workers, classes = state.labels()
        n_by_class = np.bincount(labels.label, minlength=len(classes)).tolist()
        self._by_class.append((sign, dict(zip(classes.to_pylist(), n_by_class, strict=True))))
        code: Any = self._workers.place(workers).astype(np.int32)
        n_workers = int(code.max(initial=-1)) + 1
        self._tally.add(TaskLabels(labels.starts, code[labels.worker], labels.label, n_workers, labels.n_classes), sign)

    def total(self) -> EdgeCounts:
        """What is to be added to the counts; every number may be negative."""
        if not self._by_class:
            return EdgeCounts.zero()
        total: Counter[str] = Counter()
        for sign, part in self._by_class:
            for name, n in part.items():
                total[name] += sign * n
        return EdgeCounts.from_tally(self._tally, self._workers.names.to_numpy(zero_copy_only=False), total)


def changed_edges(change: EdgeCounts, edges: EdgeCounts) -> EdgeCounts:
    """The pairs of `change` with their counts in `edges`; pairs that have vanished have no common tasks."""
    names = np.unique(np.concatenate([change.workers, edges.workers])) if edges.n_workers else change.workers
    first, second = (np.searchsorted(names, change.workers)[side] for side in (change.first, change.second))
    none = np.zeros(len(names), np.int64)
    n_common, n_agree = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    is_left = np.isin(names, edges.workers) if edges.n_workers < len(names) else np.ones(len(names), bool)
    place = np.cumsum(is_left) - 1
    asked = np.flatnonzero(is_left[first] & is_left[second])  # the others have no label any more
    at, there = edges.find(place[first[asked]], place[second[asked]])
    n_common[asked[there]], n_agree[asked[there]] = edges.n_common[at[there]], edges.n_agree[at[there]]
    return EdgeCounts(names, none, none, first, second, n_common, n_agree, ())
