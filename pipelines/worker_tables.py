"""What a run says of its workers, whatever the method: tables of skills, edges and the graph, and their counts."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from crowdcore.graph import WorkerGraph
from crowdcore.scores import Floats, accuracy_of
from pipelines.blocks import GOLD
from pipelines.tables import table_of

EDGES_PER_BLOCK = 1 << 18


def skill_table(
    graph: WorkerGraph, skills: Floats, intervals: tuple[Floats, Floats], status: Any, n_classes: int
) -> pa.Table:
    """Rows of skills, one a worker; gold is left out.

    Args:
        graph: of the workers.
        skills: (workers,) s.
        intervals: (workers,) lower and upper ends.
        status: (workers,) how far to trust each.
        n_classes: how many classes there are; two at least.
    """
    people = np.flatnonzero(graph.workers != GOLD)
    columns = {
        "worker": graph.workers,
        "skill": skills,
        "skill_low": intervals[0],
        "skill_high": intervals[1],
        "accuracy": accuracy_of(skills, n_classes),
        "n_labels": graph.edges.n_labels,
        "n_peers": graph.n_peers,
        "component": graph.component,
        "status": np.asarray(status, object),
    }
    return table_of("skill", {name: pa.array(np.asarray(column)[people]) for name, column in columns.items()})


def graph_table(graph: WorkerGraph) -> pa.Table:
    """Rows of the graph, one a component."""
    sigma = np.asarray(graph.sigma_min, np.float64)
    columns: dict[str, Iterable[Any]] = {
        "component": np.arange(len(graph.n_workers)),
        "n_workers": graph.n_workers,
        "n_edges": graph.n_edges,
        "n_labels": graph.n_labels,
        "bipartite": graph.bipartite,
        "has_gold": graph.has_gold,
        "identified": graph.identified,
        "sigma_min": pa.array(sigma, mask=np.isnan(sigma)),
        "verdict": graph.verdicts(),
        "fix": graph.fixes(),
        "example_worker": graph.example_worker,
    }
    return table_of("graph", columns)


def worker_counts(graph: WorkerGraph, status: Any, n_classes: int) -> dict[str, int]:
    """What the manifest counts of workers with the given (workers,) `status`, who chose among `n_classes` classes."""
    edges, identified = graph.edges, np.asarray(graph.identified)
    determined = np.isin(status, ("ok", "saturated")) & (graph.workers != GOLD)
    return {
        "workers": int((graph.workers != GOLD).sum()),
        "edges": edges.n_edges,
        "classes": n_classes,
        "components": len(identified),
        "components_identified": int(identified.sum()),
        "workers_identified": int(determined.sum()),
        "workers_isolated": int(np.asarray(graph.isolated).sum()),
        "tasks_sampled": edges.n_sampled,
    }


def edge_tables(edges: EdgeCounts) -> Iterator[pa.Table]:
    """Rows of edges, in parts."""
    workers = pa.array(edges.workers, pa.string())
    first, second = edges.first.astype(np.int32), edges.second.astype(np.int32)
    for start in range(0, max(edges.n_edges, 1), EDGES_PER_BLOCK):
        part = slice(start, start + EDGES_PER_BLOCK)
        columns = {
            "worker_a": pa.DictionaryArray.from_arrays(pa.array(first[part]), workers),
            "worker_b": pa.DictionaryArray.from_arrays(pa.array(second[part]), workers),
            "n_common": pa.array(edges.n_common[part]),
            "n_agree": pa.array(edges.n_agree[part]),
        }
        yield table_of("edge", columns)
