"""DDKR: skills as the ratio of two eigenvectors, then alternating steps to the minimum of a loss.

With N_ij the common tasks of two workers, a_ij their agreements and K classes, A_ij = N_ij C_ij with
C_ij = (K a_ij / N_ij − 1)/(K − 1) has the expectation N_ij s_i s_j; K = 2 gives A = Σ Y_i Y_j. If N were rank one, its
top eigenvector v and that of A, w, would satisfy w_i ∝ v_i s_i:

    s_i = √(λ_A / λ_N) · w_i / v_i

(Dalvi, Dasgupta, Kumar, Rastogi: "Aggregating Crowdsourced Binary Ratings", WWW 2013). From there the skills go to a
minimum of one of their two losses, in the words of our paper's related work,

    "counts"   L(x) = Σ (A_ij − N_ij x_i x_j)² = Σ N_ij² (C_ij − x_i x_j)²
    "plain"    L(x) = Σ_{N_ij > 0} (C_ij − x_i x_j)²

by alternating: with all others held, the best x_i is Σ_j B_ij C_ij x_j / Σ_j B_ij x_j², B = N² or 1. All workers step
at once, half the way there; in full they would swing to and fro between s·c and s/c. Where a few pairs have most of the
weight these steps take thousands of rounds; after the first hundred Newton's method goes on to the same minimum.

The diagonals, which no pair tells, are left out. Each connected component has its own eigenvectors and its own sign,
Σ n_i x_i ≥ 0; skills keep to ±(1 − 1/√n), n the worker's labels; a component without odd cycle keeps the balance that
the eigenvectors give it; a worker without peers gets the mean skill of the others, 0 if there are none.

>>> from crowdcore.edges import EdgeCounts
>>> edges = EdgeCounts(
...     np.array(["ann", "bob", "cem"], object), np.array([2000, 2000, 2000]), np.zeros(3, int),
...     np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([100, 1000, 100]), np.array([86, 815, 78]), ("no", "yes"),
... )
>>> ddkr_skills(edges).round(6), ddkr_skills(edges, loss="plain").round(6)
(array([0.9, 0.8, 0.7]), array([0.9, 0.8, 0.7]))
"""

import numpy as np
import scipy.sparse as sp

from crowdcore.baselines.agreement import skill_bounds
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.newton import descend
from crowdcore.problem import AgreementProblem
from crowdcore.triangles import symmetric_product
from crowdcore.weights import Floats, pair_weights

LOSSES = {"counts": "squared", "plain": "binary"}
_POWER_ROUNDS = 100


def agreements(edges: EdgeCounts, n_classes: int | None = None) -> Floats:
    """(edges,) C_ij = (K a_ij / N_ij − 1)/(K − 1); K is the classes seen, at least 2, when not given."""
    classes = max(2, len(edges.classes)) if n_classes is None else n_classes
    if classes < 2:
        raise InvalidOptionError(f"n_classes is {classes}; it takes 2 or more")
    found: Floats = (classes * edges.n_agree / np.maximum(edges.n_common, 1) - 1) / (classes - 1)
    return found


def ddkr_skills(
    edges: EdgeCounts,
    *,
    n_classes: int | None = None,
    loss: str = "counts",
    max_rounds: int = 100,
    tol: float = 1e-10,
) -> Floats:
    """(workers,) skills.

    Args:
        edges: the agreement counts.
        n_classes: K; the classes seen, at least 2, when not given.
        loss: "counts" or "plain".
        max_rounds: of alternating steps, then of Newton's; 0 leaves the ratio of the eigenvectors.
        tol: it stops when no skill moves by more than this.
    """
    if loss not in LOSSES:
        raise InvalidOptionError(f"loss is {loss!r}; it takes {', '.join(LOSSES)}")
    target, bounds = agreements(edges, n_classes), skill_bounds(edges.n_labels)
    counts = AgreementProblem.of(edges.first, edges.second, weight=edges.n_common, target=target, bounds=bounds)
    x = counts.clip(_upright(counts, _ratio(counts), edges))
    weight = pair_weights(edges.n_common, LOSSES[loss])
    problem = AgreementProblem.of(
        edges.first, edges.second, weight=weight, target=target, bounds=bounds, parts=counts.parts
    )
    for _ in range(max_rounds):
        halfway = problem.clip(0.5 * (x + problem.at(x).coordinate_minimum))
        moved = float(np.max(np.abs(halfway - x), initial=0.0))
        x = halfway
        if moved <= tol:
            break
    x = descend(problem, x, tol=tol, max_rounds=max_rounds).x if max_rounds else x
    return _filled(counts, _upright(counts, x, edges), edges)


def _ratio(problem: AgreementProblem) -> Floats:
    """(workers,) √(λ_A / λ_N) w / v, the weights of `problem` being N; 0.5 where A has no positive eigenvalue."""
    v, largest = _top(problem, problem.upper)
    w, agreed = _top(problem, problem.upper_target)
    usable = (largest > 0) & (agreed > 0)
    scale = np.sqrt(np.where(usable, agreed, 0.25) / np.where(usable, largest, 1.0))
    ratio = problem.spread(scale) * w / np.where(np.abs(v) > 0, v, 1.0)
    return np.where(problem.spread(usable), ratio, 0.5)


def _top(problem: AgreementProblem, upper: sp.csr_array) -> tuple[Floats, Floats]:
    """(workers,) the eigenvector with the largest eigenvalue of each component; (components,) the eigenvalue.

    The matrix is shifted by half its largest weighted degree: the power iteration then finds the largest eigenvalue,
    not the largest in absolute value. It starts from the weighted degrees, which are all positive.
    """
    shift = np.zeros(problem.parts.n_components)
    np.maximum.at(shift, problem.parts.component, 0.5 * problem.degree)
    v = problem.degree + (problem.degree == 0)
    for _ in range(_POWER_ROUNDS):
        v = symmetric_product(upper, v) + problem.spread(shift) * v
        length = np.sqrt(problem.by_component(v * v))
        v = v / problem.spread(np.where(length > 0, length, 1.0))
    return v, problem.by_component(v * symmetric_product(upper, v))


def _upright(problem: AgreementProblem, x: Floats, edges: EdgeCounts) -> Floats:
    """Of x and −x the one with Σ n_i x_i ≥ 0, for each component."""
    return np.where(problem.spread(problem.by_component(edges.n_labels * x) < 0), -x, x)


def _filled(problem: AgreementProblem, x: Floats, edges: EdgeCounts) -> Floats:
    """Workers without peers get the mean of the others, each counting by its labels."""
    informed = problem.degree > 0
    weight = np.where(informed, edges.n_labels, 0).astype(np.float64)
    mean = float(np.sum(weight * x) / np.sum(weight)) if np.any(weight > 0) else 0.0
    return problem.clip(np.where(informed, x, mean))
