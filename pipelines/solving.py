"""Solving: worker-pair counts in; skills, intervals, the graph's verdict and the model for scoring out."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from crowdcore.graph import WorkerGraph
from crowdcore.pgd import SkillFit, fit_skills
from crowdcore.scores import Floats, vote_weights
from crowdcore.uncertainty import skill_intervals
from pipelines.blocks import GOLD
from pipelines.model import IDENTIFIED, ISOLATED, UNIDENTIFIED, Model
from pipelines.settings import AggregateSettings
from pipelines.worker_tables import graph_table, skill_table, worker_counts

_STANDING = {"unidentified": UNIDENTIFIED, "isolated": ISOLATED}


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
        return skill_table(self.fit.graph, self.fit.skills, self.intervals, self.fit.status, self.fit.n_classes)

    def graph_table(self) -> pa.Table:
        """Rows of the graph, one a component."""
        return graph_table(self.fit.graph)

    def counts(self) -> dict[str, int]:
        """What the manifest counts of the solution."""
        return worker_counts(self.fit.graph, self.fit.status, len(self.model.classes))

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
