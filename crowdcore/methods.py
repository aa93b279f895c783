"""Every method under one name, with one signature: labels in, an `Aggregation` out.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 1, 0, 1, 0], n_tasks=2, n_workers=3, n_classes=2)
>>> METHODS["majority"](crowd.labels, rng=np.random.default_rng(0)).probabilities.round(3)
array([[0.333, 0.667],
       [0.5  , 0.5  ]])
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.agreement import agreement_skills
from crowdcore.baselines.dawid_skene import dawid_skene
from crowdcore.baselines.ddkr import ddkr_skills
from crowdcore.baselines.ghosh import ghosh
from crowdcore.baselines.kos import kos
from crowdcore.baselines.one_coin import one_coin_dawid_skene
from crowdcore.baselines.opt_dawid_skene import opt_dawid_skene
from crowdcore.baselines.oracle import oracle_vote
from crowdcore.baselines.triangle import triangle_skills
from crowdcore.baselines.weighted_majority import weighted_majority
from crowdcore.confusion import pgd_confusion
from crowdcore.edges import EdgeCounts
from crowdcore.labels import TaskLabels
from crowdcore.projected_gradient import projected_gradient
from crowdcore.weights import Floats


class Run(Protocol):
    """What every method is."""

    def __call__(self, labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
        """The outcome of the method on `labels`; chance, where it needs any, comes from `rng`."""


@dataclass(frozen=True)
class Method:
    """A method and what to say about it.

    Attributes:
        run: the method.
        description: what it does, one line.
        source: who published it.
    """

    run: Run
    description: str
    source: str

    def __call__(self, labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
        """The outcome on `labels`."""
        return self.run(labels, rng=rng)


def pair_counts(labels: TaskLabels) -> EdgeCounts:
    """The pair counts of `labels`; workers and classes are called by their codes, in the order of the codes."""
    names = np.array([f"{code:09d}" for code in range(labels.n_workers)], object)
    return EdgeCounts.of(labels, names, [f"{code:09d}" for code in range(labels.n_classes)])


def by_code(values: Floats, edges: EdgeCounts, n_workers: int) -> Floats:
    """(workers,) values by worker code; 0 for a worker without labels, whom `edges` does not have."""
    spread = np.zeros(n_workers)
    spread[edges.workers.astype(np.int64)] = values
    return spread


def _majority(labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
    found = weighted_majority(labels)
    return replace(found, skills=agreement_skills(labels, found.answer))


def _pgd(labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
    return projected_gradient(labels, rng=rng)


def _from_pairs(find: Callable[..., Floats]) -> Run:
    """The method that votes with the skills which `find` reads off the pair counts."""

    def run(labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
        edges = pair_counts(labels)
        return oracle_vote(
            labels, by_code(find(edges, n_classes=max(2, labels.n_classes)), edges, labels.n_workers)
        )  # fmt: skip

    return run


def _without_chance(method: Callable[[TaskLabels], Aggregation]) -> Run:
    def run(labels: TaskLabels, *, rng: np.random.Generator) -> Aggregation:
        return method(labels)

    return run


METHODS: dict[str, Method] = {
    "pgd": Method(_pgd, "skills from agreements by weighted least squares, then log-odds votes", "Ma et al."),
    "majority": Method(_majority, "the class with the most labels; probabilities are shares of the votes", "folklore"),
    "dawid-skene": Method(_without_chance(dawid_skene), "EM, a confusion matrix a worker", "Dawid, Skene 1979"),
    "one-coin": Method(_without_chance(one_coin_dawid_skene), "EM, one accuracy a worker", "Dawid, Skene 1979"),
    "opt-dawid-skene": Method(opt_dawid_skene, "EM from a spectral start of three groups", "Zhang et al. 2014"),
    "kos": Method(kos, "message passing between tasks and workers", "Karger, Oh, Shah 2011"),
    "ghosh": Method(ghosh, "top eigenvector of the task-task matrix", "Ghosh, Kale, McAfee 2011"),
    "ddkr": Method(
        _from_pairs(ddkr_skills), "skills as a ratio of eigenvectors, then least squares", "Dalvi et al. 2013"
    ),
    "triangle": Method(_from_pairs(triangle_skills), "skills from one triangle a worker", "Bonald, Combes 2017"),
    "pgd-confusion": Method(pgd_confusion, "a few smoothed EM steps with confusion matrices from pgd", "this project"),
}
