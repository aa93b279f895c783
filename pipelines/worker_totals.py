"""Sums over the labels of each worker, as frames, and the CombineFn that adds them up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from crowdcore.labels import Ints
from pipelines.frames import pack, unpack
from pipelines.spill import Spill

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WorkerTotals:
    """What labels of some workers add up to. Sums of numbers on a grain are exact, so their order plays no part.

    Attributes:
        place: (workers,) where these workers stand among all, in order.
        cells: (workers, cells) numbers of each worker.
        whole: (numbers,) sums over tasks, not of one worker.

    >>> a, b = (WorkerTotals(np.array([place]), np.array([[1.0, 2.0]]), np.array([3.0])) for place in (1, 0))
    >>> total = WorkerTotals.sum([a, b, a, WorkerTotals.zero()])
    >>> total.place, total.cells.tolist(), total.whole
    (array([0, 1]), [[1.0, 2.0], [2.0, 4.0]], array([9.]))
    """

    place: Ints
    cells: Floats
    whole: Floats

    @classmethod
    def zero(cls) -> "WorkerTotals":
        """No labels."""
        return cls(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(0))

    @classmethod
    def sum(cls, parts: Sequence["WorkerTotals"]) -> "WorkerTotals":
        """All parts together."""
        parts = [part for part in parts if len(part.place) or len(part.whole)]
        if not parts:
            return cls.zero()
        place = np.unique(np.concatenate([part.place for part in parts]))
        cells = np.zeros((len(place), max(part.cells.shape[1] for part in parts)))
        for part in parts:
            if len(part.place):
                cells[np.searchsorted(place, part.place)] += part.cells
        return cls(place, cells, np.sum([part.whole for part in parts], axis=0))

    def spread(self, n_workers: int) -> Floats:
        """(n_workers, cells) the numbers of all workers; 0 for those without labels here."""
        spread = np.zeros((n_workers, self.cells.shape[1]))
        spread[self.place] = self.cells
        return spread

    def to_bytes(self) -> bytes:
        """The totals as a frame."""
        return pack({"place": self.place, "cells": self.cells.reshape(-1), "whole": self.whole})

    @classmethod
    def from_bytes(cls, frame: Any) -> "WorkerTotals":
        """The totals of a frame."""
        arrays = unpack(frame)
        n_workers = len(arrays["place"])
        cells = arrays["cells"].reshape(n_workers, -1 if n_workers else 0)
        return cls(arrays["place"], cells, arrays["whole"])


class WorkerTotalsCombineFn(beam.CombineFn):
    """Lends `WorkerTotals` to Beam; it holds no logic of its own. What it adds up are tokens of frames."""

    def __init__(self, spill: Spill | None = None) -> None:
        self._spill = spill or Spill()

    def create_accumulator(self) -> bytes:
        """No totals."""
        return b""

    def add_input(self, total: bytes, part: bytes) -> bytes:
        """`part` added."""
        return self.merge_accumulators([total, part])

    def merge_accumulators(self, totals: Iterable[bytes]) -> bytes:
        """All `totals` together."""
        tokens = [token for token in totals if token]
        if len(tokens) <= 1:
            return tokens[0] if tokens else b""
        parts = [WorkerTotals.from_bytes(self._spill.get(token)) for token in tokens]
        return self._spill.put(WorkerTotals.sum(parts).to_bytes())[0]

    def extract_output(self, total: bytes) -> bytes:
        """The total."""
        return total
