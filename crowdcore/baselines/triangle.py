"""The triangle estimator: each worker's skill from one well-chosen pair of peers.

For three workers C_ij = s_i s_j, C_ik = s_i s_k and C_jk = s_j s_k give

    s_i² = C_ij C_ik / C_jk

(Bonald and Combes: "A Minimax Optimal Algorithm for Crowdsourcing", NIPS 2017), C as in `agreements`. Published for
crowds in which every pair has about as many common tasks, it takes for i the pair of peers with the largest |C_jk|.
With unequal counts a pair with one common task would always win, |C| = 1; so the pair here is the one with the largest

    |C_jk| √min(N_ij, N_ik, N_jk)

of the triangles that exist, the published one when all N are alike; of equals the first. (The variance of log s_i² is
at most Σ 1/(N C²) over the three pairs.)

Signs start, as published, in each connected component from the worker with the largest |s_i² + Σ_j C_ij|, whose sign is
that of the sum; its peers take the sign of their C with it. Workers farther off follow round by round, by the sign of
Σ_j N_ij C_ij s_j over the peers that have theirs.

A worker in no triangle gets its skill from the peers that have one, Σ_j N_ij C_ij s_j / Σ_j N_ij s_j², also round by
round; where no triangle is in reach, the mean skill of the others, 0 if there are none. Skills keep to ±(1 − 1/√n), n
the worker's labels.

>>> from crowdcore.edges import EdgeCounts
>>> edges = EdgeCounts(
...     np.array(["ann", "bob", "cem"], object), np.array([2000, 2000, 2000]), np.zeros(3, int),
...     np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([100, 1000, 100]), np.array([86, 815, 78]), ("no", "yes"),
... )
>>> triangle_skills(edges).round(6)
array([0.9, 0.8, 0.7])
"""

import numpy as np
import scipy.sparse as sp

from crowdcore.baselines.agreement import skill_bounds
from crowdcore.baselines.ddkr import agreements
from crowdcore.components import Components
from crowdcore.edges import EdgeCounts
from crowdcore.labels import Ints
from crowdcore.weights import Floats

_FIRST_EDGES = 64
_CELLS = 1 << 22


def triangle_skills(edges: EdgeCounts, *, n_classes: int | None = None) -> Floats:
    """(workers,) skills.

    Args:
        edges: the agreement counts.
        n_classes: K; the classes seen, at least 2, when not given.
    """
    agreed, n_workers = agreements(edges, n_classes), edges.n_workers
    common = _symmetric(edges, edges.n_common)
    pull = _symmetric(edges, edges.n_common * agreed)
    best = best_triangles(edges, agreed, common)
    known = best >= 0
    size = _sizes(edges, agreed, best)
    bounds = skill_bounds(edges.n_labels)
    skills = np.minimum(size, bounds) * _signs(edges, agreed, np.where(known, size, 0.0), pull)
    informed = known
    while True:
        weight = common @ np.where(informed, skills * skills, 0.0)
        new = ~informed & (weight > 0)
        if not new.any():
            break
        guess = pull @ np.where(informed, skills, 0.0) / np.where(weight > 0, weight, 1.0)
        skills = np.where(new, np.clip(guess, -bounds, bounds), skills)
        informed = informed | new
    labels = np.where(informed, edges.n_labels, 0).astype(np.float64)
    mean = float(np.sum(labels * skills) / np.sum(labels)) if np.any(labels > 0) else 0.0
    filled: Floats = np.where(informed, skills, np.clip(mean, -bounds, bounds))
    return filled if n_workers else np.zeros(0)


def best_triangles(edges: EdgeCounts, agreed: Floats, common: sp.csr_array) -> Ints:
    """(workers,) which edge is opposite the worker in its best triangle; −1 where it has none.

    Edges go from the largest |C| √N down, in growing groups. No later edge can do better than that number, so a worker
    is done when its best triangle has reached it.
    """
    n_workers = edges.n_workers
    promise = np.abs(agreed) * np.sqrt(edges.n_common)
    order = np.argsort(-promise, kind="stable")
    order = order[promise[order] > 0]
    best, score = np.full(n_workers, -1, np.int64), np.zeros(n_workers)
    open_workers = np.flatnonzero(np.diff(common.indptr) > 1)
    begin, size = 0, _FIRST_EDGES
    while begin < len(order) and len(open_workers):
        group = order[begin : begin + size]
        peers = common[:, open_workers]
        both = peers[edges.first[group]].minimum(peers[edges.second[group]]).tocoo()
        if both.nnz:
            edge, worker = group[both.coords[0]], open_workers[both.coords[1]]
            found = np.abs(agreed[edge]) * np.sqrt(np.minimum(both.data, edges.n_common[edge]))
            ranked = np.lexsort([edge, -found, worker])
            top = ranked[np.flatnonzero(np.diff(worker[ranked], prepend=-1))]
            better = top[found[top] > score[worker[top]]]
            best[worker[better]], score[worker[better]] = edge[better], found[better]
        begin += size
        size = max(_FIRST_EDGES, min(2 * size, _CELLS // max(len(open_workers), 1)))
        ahead = promise[order[begin]] if begin < len(order) else 0.0
        open_workers = open_workers[score[open_workers] < ahead]
    return best


def _sizes(edges: EdgeCounts, agreed: Floats, best: Ints) -> Floats:
    """(workers,) √|C_ij C_ik / C_jk|, (j, k) being the edge `best`; 0 without one."""
    worker = np.flatnonzero(best >= 0)
    edge, size = best[worker], np.zeros(len(best))
    near, far = (_between(edges, agreed, worker, end[edge]) for end in (edges.first, edges.second))
    size[worker] = np.sqrt(np.abs(near * far / agreed[edge]))
    return size


def _between(edges: EdgeCounts, agreed: Floats, one: Ints, other: Ints) -> Floats:
    """C of pairs that are edges; they are sorted, so they are found by bisection."""
    keys = edges.first * edges.n_workers + edges.second
    wanted = np.minimum(one, other) * edges.n_workers + np.maximum(one, other)
    found: Floats = agreed[np.searchsorted(keys, wanted)]
    return found


def _signs(edges: EdgeCounts, agreed: Floats, size: Floats, pull: sp.csr_array) -> Floats:
    """(workers,) ±1, carried from the firmest worker of each component; +1 where nothing speaks for a sign."""
    parts = Components.of(edges.n_workers, edges.first, edges.second)
    sums = size * size + _symmetric(edges, agreed) @ np.ones(edges.n_workers)
    firmest = np.lexsort([-np.abs(sums), parts.component])
    roots = firmest[np.flatnonzero(np.diff(parts.component[firmest], prepend=-1))]
    sign = np.zeros(edges.n_workers)
    sign[roots] = np.where(sums[roots] < 0, -1.0, 1.0)
    while True:
        carried = np.where(sign == 0, np.sign(pull @ (sign * np.where(size > 0, size, 1.0))), 0.0)
        if not carried.any():
            break
        sign = sign + carried
    return np.where(sign == 0, 1.0, sign)


def _symmetric(edges: EdgeCounts, values: Floats | Ints) -> sp.csr_array:
    """The symmetric matrix with `values` at the edges, zeros among them kept."""
    rows, columns = np.concatenate([edges.first, edges.second]), np.concatenate([edges.second, edges.first])
    shape = (edges.n_workers, edges.n_workers)
    data = np.concatenate([values, values]).astype(np.float64)
    return sp.coo_array((data, (rows.astype(np.int32), columns.astype(np.int32))), shape=shape).tocsr()
