"""Solving: one table of worker-pair counts in; skills, the graph's verdict and the model for scoring out."""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from crowdcore.graph import WorkerGraph
from crowdcore.pgd import SkillFit, fit_skills
from crowdcore.scores import Floats, accuracy_of, vote_weights
from crowdcore.uncertainty import skill_intervals
from pipelines import progress
from pipelines.blocks import GOLD
from pipelines.counts import pack_counts
from pipelines.edge_frames import unpack_edges
from pipelines.model import IDENTIFIED, ISOLATED, UNIDENTIFIED, Model
from pipelines.settings import AggregateSettings
from pipelines.spill import Spill
from pipelines.tables import table_of, to_bytes

EDGES_PER_BLOCK = 1 << 18
_STANDING = {"unidentified": UNIDENTIFIED, "isolated": ISOLATED}


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


@dataclass(frozen=True)
class Solved:
    """What follows from one table of counts: the model for scoring, skills with their intervals, the graph."""

    edges: EdgeCounts
    model: Model
    fit: SkillFit
    intervals: tuple[Floats, Floats] | None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(self.model.classes.to_pylist())

    def skill_table(self) -> pa.Table:
        """Rows of skills, one a worker."""
        if self.intervals is None:
            raise ValueError("this solution has no intervals")
        fit, (low, high) = self.fit, self.intervals
        people = np.flatnonzero(fit.workers != GOLD)
        columns = {
            "worker": fit.workers,
            "skill": fit.skills,
            "skill_low": low,
            "skill_high": high,
            "accuracy": accuracy_of(fit.skills, fit.n_classes),
            "n_labels": self.edges.n_labels,
            "n_peers": fit.graph.n_peers,
            "component": fit.graph.component,
            "status": np.asarray(fit.status, object),
        }
        return table_of("skill", {name: pa.array(np.asarray(column)[people]) for name, column in columns.items()})

    def graph_table(self) -> pa.Table:
        """Rows of the graph, one a component."""
        graph = self.fit.graph
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

    def counts(self) -> dict[str, int]:
        """What the manifest counts of the solution."""
        graph, identified = self.fit.graph, np.asarray(self.fit.graph.identified)
        determined = np.isin(self.fit.status, ("ok", "saturated")) & (self.fit.workers != GOLD)
        return {
            "workers": int((self.edges.workers != GOLD).sum()),
            "edges": self.edges.n_edges,
            "classes": len(self.model.classes),
            "components": len(identified),
            "components_identified": int(identified.sum()),
            "workers_identified": int(determined.sum()),
            "workers_isolated": int(np.asarray(graph.isolated).sum()),
            "tasks_sampled": self.edges.n_sampled,
        }

    def account(self) -> dict[str, str]:
        """How the solver ended, for the manifest."""
        fit = self.fit
        return {
            "loss": repr(float(fit.loss)),
            "converged": str(bool(fit.converged)).lower(),
            "reason": str(fit.reason),
            "rounds": str(int(fit.n_rounds)),
            "start": str(fit.start),
            "classes": json.dumps(self.classes, ensure_ascii=False),
        }


def solve(
    edges: EdgeCounts,
    settings: AggregateSettings,
    prior_skills: Mapping[str, float] | None = None,
    start: Floats | None = None,
    intervals: bool = True,
) -> Solved:
    """Solves for the skills; `start`, (workers,) skills, NaN where none is known, takes the place of the setting.

    Without `intervals` it takes half the time, and there is no table of skills; `add_intervals` makes up for it.
    """
    classes = tuple(sorted(settings.classes or edges.classes))
    graph = WorkerGraph.of(edges)
    with ThreadPoolExecutor(1) as pool:
        sigma_min = pool.submit(lambda: graph.sigma_min) if intervals else None
        fit = fit_skills(
            edges,
            n_classes=max(2, len(classes)),
            weights=settings.weights,
            saturation=settings.saturation,
            solver=settings.solver,
            start=settings.start if start is None else start,
            prior=prior_skills or None,
            prior_strength=settings.prior_strength if prior_skills else 0.0,
            rng=np.random.default_rng(settings.seed),
            graph=graph,
        )
        bounds = skill_intervals(edges, fit, confidence=settings.confidence) if intervals else None
        if sigma_min is not None:
            sigma_min.result()
    return Solved(edges, _model_of(fit, classes, settings), fit, bounds)


def add_intervals(solved: Solved, settings: AggregateSettings) -> Solved:
    """The same solution with what `solve` left out without `intervals`."""
    with ThreadPoolExecutor(1) as pool:
        sigma_min = pool.submit(lambda: solved.fit.graph.sigma_min)
        bounds = skill_intervals(solved.edges, solved.fit, confidence=settings.confidence)
        sigma_min.result()
    return replace(solved, intervals=bounds)


def _model_of(fit: SkillFit, classes: tuple[str, ...], settings: AggregateSettings) -> Model:
    prior = dict(settings.class_prior)
    return Model(
        pa.array(fit.workers, pa.large_string()),
        vote_weights(np.where(fit.workers == GOLD, 0.0, fit.skills), fit.bounds, fit.n_classes, settings.multiclass),
        np.array([_STANDING.get(status, IDENTIFIED) for status in fit.status], np.uint8),
        pa.array(classes, pa.large_string()),
        fit.n_classes,
        np.array([prior[name] for name in classes] if prior else [], np.float64),
        settings.model,
    )


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
