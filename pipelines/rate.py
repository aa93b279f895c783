"""Rating workers by majority vote or confusion matrices: pair counts, totals and the model in; skills and graph out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np

from crowdcore.baselines.agreement import skills_from_agreements
from crowdcore.baselines.dawid_skene import skills_of
from crowdcore.edges import EdgeCounts
from crowdcore.graph import WorkerGraph
from pipelines.confusion_model import ConfusionModel, Floats
from pipelines.counts import pack_counts
from pipelines.edge_frames import unpack_edges
from pipelines.settings import AggregateSettings
from pipelines.spill import Spill
from pipelines.tables import to_bytes
from pipelines.worker_tables import edge_tables, graph_table, skill_table, worker_counts
from pipelines.worker_totals import WorkerTotals

TOLERANCE = 1e-5


@dataclass
class BeginModel(beam.PTransform):
    """The token of one frame of `EdgeCounts` a window in, the token of the `ConfusionModel` before any pass out."""

    settings: AggregateSettings
    spill: Spill = field(default_factory=Spill)

    def expand(self, edges: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        """Wires the step."""
        return edges | "Begin" >> beam.Map(begin_model, self.settings, self.spill).with_output_types(bytes)


def begin_model(token: bytes, settings: AggregateSettings, spill: Spill) -> bytes:
    """The token of the model before any pass."""
    return spill.put(ConfusionModel.of(unpack_edges(spill.get(token)), settings).to_bytes())[0]


@dataclass
class RateWorkers(beam.PTransform):
    """Tells what a method without intervals knows of the workers.

    Input: the token of one frame of `EdgeCounts` a window; `totals` and `model` are those of the answers, of the same
    window. Output: "skills", "edges" and "graph", pairs of a part's number and a table; "counts"; "fit".
    """

    totals: Any
    model: Any
    settings: AggregateSettings = field(default_factory=AggregateSettings)
    spill: Spill = field(default_factory=Spill)

    def expand(self, edges: beam.PCollection[bytes]) -> Any:
        """Wires the step."""
        totals, model = beam.pvalue.AsSingleton(self.totals), beam.pvalue.AsSingleton(self.model)
        return edges | "Rate" >> beam.FlatMap(
            rate_workers, totals, model, settings=self.settings, spill=self.spill
        ).with_outputs("skills", "edges", "graph", "counts", "fit")


def rate_workers(
    token: bytes, totals: bytes, model: bytes, settings: AggregateSettings, spill: Spill
) -> Iterator[Any]:  # fmt: skip
    """Everything that is told of the workers."""
    edges = unpack_edges(spill.get(token))
    found = WorkerTotals.from_bytes(spill.get(totals))
    before = ConfusionModel.from_bytes(spill.get(model))
    tag = beam.pvalue.TaggedOutput
    for part, table in enumerate(edge_tables(edges)):
        yield tag("edges", (part, to_bytes(table)))
    if settings.method == "majority":
        skills, account = _by_agreement(edges, found, before), {"reason": "One pass over the labels gives the answers."}
    else:
        after = before.maximised(found)
        skills, account = skills_of(np.asarray(after.confusion), after.prior), _account(after, settings)
    graph = WorkerGraph.of(edges)
    status = np.where(graph.n_peers == 0, "isolated", "ok").astype(object)
    unknown = np.ones(len(skills))
    table = skill_table(graph, skills, (-unknown, unknown), status, max(2, len(before.classes)))
    yield tag("skills", (0, to_bytes(table)))
    yield tag("graph", (0, to_bytes(graph_table(graph))))
    yield tag("counts", pack_counts(worker_counts(graph, status, len(before.classes))))
    classes = json.dumps(before.classes.to_pylist(), ensure_ascii=False)
    yield tag("fit", json.dumps({**account, "method": settings.method, "classes": classes}).encode())


def _by_agreement(edges: EdgeCounts, totals: WorkerTotals, model: ConfusionModel) -> Floats:
    n_agree = totals.spread(edges.n_workers)[:, 0] if edges.n_workers else np.zeros(0)
    return skills_from_agreements(n_agree, edges.n_labels, len(model.classes))


def _account(model: ConfusionModel, settings: AggregateSettings) -> dict[str, str]:
    """How EM ended, for the manifest."""
    falls = -np.diff(model.losses)
    last = f"the loss fell by {falls[-1]:.2g} in the last" if len(falls) else "more would tell whether that is enough"
    return {
        "loss": repr(float(model.losses[-1])),
        "converged": str(bool(np.any(falls[-1:] < TOLERANCE))).lower(),
        "reason": f"{settings.n_passes} passes were asked for; {last}.",
        "rounds": str(settings.n_passes),
        "passes": str(settings.n_passes),
    }
