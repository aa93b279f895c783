"""`EdgeCounts` as frames, and the CombineFn that adds them up."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts
from pipelines.spill import Spill


def pack_edges(edges: EdgeCounts) -> bytes:
    """Edge counts as a frame."""
    return pack(
        {
            **pack_texts("workers", pa.array(edges.workers, pa.large_string())),
            **pack_texts("classes", pa.array(edges.classes, pa.large_string())),
            "n_labels": edges.n_labels,
            "n_triples": edges.n_triples,
            "first": narrow(edges.first, edges.n_workers),
            "second": narrow(edges.second, edges.n_workers),
            "n_common": _shrunk(edges.n_common),
            "n_agree": _shrunk(edges.n_agree),
            "n_sampled": np.array([edges.n_sampled]),
            "n_by_class": np.array(list(edges.class_counts.values()), np.int64),
        }
    )


def unpack_edges(frame: Any) -> EdgeCounts:
    """The edge counts of a frame."""
    arrays = unpack(frame)
    return EdgeCounts(
        unpack_texts("workers", arrays).to_numpy(zero_copy_only=False),
        arrays["n_labels"],
        arrays["n_triples"],
        arrays["first"].astype(np.int64),
        arrays["second"].astype(np.int64),
        arrays["n_common"].astype(np.int64),
        arrays["n_agree"].astype(np.int64),
        tuple(unpack_texts("classes", arrays).to_pylist()),
        int(arrays["n_sampled"][0]),
        tuple(arrays["n_by_class"].tolist()),
    )


def _shrunk(counts: Any) -> Any:
    if counts.min(initial=0) < 0:
        return counts
    return narrow(counts, int(counts.max(initial=0)) + 1)


class EdgeCountsCombineFn(beam.CombineFn):
    """Lends `crowdcore.EdgeCounts` to Beam; it holds no logic of its own. What it adds up are tokens of frames."""

    def __init__(self, spill: Spill | None = None) -> None:
        self._spill = spill or Spill()

    def create_accumulator(self) -> bytes:
        """No counts."""
        return b""

    def add_input(self, total: bytes, edges: bytes) -> bytes:
        """`edges` added."""
        return self.merge_accumulators([total, edges])

    def merge_accumulators(self, totals: Iterable[bytes]) -> bytes:
        """All `totals` together."""
        tokens = [token for token in totals if token]
        if len(tokens) <= 1:
            return tokens[0] if tokens else b""
        return self._spill.put(pack_edges(EdgeCounts.sum(unpack_edges(self._spill.get(one)) for one in tokens)))[0]

    def extract_output(self, total: bytes) -> bytes:
        """The total."""
        return total
