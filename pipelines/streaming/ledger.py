"""The ledger of a stream: what all changes of all shards add up to, ready for the solver at any moment.

A change travels as a frame with its own dictionary of workers. Adding one is cheap: pairs wait in a list until somebody
asks for the total.
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from crowdcore.changes import EdgeChange
from crowdcore.edges import EdgeCounts
from crowdcore.labels import Ints
from crowdcore.pairs import sorted_pairs
from pipelines.blocks import GOLD
from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts
from pipelines.names import NameIndex
from pipelines.streaming.codes import Codes


def pack_change(change: EdgeChange, workers: Codes, classes: Codes, n_events: int, named: Ints | None = None) -> bytes:
    """A change as a frame; `n_events` is how many events led to it; the workers `named` are in it in any case."""
    touched = np.zeros(len(workers), bool)
    touched[[] if named is None else named] = True
    touched[change.first] = touched[change.second] = True
    touched |= (change.n_labels != 0) | (change.n_triples != 0)
    present = np.flatnonzero(touched)
    place = np.zeros(len(workers), np.int64)
    place[present] = np.arange(len(present))
    named = np.flatnonzero(change.n_by_class)
    return _frame(
        workers.names(present),
        change.n_labels[present],
        change.n_triples[present],
        (place[change.first], place[change.second], change.n_common, change.n_agree),
        classes.names(named),
        change.n_by_class[named],
        (change.n_sampled, n_events),
    )


def _frame(
    workers: pa.LargeStringArray,
    n_labels: Ints,
    n_triples: Ints,
    pairs: tuple[Ints, Ints, Ints, Ints],
    classes: pa.LargeStringArray,
    n_by_class: Ints,
    totals: tuple[int, int],
) -> bytes:
    first, second, n_common, n_agree = pairs
    return pack(
        {
            **pack_texts("workers", workers),
            "n_labels": _signed(n_labels),
            "n_triples": _signed(n_triples),
            "first": narrow(first, len(workers)),
            "second": narrow(second, len(workers)),
            "n_common": _signed(n_common),
            "n_agree": _signed(n_agree),
            **pack_texts("classes", classes),
            "n_by_class": n_by_class,
            "totals": np.array(totals, np.int64),
        }
    )


def _signed(counts: Ints) -> Any:
    """`counts` in the smallest signed integers that hold them."""
    low, high = int(counts.min(initial=0)), int(counts.max(initial=0))
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return counts.astype(dtype)
    return counts


def events_in(frame: Any) -> int:
    """How many events led to the change of a frame."""
    return int(unpack(frame)["totals"][1])


class Ledger:
    """Adds up changes; `n_events` counts the events behind them, each once."""

    def __init__(self) -> None:
        self.n_events = 0
        self._workers = NameIndex()
        self._n_labels = self._n_triples = np.zeros(0, np.int64)
        self._n_by_class: Counter[str] = Counter()
        self._n_sampled = 0
        self._pairs: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._edges: EdgeCounts | None = None

    def add(self, frame: Any, sign: int = 1) -> None:
        """Adds the change of a frame, or takes it away."""
        arrays = unpack(frame)
        code = self._workers.place(unpack_texts("workers", arrays))
        grow = len(self._workers) - len(self._n_labels)
        if grow > 0:
            self._n_labels = np.append(self._n_labels, np.zeros(grow, np.int64))
            self._n_triples = np.append(self._n_triples, np.zeros(grow, np.int64))
        self._n_labels[code] += sign * arrays["n_labels"].astype(np.int64)
        self._n_triples[code] += sign * arrays["n_triples"].astype(np.int64)
        n_sampled, n_events = arrays["totals"].tolist()
        self._n_sampled += sign * n_sampled
        self.n_events += sign * n_events
        for name, n in zip(unpack_texts("classes", arrays).to_pylist(), arrays["n_by_class"].tolist(), strict=True):
            self._n_by_class[name] += sign * n
        if len(arrays["first"]):
            first, second = code[arrays["first"]], code[arrays["second"]]
            counts = (sign * arrays[name].astype(np.int64) for name in ("n_common", "n_agree"))
            self._pairs.append((np.minimum(first, second), np.maximum(first, second), *counts))
        self._edges = None

    def edges(self) -> EdgeCounts:
        """The counts."""
        if self._edges is None:
            self._edges = self._counted()
        return self._edges

    def without_labels(self) -> list[str]:
        """The workers who are known and have no label: all of theirs were withdrawn."""
        names: list[str] = self._workers.names.filter(pa.array(self._n_labels <= 0)).to_pylist()
        return [name for name in names if name != GOLD]

    def to_bytes(self) -> bytes:
        """The whole ledger as the frame of one change; it keeps the workers without labels."""
        first, second, n_common, n_agree = self._settled()
        named = sorted((name, n) for name, n in self._n_by_class.items() if n)
        return _frame(
            self._workers.names,
            self._n_labels,
            self._n_triples,
            (first, second, n_common, n_agree),
            pa.array([name for name, _ in named], pa.large_string()),
            np.array([n for _, n in named], np.int64),
            (self._n_sampled, self.n_events),
        )

    def _settled(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The pairs, each once; those that came to nothing are gone."""
        if len(self._pairs) > 1:
            columns = [np.concatenate(column) for column in zip(*self._pairs, strict=True)]
            self._pairs = [sorted_pairs(columns[0], columns[1], columns[2], columns[3], len(self._workers))]
        if self._pairs:
            return self._pairs[0]
        none = np.empty(0, np.int64)
        return none, none, none, none

    def _counted(self) -> EdgeCounts:
        """The counts that are possible: when a change has overtaken an earlier one, some are negative for a while."""
        first, second, n_common, n_agree = self._settled()
        names = self._workers.names.to_numpy(zero_copy_only=False)
        present = np.flatnonzero(self._n_labels > 0)
        order = present[np.argsort(names[present], kind="stable")]
        place = np.full(len(names), -1, np.int64)
        place[order] = np.arange(len(order))
        one, other = place[first], place[second]
        good = (one >= 0) & (other >= 0) & (n_agree >= 0) & (n_agree <= n_common)
        if not good.all():
            one, other, n_common, n_agree = one[good], other[good], n_common[good], n_agree[good]
        pairs = sorted_pairs(np.minimum(one, other), np.maximum(one, other), n_common, n_agree, len(order))
        classes = sorted((name, n) for name, n in self._n_by_class.items() if n > 0)
        return EdgeCounts(
            names[order],
            self._n_labels[order],
            np.maximum(self._n_triples[order], 0),
            *pairs,
            tuple(name for name, _ in classes),
            self._n_sampled,
            tuple(n for _, n in classes),
        )
