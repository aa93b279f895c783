"""The model of majority vote and of Dawid-Skene as a frame: who the workers are, and what is known of them so far."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.baselines.dawid_skene import confusion_of, prior_of
from crowdcore.edges import EdgeCounts
from crowdcore.graph import WorkerGraph
from crowdcore.labels import TaskLabels
from pipelines.errors import RunError
from pipelines.frames import pack, pack_texts, unpack, unpack_texts
from pipelines.grouped import TaskShard
from pipelines.model import IDENTIFIED, ISOLATED
from pipelines.names import NameIndex
from pipelines.settings import AggregateSettings
from pipelines.worker_totals import WorkerTotals

MOST_CELLS = 50_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConfusionModel:
    """Workers, classes and, once there has been a pass over the labels, confusion matrices.

    Attributes:
        workers: (workers,) ids, sorted.
        standing: (workers,) `IDENTIFIED`, or `ISOLATED` for a worker without peers.
        classes: the classes, sorted.
        confusion: (workers, classes, classes) probability of the label (last) given the class; None before the first
            pass.
        prior: (classes,) how frequent the classes are; empty before the first pass.
        held: whether `prior` was given and is not found with the rest.
        losses: (rounds,) mean of −log-likelihood a label, after each round so far.
        n_labels: how many labels there are.
        name: what answers say they come from.
    """

    workers: pa.LargeStringArray
    standing: NDArray[np.uint8]
    classes: pa.LargeStringArray
    confusion: Floats | None
    prior: Floats
    held: bool
    losses: Floats
    n_labels: int
    name: str

    @classmethod
    def of(cls, edges: EdgeCounts, settings: AggregateSettings) -> "ConfusionModel":
        """The model before the first pass; raises `RunError` where confusion matrices would be too large."""
        classes = sorted(settings.classes or edges.classes)
        if settings.method == "dawid-skene":
            check_size(edges.n_workers, len(classes))
        alone = WorkerGraph.of(edges).n_peers == 0
        prior = dict(settings.class_prior)
        return cls(
            pa.array(edges.workers, pa.large_string()),
            np.where(alone, ISOLATED, IDENTIFIED).astype(np.uint8),
            pa.array(classes, pa.large_string()),
            None,
            np.array([prior[name] for name in classes] if prior else [], np.float64),
            bool(prior),
            np.zeros(0),
            int(edges.n_labels.sum()),
            settings.method,
        )

    def maximised(self, totals: WorkerTotals) -> "ConfusionModel":
        """The model that follows from the counts of all labels: the maximisation step.

        `totals` has the counts of each worker, and as whole the class totals and the log-likelihood of the labels under
        this model, which is left aside before the first pass.
        """
        n = len(self.classes)
        counts = totals.spread(len(self.workers)).reshape(len(self.workers), n, n)
        loss = -totals.whole[n:] / max(self.n_labels, 1)
        losses = np.concatenate([self.losses, loss if self.confusion is not None else []])
        prior = self.prior if self.held else prior_of(totals.whole[:n])
        return replace(self, confusion=confusion_of(counts), prior=prior, losses=losses)

    def coded(self, shard: TaskShard) -> TaskLabels:
        """The labels of a shard, with the model's classes."""
        place = pc.index_in(shard.classes, value_set=self.classes).fill_null(-1).to_numpy()
        return replace(
            shard.labels, label=np.asarray(place, np.int64)[shard.labels.label], n_classes=len(self.classes)
        )  # fmt: skip

    def places(self, shard: TaskShard) -> NDArray[np.int64]:
        """(workers,) where the shard's workers stand in the model; -1 for those without a counted label anywhere."""
        return self._index.find(shard.workers)

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(self.workers)

    def to_bytes(self) -> bytes:
        """The model as a frame."""
        return pack(
            {
                **pack_texts("workers", self.workers),
                "standing": self.standing,
                **pack_texts("classes", self.classes),
                "begun": np.array([self.confusion is not None]),
                "confusion": np.zeros(0) if self.confusion is None else self.confusion.reshape(-1),
                "prior": self.prior,
                "held": np.array([self.held]),
                "losses": self.losses,
                "n_labels": np.array([self.n_labels]),
                "name": np.frombuffer(self.name.encode(), np.uint8),
            }
        )

    @classmethod
    def from_bytes(cls, frame: Any) -> "ConfusionModel":
        """The model of a frame."""
        arrays = unpack(frame)
        workers, classes = unpack_texts("workers", arrays), unpack_texts("classes", arrays)
        shape = (len(workers), len(classes), len(classes))
        return cls(
            workers,
            arrays["standing"],
            classes,
            arrays["confusion"].reshape(shape) if arrays["begun"][0] else None,
            arrays["prior"],
            bool(arrays["held"][0]),
            arrays["losses"],
            int(arrays["n_labels"][0]),
            arrays["name"].tobytes().decode(),
        )


def check_size(n_workers: int, n_classes: int) -> None:
    """Raises `RunError` where the confusion matrices of all workers would not fit the memory they may take."""
    cells = n_workers * n_classes**2
    if cells > MOST_CELLS:
        raise RunError(
            f"The confusion matrices of {n_workers:,} workers with {n_classes:,} classes have {cells:,} cells; "
            f"--method dawid-skene takes at most {MOST_CELLS:,}. Take --method pgd, or fewer classes."
        )
