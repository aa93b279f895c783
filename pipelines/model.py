"""The model as a frame: what scoring needs to know of every worker."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.frames import pack, pack_texts, unpack, unpack_texts
from pipelines.names import NameIndex

IDENTIFIED, UNIDENTIFIED, ISOLATED = range(3)


@dataclass(frozen=True)
class Model:
    """Skills as votes.

    Attributes:
        workers: (workers,) ids, sorted.
        weights: (workers,) what a vote weighs.
        standing: (workers,) `IDENTIFIED`, `UNIDENTIFIED` or `ISOLATED`.
        classes: the classes, sorted.
        n_classes: how many classes there are; two at least.
        class_prior: (n_classes,) how frequent the classes are; empty when all alike.
        name: what answers say they come from.
    """

    workers: pa.LargeStringArray
    weights: NDArray[np.float64]
    standing: NDArray[np.uint8]
    classes: pa.LargeStringArray
    n_classes: int
    class_prior: NDArray[np.float64]
    name: str

    def to_bytes(self) -> bytes:
        """The model as a frame."""
        return pack(
            {
                **pack_texts("workers", self.workers),
                "weights": self.weights,
                "standing": self.standing,
                **pack_texts("classes", self.classes),
                "n_classes": np.array([self.n_classes]),
                "class_prior": self.class_prior,
                "name": np.frombuffer(self.name.encode(), np.uint8),
            }
        )

    @classmethod
    def from_bytes(cls, frame: Any) -> "Model":
        """The model of a frame."""
        arrays = unpack(frame)
        return cls(
            unpack_texts("workers", arrays),
            arrays["weights"],
            arrays["standing"],
            unpack_texts("classes", arrays),
            int(arrays["n_classes"][0]),
            arrays["class_prior"],
            arrays["name"].tobytes().decode(),
        )

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(self.workers)

    def places(self, workers: pa.LargeStringArray) -> NDArray[np.int64]:
        """(workers,) where `workers` stand in the model; -1 for those without a counted label anywhere."""
        return self._index.find(workers)

    def class_places(self, classes: pa.LargeStringArray) -> NDArray[np.int64]:
        """(classes,) where `classes` stand in the model; -1 for a class that no counted label has."""
        return np.asarray(pc.index_in(classes, value_set=self.classes).fill_null(-1).to_numpy(), np.int64)
