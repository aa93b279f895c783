"""Skills from agreements: the paper's weighted rank-one problem, solved.

With N_ij common tasks and a_ij agreements, K classes and one coin a worker (right with probability p, else any other
class alike), C_ij = (K a_ij / N_ij − 1)/(K − 1) estimates s_i s_j, where s = (K p − 1)/(K − 1) is the skill. The skills
minimise

    L(x) = Σ_{i<j} B(N_ij) (C_ij − x_i x_j)² + λ Σ_i (x_i − x⁰_i)²,      |x_i| ≤ 1 − τ / √n_i

(Ma, Olshevsky, Szepesvari, Saligrama: Crowdsourcing with Sparsely Interacting Workers), n_i the labels of worker i. Of
the two solutions ±x each component gets the one with Σ n_i x_i > 0; gold, a worker held at 1, and a prior x⁰ decide for
theirs. A component without odd cycle gets its balanced solution (both sides with the same Σ x²), a worker without peers
the mean skill of the others.

The loss has several valleys, so several starts are tried and each component keeps the best. When they are compared,
every worker below 0 costs as much as the noise of six pairs. On sparse graphs the lowest valley of all often has whole
groups of workers turned upside down, for a gain that noise explains: with 41 workers in a ring of 50 common tasks a
pair, skills from 0.1 to 0.9, the lowest loss alone had an error of 0.29, with the cost it was 0.16.

>>> from crowdcore.edges import EdgeCounts
>>> agree = {("ann", "bob"): 86, ("ann", "cem"): 815, ("bob", "cem"): 78}
>>> edges = EdgeCounts(
...     np.array(["ann", "bob", "cem"], object), np.array([2000, 2000, 2000]), np.zeros(3, int),
...     np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([100, 1000, 100]), np.array(list(agree.values())),
...     ("no", "yes"),
... )
>>> fit_skills(edges).skills.round(3)
array([0.9, 0.8, 0.7])
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crowdcore.edges import EdgeCounts, Names
from crowdcore.errors import InvalidOptionError
from crowdcore.graph import GOLD, WorkerGraph
from crowdcore.options import SOLVERS
from crowdcore.problem import AgreementProblem
from crowdcore.solution import Solution, solve
from crowdcore.weights import Floats, pair_weights

_DOUBT = 6.0


@dataclass(frozen=True)
class SkillFit:
    """Skills and how they were found.

    Attributes:
        workers: (workers,) ids, sorted; gold, if there is any, is the empty string.
        skills: (workers,) s in [−1, 1]; gold's is 1.
        bounds: (workers,) 1 − τ / √n: how far from 0 a skill may be.
        status: (workers,) "ok", "saturated" (at its bound), "unidentified" (without odd cycle or gold), "isolated".
        graph: who has common tasks with whom.
        n_classes: K.
        weights, saturation: as given.
        prior_strength: (workers,) λ, 0 where no skill was known beforehand.
        loss: L at the skills.
        loss_history: L after each round, of the start that won in the largest component; then `loss`.
        converged: whether no worker would move by more than the tolerance.
        reason: why the solver stopped, a sentence.
        start: which start won in the largest component; "given" for an array.
        n_rounds: how many rounds that start took.
    """

    workers: Names
    skills: Floats
    bounds: Floats
    status: Names
    graph: WorkerGraph
    n_classes: int
    weights: str
    saturation: float
    prior_strength: Floats
    loss: float
    loss_history: tuple[float, ...]
    converged: bool
    reason: str
    start: str
    n_rounds: int


def fit_skills(
    edges: EdgeCounts,
    *,
    n_classes: int | None = None,
    weights: str = "identity",
    saturation: float = 10.0,
    solver: str = "newton",
    start: str | ArrayLike = "auto",
    tau: float = 1.0,
    prior: Mapping[str, float] | ArrayLike | None = None,
    prior_strength: float = 0.0,
    rng: np.random.Generator | None = None,
    graph: WorkerGraph | None = None,
    max_rounds: int | None = None,
    tol: float = 1e-10,
) -> SkillFit:
    """The skills that explain the agreements best.

    Args:
        edges: the agreement counts.
        n_classes: K; the classes seen, at least 2, when not given.
        weights: "identity", "binary", "squared" or "saturating".
        saturation: n0 of the saturating weights.
        solver: "newton", or "paper" for the paper's update.
        start: "half", "spectral", "tree", "random", an array of skills, or "auto": several, the best wins.
        tau: how far, in standard errors of a guess, skills stay away from ±1.
        prior: skills known beforehand: by worker id, or (workers,) with NaN where none is known.
        prior_strength: λ, their weight; 100 counts like 100 common tasks with a worker who is always right.
        rng: for the spectral and random starts; a fixed one when not given.
        graph: `WorkerGraph.of(edges)`, if it is there already.
        max_rounds: of the solver; by default 100, or 100,000 for the paper's update.
        tol: the solver stops when no worker would move by more than this.
    """
    _check(n_classes, solver, tau, prior_strength, max_rounds, tol)
    classes = max(2, len(edges.classes)) if n_classes is None else n_classes
    graph = WorkerGraph.of(edges) if graph is None else graph
    strength, known = _prior_arrays(edges, prior, prior_strength)
    weight, common = pair_weights(edges.n_common, weights, saturation), np.maximum(edges.n_common, 1)
    target = edges.n_agree / common
    target *= classes / (classes - 1)
    target -= 1 / (classes - 1)
    noise = float(np.sum(weight * weight / common) / max(np.sum(weight), 1e-300)) / (classes - 1)
    del common  # it is as large as the edges, and the solver is where memory is scarcest
    problem = AgreementProblem.of(
        edges.first, edges.second, weight=weight, target=target, bounds=_bounds(edges, tau),
        fixed=edges.workers == GOLD, prior=known, prior_strength=strength, parts=graph.parts,
    )  # fmt: skip
    found = solve(
        problem, importance=np.where(problem.fixed, 0.0, edges.n_labels), penalty=_DOUBT * noise,
        solver=solver, start=start, rng=rng, tol=tol, max_rounds=max_rounds,
    )  # fmt: skip
    return SkillFit(
        edges.workers, found.x, problem.bounds, _statuses(problem, found, graph), graph, classes,
        weights, saturation, strength, found.loss, found.loss_history, found.remaining <= tol,
        _reason(found, tol), found.start, found.n_rounds,
    )  # fmt: skip


def _bounds(edges: EdgeCounts, tau: float) -> Floats:
    bounds = np.maximum(0.0, 1 - tau / np.sqrt(np.maximum(edges.n_labels, 1)))
    return np.where(edges.workers == GOLD, 1.0, bounds)


def _prior_arrays(
    edges: EdgeCounts, prior: Mapping[str, float] | ArrayLike | None, prior_strength: float
) -> tuple[Floats, Floats]:
    """(workers,) λ, 0 where nothing is known, and x⁰."""
    known = np.full(edges.n_workers, np.nan)
    if isinstance(prior, Mapping):
        known[:] = [prior.get(worker, np.nan) for worker in edges.workers]
    elif prior is not None:
        known[:] = np.asarray(prior, np.float64)
    if np.any(np.abs(known) > 1):
        raise InvalidOptionError(f"a prior skill is {known[np.abs(known) > 1][0]}; it takes numbers from -1 to 1")
    usable = np.isfinite(known) & (edges.workers != GOLD)
    return np.where(usable, prior_strength, 0.0), np.where(usable, known, 0.0)


def _statuses(problem: AgreementProblem, found: Solution, graph: WorkerGraph) -> Names:
    """(workers,) see `SkillFit`."""
    identified = np.append(graph.identified, True)[graph.component]
    saturated = (np.abs(found.x) >= problem.bounds - 1e-9) & ~problem.fixed
    determined = found.determined | problem.fixed | (problem.bounds <= 0)
    status = np.full(len(found.x), "ok", object)
    status[saturated] = "saturated"
    status[~(identified & determined)] = "unidentified"
    status[(graph.n_peers == 0) & ~problem.fixed] = "isolated"
    return status


def _reason(found: Solution, tol: float) -> str:
    if found.remaining <= tol:
        return f"No worker would move by more than {tol:g} on its own."
    if found.stalled:
        return f"The loss falls no more; a worker would still move by {found.remaining:.2g} on its own."
    return f"The rounds are used up; a worker would still move by {found.remaining:.2g} on its own."


def _check(
    n_classes: int | None, solver: str, tau: float, prior_strength: float, max_rounds: int | None, tol: float
) -> None:
    if n_classes is not None and n_classes < 2:
        raise InvalidOptionError(f"n_classes is {n_classes}; it takes 2 or more")
    if solver not in SOLVERS:
        raise InvalidOptionError(f"solver is {solver!r}; it takes {', '.join(SOLVERS)}")
    if not tau >= 0:
        raise InvalidOptionError(f"tau is {tau}; it takes a number of at least 0")
    if not prior_strength >= 0:
        raise InvalidOptionError(f"prior_strength is {prior_strength}; it takes a number of at least 0")
    if max_rounds is not None and max_rounds < 1:
        raise InvalidOptionError(f"max_rounds is {max_rounds}; it takes 1 or more")
    if not tol > 0:
        raise InvalidOptionError(f"tol is {tol}; it takes a number above 0")
