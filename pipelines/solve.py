"""Solving: one table of worker-pair counts in; skills, the graph's verdict and the model for scoring out."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines import progress
from pipelines.counts import pack_counts
from pipelines.edge_frames import unpack_edges
from pipelines.settings import AggregateSettings
from pipelines.solving import solve
from pipelines.spill import Spill
from pipelines.tables import to_bytes
from pipelines.worker_tables import edge_tables


@dataclass
class SolveSkills(beam.PTransform):
    """Finds the skills of all workers.

    Input: the token of one frame of `EdgeCounts` a window. Output: "model", one frame a window; "skills", "edges" and
    "graph", pairs of a part's number and a table; "counts"; "fit", how the solver ended, as JSON.
    """

    settings: AggregateSettings = field(default_factory=AggregateSettings)
    prior_skills: Mapping[str, float] = field(default_factory=dict)
    spill: Spill = field(default_factory=Spill)

    def expand(self, edges: beam.PCollection[bytes]) -> Any:
        """Wires the step."""
        return edges | "Solve" >> beam.FlatMap(
            solve_edges, settings=self.settings, prior_skills=dict(self.prior_skills), spill=self.spill
        ).with_outputs("model", "skills", "edges", "graph", "counts", "fit")


def solve_edges(
    token: bytes, settings: AggregateSettings, prior_skills: Mapping[str, float], spill: Spill
) -> Iterator[Any]:
    """Everything that follows from one table of counts."""
    edges = unpack_edges(spill.get(token))
    progress.add("solve", 0)
    tag = beam.pvalue.TaggedOutput
    for part, table in enumerate(edge_tables(edges)):  # first, so that they are written while the solver works
        yield tag("edges", (part, to_bytes(table)))
    solved = solve(edges, settings, prior_skills)
    yield tag("model", solved.model.to_bytes())
    yield tag("skills", (0, to_bytes(solved.skill_table())))
    yield tag("graph", (0, to_bytes(solved.graph_table())))
    yield tag("counts", pack_counts(solved.counts()))
    yield tag("fit", json.dumps(solved.account()).encode())
