"""Where the solvers start. The loss has several valleys; a start decides which one is found.

"half" puts every skill at 0.5 (or at what is known beforehand): most crowds are better than guessing. "spectral" takes
the leading eigenvector of the weighted agreements, D^(−1/2) (B∘C) D^(−1/2) with D the weighted degrees, which for
C = s sᵀ on a well-mixed graph is D^(1/2) s. "tree" is ±0.5, with signs carried along the spanning tree of the firmest
agreements and disagreements: on a sparse graph with workers worse than guessing, the others miss the signs. "random" is
the paper's: uniform in [−1, 1]. "auto" is all of them, two of them random, the tree on sparse graphs only.
"""

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from crowdcore.errors import InvalidOptionError
from crowdcore.options import STARTS
from crowdcore.problem import AgreementProblem
from crowdcore.triangles import symmetric_product
from crowdcore.weights import Floats

_HALF = 0.5
_SPARSE = 20
_POWER_ROUNDS = 20
_SHIFT = 0.5


def starting_points(
    problem: AgreementProblem, start: str | ArrayLike, rng: np.random.Generator
) -> list[tuple[str, Floats]]:
    """Names and (workers,) points; `start` is one of `STARTS` or (workers,) skills, NaN where none is known.

    >>> pair = AgreementProblem.of([0], [1], weight=[1], target=[0.25], bounds=np.ones(2))
    >>> starting_points(pair, [0.9, float("nan")], np.random.default_rng(0))
    [('given', array([0.9, 0.5]))]
    """
    known = np.where(problem.prior_strength > 0, problem.prior, _HALF)
    if not isinstance(start, str):
        given: Floats = np.asarray(start, np.float64)
        if given.shape != (problem.n_workers,):
            raise InvalidOptionError(f"start has the shape {given.shape}; it takes {problem.n_workers} skills")
        return [("given", np.where(np.isfinite(given), given, known))]
    if start not in STARTS:
        raise InvalidOptionError(f"start is {start!r}; it takes {', '.join(STARTS)} or an array of skills")
    points = []
    if start in ("auto", "half"):
        points.append(("half", known))
    if start in ("auto", "spectral"):
        points.append(("spectral", _spectral(problem, rng)))
    sparse = 0 < len(problem.first) <= _SPARSE * problem.n_workers
    if start == "tree" or (start == "auto" and sparse):
        points.append(("tree", _HALF * _tree_signs(problem)))
    n_random = {"auto": 2, "random": 1}.get(start, 0)
    points.extend(("random", rng.uniform(-1, 1, problem.n_workers)) for _ in range(n_random))
    alone = problem.degree == 0
    return [(name, np.where(alone, known, point)) for name, point in points]


def _spectral(problem: AgreementProblem, rng: np.random.Generator) -> Floats:
    """Power iteration, shifted so that the largest eigenvalue wins, not the largest in absolute value."""
    scale = 1 / np.sqrt(np.where(problem.degree > 0, problem.degree, 1.0))
    v = rng.standard_normal(problem.n_workers)
    for _ in range(_POWER_ROUNDS):
        v = scale * symmetric_product(problem.upper_target, scale * v) + _SHIFT * v
        length = np.sqrt(problem.by_component(v * v))
        v /= problem.spread(np.where(length > 0, length, 1.0))
    x = scale * v
    turned = problem.by_component(np.where(problem.fixed, x, 0.0)) < 0
    x = np.where(problem.spread(turned), -x, x)
    square = x * x
    present = problem.by_component(square * symmetric_product(problem.upper, square))
    wanted = problem.by_component(x * symmetric_product(problem.upper_target, x))
    size = np.where((wanted > 0) & (present > 0), wanted, 1.0) / np.where((wanted > 0) & (present > 0), present, 1.0)
    sized: Floats = x * problem.spread(np.sqrt(size))
    return sized


def _tree_signs(problem: AgreementProblem) -> Floats:
    """(workers,) ±1: the product of the signs of C on the way to the root of the spanning tree of the largest B |C|."""
    if len(problem.first) == 0:
        return np.ones(problem.n_workers)
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree  # dense graphs do without them

    n_workers, root = problem.n_workers, problem.n_workers
    cost = 1 / (1e-9 + np.abs(problem.upper_target.data))
    costs = sp.csr_array((cost, problem.upper.indices, problem.upper.indptr), shape=problem.upper.shape)
    tree = minimum_spanning_tree(costs).tocoo()
    _, entrances = np.unique(problem.parts.component, return_index=True)
    gold = np.flatnonzero(problem.fixed)
    entrances[problem.parts.component[gold]] = gold
    rows = np.concatenate([tree.coords[0], np.full(len(entrances), root)])
    columns = np.concatenate([tree.coords[1], entrances])
    rooted = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(root + 1, root + 1)).tocsr()
    parent = breadth_first_order(rooted, root, directed=False)[1].astype(np.int64)
    parent[root] = root
    sign = np.ones(n_workers + 1)
    signs = problem.upper_target.sign()
    signs = signs + signs.T
    inner = np.flatnonzero(parent[:n_workers] != root)
    sign[inner] = signs[inner, parent[inner]]
    while np.any(parent != root):
        sign *= sign[parent]
        parent = parent[parent]
    return np.where(sign[:n_workers] < 0, -1.0, 1.0)
