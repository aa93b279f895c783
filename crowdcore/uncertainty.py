"""How far the skills may be off: standard errors and intervals.

With v(s) = (1 − s)(1 + (K − 1) s)/(K − 1), an agreement C_ij over N_ij tasks has the variance v(s_i s_j)/N_ij. Two
agreements that share worker i are correlated where their tasks overlap: on these tasks worker i was a little better or
worse than usual, and both show it. Cov(C_ij, C_ik) = N_ijk/(N_ij N_ik) s_j s_k v(s_i). Agreements without a common
worker are uncorrelated. With N_ijk/(N_ij N_ik) replaced by its mean φ_i for each worker, the noise is

    C_ij − s_i s_j = ε_ij + s_j ζ_i + s_i ζ_j,      Var ζ_i = φ_i v(s_i),      Var ε_ij = the rest of Var C_ij.

ζ_i moves the estimate x_i by just ζ_i. The ε move x by P⁻¹ M ε with P = diag(B x²) + B∘xxᵀ, the expected Hessian, and
(M ε)_i = Σ_j B_ij x_j ε_ij, so that

    Var x_i = φ_i v(x_i) + (P⁻¹ E P⁻¹)_ii,      E = Cov(M ε).

A skill that the bounds hold back is somewhere in [−1, 1], which tells something about its peers too: the normal
distribution around the unbounded solution is conditioned on it, by its first two moments. (In components of more than
1,000 workers each worker on its own.)

>>> from crowdcore.pgd import fit_skills
>>> counts = np.array([1000, 1000, 1000]), np.array([860, 815, 780])
>>> edges = EdgeCounts(
...     np.array(["ann", "bob", "cem"], object), np.full(3, 2000), np.zeros(3, int),
...     np.array([0, 0, 1]), np.array([1, 2, 2]), *counts, ("no", "yes"),
... )
>>> low, high = skill_intervals(edges, fit_skills(edges))
>>> low.round(2), high.round(2)
(array([0.85, 0.76, 0.66]), array([0.95, 0.84, 0.74]))
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import scipy.sparse as sp

from crowdcore.covariance import MAX_EXACT, NormalEquations
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.graph import GOLD, Flags
from crowdcore.labels import Ints
from crowdcore.pgd import SkillFit
from crowdcore.problem import edge_slices
from crowdcore.triangles import Triangle, symmetric_product
from crowdcore.weights import Floats, pair_weights

_VAGUE = 0.1
_FARTHEST = 5.0
_LEAST_VARIANCE = 1e-3
_LEAST_CHANGE = 1e-6
_ROOT_TAU = float(np.sqrt(2 * np.pi))


def standard_errors(edges: EdgeCounts, fit: SkillFit) -> Floats:
    """(workers,) standard deviation of each skill; infinite where the data tell nothing, 0 for gold."""
    return _beliefs(edges, fit)[1]


def skill_intervals(edges: EdgeCounts, fit: SkillFit, confidence: float = 0.9) -> tuple[Floats, Floats]:
    """(workers,) lower and upper ends of intervals that hold the true skill with probability `confidence`.

    They lie within [−1, 1], hold the skill of `fit`, and are all of [−1, 1] where the data tell nothing. For a skill at
    its bound they reach from below the bound to above the unbounded solution.
    """
    if not 0 < confidence < 1:
        raise InvalidOptionError(f"confidence is {confidence}; it takes a number between 0 and 1")
    centre, error = _beliefs(edges, fit)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    margin = np.where(fit.status == "saturated", reach, 0.0)
    low = np.minimum(centre - reach, fit.skills - margin)
    high = np.maximum(centre + reach, fit.skills + margin)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


@dataclass(frozen=True)
class _Noise:
    """What the module's equations need, with a prior of variance 10 for each skill: no interval is longer than [−1, 1].

    Attributes:
        own: (workers,) φ v: variance of ζ.
        upper: the upper triangle of B.
        p, e: (edges,) entries of P and E beside the diagonal.
        p_diagonal, e_diagonal: (workers,) their diagonals.
        gradient: (workers,) of the loss, halved: what the bounds hold back.
    """

    own: Floats
    upper: sp.csr_array
    p: Floats
    e: Floats
    p_diagonal: Floats
    e_diagonal: Floats
    gradient: Floats


def _beliefs(edges: EdgeCounts, fit: SkillFit) -> tuple[Floats, Floats]:
    """(workers,) means and standard deviations of normal distributions for the skills."""
    noise = _noise(edges, fit)
    gold = edges.workers == GOLD
    told = (fit.status == "ok") | (fit.status == "saturated") | (fit.prior_strength > 0)
    known = ~gold & told & (noise.p_diagonal > 0)
    size = np.bincount(fit.graph.component[known], minlength=fit.graph.n_components)
    small = np.append(size <= MAX_EXACT, True)[fit.graph.component]
    centre, error = fit.skills.copy(), np.where(gold, 0.0, np.inf)
    for chosen, method in ((known & small, _exact), (known & ~small, _estimated)):
        if chosen.any():
            system = _system(edges, fit, noise, np.flatnonzero(chosen))
            held = (fit.status == "saturated")[chosen]
            pull = np.where(held, -noise.gradient[chosen], 0.0)
            centre[chosen], variance = method(system, fit.skills[chosen], noise.own[chosen], pull, held)
            error[chosen] = np.sqrt(variance)
    return centre, error * _inflation(fit, noise)


def _noise(edges: EdgeCounts, fit: SkillFit) -> _Noise:
    x, n_classes = fit.skills, fit.n_classes
    square, pairs = x * x, Triangle.of(edges.first, edges.second, edges.n_workers)
    own = _overlap(edges, pairs) * _label_variance(x, n_classes)
    weight, rest, misfit, p, e_p = (np.empty(edges.n_edges) for _ in range(5))
    noisiness = 0.0
    for part in edge_slices(edges.n_edges):
        one, other = edges.first[part], edges.second[part]
        common, product = edges.n_common[part].astype(np.float64), x[one] * x[other]
        agreement = (n_classes * edges.n_agree[part] / common - 1) / (n_classes - 1)
        weight[part] = here = pair_weights(edges.n_common[part], fit.weights, fit.saturation)
        noisiness += float(np.sum(here**2 / common))
        variance = _label_variance(product, n_classes) / common - own[one] * square[other] - own[other] * square[one]
        rest[part] = e = here**2 * np.maximum(variance, 0.0)
        misfit[part], p[part], e_p[part] = here * (product - agreement), here * product, e * product
    upper = pairs.holding(weight)
    scale = noisiness / max(float(np.sum(weight)), 1e-300) / (n_classes - 1)
    p_diagonal = symmetric_product(upper, square) + fit.prior_strength
    return _Noise(
        own,
        upper,
        p,
        e_p,
        np.where(p_diagonal > 0, p_diagonal + _VAGUE * scale, 0.0),
        symmetric_product(pairs.holding(rest), square) + scale * fit.prior_strength + _VAGUE * scale**2,
        symmetric_product(pairs.holding(misfit), x),
    )


def _inflation(fit: SkillFit, noise: _Noise) -> Floats:
    """(workers,) x² is too large a guess of s², by Var x on average, and so is P: what the errors lack for it."""
    square = fit.skills**2
    local = noise.own + noise.e_diagonal / np.where(noise.p_diagonal > 0, noise.p_diagonal, 1.0) ** 2
    taken = symmetric_product(noise.upper, square)
    true = symmetric_product(noise.upper, square - np.minimum(local, square / 2))
    return np.sqrt(np.where(true > 0, taken / np.where(true > 0, true, 1.0), 1.0))


def _overlap(edges: EdgeCounts, pairs: Triangle) -> Floats:
    """(workers,) φ: mean of N_ijk / (N_ij N_ik) over pairs of peers, with weights N_ij N_ik.

    Where only a part of the pairs of a task was counted, the triples are too many for them: φ is then at most 1/n.
    """
    common, ones = pairs.holding(edges.n_common.astype(np.float64)), np.ones(edges.n_workers)
    total = symmetric_product(common, ones)
    common.data **= 2
    n_pairs = total**2 - symmetric_product(common, ones)
    overlap = np.where(n_pairs > 0, edges.n_triples / np.where(n_pairs > 0, n_pairs, 1.0), 0.0)
    return np.minimum(overlap, 1 / np.maximum(edges.n_labels, 1)) if edges.n_sampled else overlap


def _label_variance(skill: Floats, n_classes: int) -> Floats:
    """v(s)."""
    inside = np.clip(skill, -1 / (n_classes - 1), 1.0)
    return (1 - inside) * (1 + (n_classes - 1) * inside) / (n_classes - 1)


def _system(edges: EdgeCounts, fit: SkillFit, noise: _Noise, chosen: Ints) -> NormalEquations:
    """P and E of the `chosen` workers; the others' skills are taken as given."""
    one, other, p, e = edges.first, edges.second, noise.p, noise.e
    if len(chosen) < edges.n_workers:
        place = np.full(edges.n_workers, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        one, other = place[one], place[other]
        among = np.flatnonzero((one >= 0) & (other >= 0))
        one, other, p, e = one[among], other[among], p[among], e[among]
    return NormalEquations(
        fit.graph.component[chosen], fit.graph.n_components, one, other,
        p, e, noise.p_diagonal[chosen], noise.e_diagonal[chosen],
    )  # fmt: skip


def _exact(system: NormalEquations, skills: Floats, own: Floats, pull: Floats, held: Flags) -> tuple[Floats, Floats]:
    """(nodes,) means and variances, component by component."""
    centre, variance = np.empty(len(skills)), np.empty(len(skills))
    for block, covariance, inverse in system.exact_blocks():
        here, diagonal = block >= 0, np.arange(block.shape[1])
        covariance[:, diagonal, diagonal] += np.where(here, own[block], 0.0)
        mean = np.where(here, skills[block], 0.0)
        if held[block[here]].any():
            mean += (inverse @ np.where(here, pull[block], 0.0)[:, :, None])[:, :, 0]
            mean, covariance = _conditioned(mean, covariance, here & held[block])
        centre[block[here]] = mean[here]
        variance[block[here]] = covariance[:, diagonal, diagonal][here]
    return centre, variance


def _estimated(
    system: NormalEquations, skills: Floats, own: Floats, pull: Floats, held: Flags
) -> tuple[Floats, Floats]:
    """(nodes,) means and variances, for components too large for their matrices."""
    mean = skills + pull / system.p_diagonal
    covariance = own + system.probed_variances()
    means, covariances = _conditioned(mean[:, None], covariance[:, None, None], held[:, None])
    return means[:, 0], covariances[:, 0, 0]


def _conditioned(mean: Floats, covariance: Floats, held: Flags) -> tuple[Floats, Floats]:
    """Stacks of normal distributions, conditioned on |skill| ≤ 1 where `held`.

    The distribution of each held skill is cut off at ±1; an observation with normal noise that would give the same mean
    and variance stands for the cut.
    """
    if not held.any():
        return mean, covariance
    from scipy.special import ndtr  # a twentieth of a second that most crowds do without

    diagonal = np.arange(mean.shape[1])
    spread = np.sqrt(np.where(held, covariance[:, diagonal, diagonal], 1.0))
    at = np.clip(mean, -1 - _FARTHEST * spread, 1 + _FARTHEST * spread)
    low, high = (-1 - at) / spread, (1 - at) / spread
    inside = ndtr(high) - ndtr(low)
    density_low, density_high = np.exp(-(low**2) / 2) / _ROOT_TAU, np.exp(-(high**2) / 2) / _ROOT_TAU
    move = (density_low - density_high) / inside
    shrunk = np.maximum(1 + (low * density_low - high * density_high) / inside - move**2, _LEAST_VARIANCE)
    precision = np.where(held, (1 / shrunk - 1) / spread**2, 0.0)
    precision[precision * spread**2 < _LEAST_CHANGE] = 0.0
    observed = (at + spread * move) / (shrunk * spread**2) - at / spread**2
    observed = np.where(precision > 0, observed / np.where(precision > 0, precision, 1.0), 0.0)
    left = covariance * precision[:, None, :]
    left[:, diagonal, diagonal] += 1.0
    conditioned: Floats = np.linalg.solve(left, covariance).astype(np.float64, copy=False)
    return mean + (conditioned @ (precision * (observed - mean))[:, :, None])[:, :, 0], conditioned
