"""The paper's theory, tried out: which graphs determine the skills, recovery without noise, Theorem 3, two lemmas.

**Theorem 1**: skills are determined up to one sign if and only if the graph has an odd cycle. **Theorem 2**: without
noise PGD then finds them, from any start. **Theorem 3**: if C_ij = s_i s_j − Δ_ij and x is a stationary point of
L(x) = Σ N_ij (C_ij − x_i x_j)² near s,

    ‖x − s‖ ≤ ‖N‖_F ‖Δ‖₂ / (s_min² σ_min),

σ_min the smallest eigenvalue of P(1). The paper calls P(1) the signless Laplacian Q of N, but its formula for P gives
2 Q, for which the bound is half as large; both are measured. "Near" is a constant that the theorem does not give. Its
proof needs x_i / s_i within [1 − δ, 1 + δ], where the Hessian D_s P(u) D_s, u = x / s, keeps half its smallest
eigenvalue. The entries of P(u) − P(1) add up to at most 6 d (2 δ + δ²) in a row, d the largest row sum of N; so

    2 δ + δ² = σ_min(Q) / (6 d)

is small enough, and "inside the assumptions" means inside this δ.

**Lemma 2**: if (1 ± ŝ)/(1 ± s) are within [1 − δ, 1 + δ], log-odds differ by at most 2 δ. It is off by a little:
s = 0, ŝ = δ gives log((1 + δ)/(1 − δ)) = 2 artanh δ > 2 δ, and 2 artanh δ is the true bound. **Lemma 3**: the squared
error over pairs of labels is L(x) plus what x does not change.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crowdcore.experiments import graphs
from crowdcore.experiments.constant_noise import skills_from_products
from crowdcore.experiments.graphs import Flags
from crowdcore.experiments.trials import Run, draw_trials, share_out
from crowdcore.problem import AgreementProblem
from crowdcore.scores import vote_weights
from crowdcore.solution import solve
from crowdcore.weights import Floats

N_WORKERS = 11
SMALLEST, LARGEST = 0.2, 0.9
RECOVERED = 1e-6
NOISES = tuple(float(noise) for noise in np.geomspace(1e-5, 0.3, 10))
_PAPERS_ROUNDS = 20_000
_WITHOUT_BOUNDS = 1e12
_FAR = 100.0
# The paper's update takes many rounds, and a round of hundreds of trials hardly longer than that of one.
_TOGETHER = 300

WITHOUT_ODD_CYCLE = {
    "path": graphs.path(N_WORKERS),
    "cycle of 10": graphs.cycle(N_WORKERS - 1),
    "star": graphs.star(N_WORKERS),
}
WITH_ODD_CYCLE = {
    "cycle of 11": graphs.cycle(N_WORKERS),
    "star with triangle": graphs.star_with_triangle(N_WORKERS),
    "clique": graphs.clique(N_WORKERS),
}


@dataclass(frozen=True, eq=False)
class Identifiability:
    """What is recovered without noise.

    Attributes:
        graphs: names.
        odd_cycle: (graphs,) whether there is one.
        sigma_min: (graphs,) smallest eigenvalue of the signless Laplacian, all weights 1.
        from_starts: (graphs, trials) largest error of a skill with the library's starts.
        from_random: (graphs, trials) the same with one random start and the paper's update.
    """

    graphs: tuple[str, ...]
    odd_cycle: NDArray[np.bool_]
    sigma_min: Floats
    from_starts: Floats
    from_random: Floats


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """Theorem 3, measured.

    Attributes:
        graphs: names.
        noises: half-widths of the uniform noise.
        errors: (graphs, noises, trials) ‖x − s‖.
        bounds: (graphs, noises, trials) with σ_min of the signless Laplacian; with that of the Hessian it is half.
        inside: (graphs, noises, trials) whether the assumptions of the proof hold.
    """

    graphs: tuple[str, ...]
    noises: tuple[float, ...]
    errors: Floats
    bounds: Floats
    inside: NDArray[np.bool_]

    @property
    def looseness(self) -> Floats:
        """(graphs, noises, trials) how many times the bound is as large as the error."""
        return self.bounds / self.errors


@dataclass(frozen=True, eq=False)
class Lemmas:
    """Lemmas 2 and 3, measured.

    Attributes:
        deltas: (pairs,) the smallest δ for which the assumption of lemma 2 holds.
        differences: (pairs,) of the log-odds.
        loss_gap: lemma 3: how much squared error minus L changes between points, divided by L.
    """

    deltas: Floats
    differences: Floats
    loss_gap: float


@dataclass(frozen=True)
class Theory:
    """All that is tried."""

    identifiability: Identifiability
    bound: ErrorBound
    lemmas: Lemmas


def try_theory(n_trials: int, rng: np.random.Generator, run: Run = map) -> Theory:
    """Draws `n_trials` crowds for every graph and noise, and a hundred pairs of skills a trial for lemma 2."""
    streams = rng.spawn(3)
    return Theory(
        _identify(n_trials, streams[0], run), _bound_errors(n_trials, streams[1], run), _lemmas(n_trials, streams[2])
    )


def _identify(n_trials: int, rng: np.random.Generator, run: Run) -> Identifiability:
    cases = {**WITHOUT_ODD_CYCLE, **WITH_ODD_CYCLE}
    found = share_out(_recover, list(cases.values()), n_trials, rng, run, piece=_TOGETHER)
    errors = np.stack([np.concatenate(pieces, axis=1) for pieces in found])
    odd = np.array([name in WITH_ODD_CYCLE for name in cases])
    sigma = np.array([smallest_eigenvalue(joined.astype(np.float64)) for joined in cases.values()])
    return Identifiability(tuple(cases), odd, sigma, errors[:, 0], errors[:, 1])


def _recover(piece: tuple[Flags, int, np.random.Generator]) -> Floats:
    """(ways, trials) the largest error of a skill."""
    joined, n_trials, rng = piece
    size = rng.uniform(SMALLEST, LARGEST, (n_trials, len(joined)))
    skills = size * np.where(rng.random(size.shape) < 0.3, -1, 1)
    skills *= np.where(skills.sum(axis=1, keepdims=True) < 0, -1, 1)
    product = skills[:, :, None] * skills[:, None, :]
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"solver": "paper", "start": "random", "rng": rng, "max_rounds": _PAPERS_ROUNDS},
    )
    found = [skills_from_products(product, joined, n_tasks=int(_WITHOUT_BOUNDS), **options) for options in ways]
    return np.stack([np.abs(x - skills).max(axis=1) for x in found])


def smallest_eigenvalue(counts: Floats) -> float:
    """Of the signless Laplacian with the given weights: row sums on the diagonal, weights beside it.

    >>> round(smallest_eigenvalue(graphs.clique(4).astype(float)), 12), round(smallest_eigenvalue(graphs.star(4)), 12)
    (2.0, 0.0)
    """
    laplacian = np.diag(counts.sum(axis=1)) + counts
    return max(0.0, float(scipy.linalg.eigvalsh(laplacian, subset_by_index=[0, 0])[0]))


def _bound_errors(n_trials: int, rng: np.random.Generator, run: Run) -> ErrorBound:
    cases = [(joined, noise) for joined in WITH_ODD_CYCLE.values() for noise in NOISES]
    found = share_out(_measure_bound, cases, n_trials, rng, run)
    joined = np.stack([np.concatenate(pieces, axis=1) for pieces in found])
    errors, bounds, inside = np.moveaxis(joined.reshape(len(WITH_ODD_CYCLE), len(NOISES), 3, -1), 2, 0)
    return ErrorBound(tuple(WITH_ODD_CYCLE), NOISES, errors, bounds, inside > 0)


def _measure_bound(piece: tuple[tuple[Flags, float], int, np.random.Generator]) -> Floats:
    """(3, trials) error, bound, whether inside; pairs have 20 to 200 common tasks."""
    (joined, noise), n_trials, rng = piece
    n_workers = len(joined)
    first, second = np.nonzero(np.triu(joined))
    skills = rng.uniform(SMALLEST, LARGEST, (n_trials, n_workers))
    common = rng.integers(20, 201, (n_trials, len(first))).astype(np.float64)
    delta = rng.uniform(-noise, noise, (n_trials, len(first)))
    shift = np.arange(n_trials)[:, None] * n_workers
    problem = AgreementProblem.of(
        (shift + first).ravel(), (shift + second).ravel(), weight=common.ravel(),
        target=(skills[:, first] * skills[:, second] - delta).ravel(), bounds=np.full(skills.size, _FAR),
    )  # fmt: skip
    x = solve(problem, importance=np.ones(skills.size), start=skills.ravel()).x.reshape(skills.shape)
    outcome = np.zeros((3, n_trials))
    for trial in range(n_trials):
        counts, noises = _symmetric(joined, common[trial]), _symmetric(joined, delta[trial])
        outcome[:, trial] = judge_bound(skills[trial], x[trial], counts, noises)
    return outcome


def _symmetric(joined: Flags, values: Floats) -> Floats:
    """(workers, workers) the values of the pairs at both of their places."""
    table = np.zeros(joined.shape)
    table[np.nonzero(np.triu(joined))] = values
    both: Floats = table + table.T
    return both


def judge_bound(skills: Floats, x: Floats, counts: Floats, noises: Floats) -> tuple[float, float, float]:
    """The distance of `x` from the skills, Theorem 3's bound of it, and whether x is within its ball (1 or 0).

    Args:
        skills: (workers,) the true ones.
        x: (workers,) those found.
        counts: (workers, workers) N.
        noises: (workers, workers) Δ.
    """
    sigma = smallest_eigenvalue(counts)
    bound = np.linalg.norm(counts) * np.linalg.norm(noises, 2) / (np.min(skills) ** 2 * sigma)
    radius = np.sqrt(1 + sigma / (6 * counts.sum(axis=1).max())) - 1
    return float(np.linalg.norm(x - skills)), float(bound), float(np.max(np.abs(x / skills - 1)) <= radius)


def _lemmas(n_trials: int, rng: np.random.Generator) -> Lemmas:
    true, guess = rng.uniform(-0.99, 0.99, (2, 100 * n_trials))
    delta = np.maximum(np.abs((1 + guess) / (1 + true) - 1), np.abs((1 - guess) / (1 - true) - 1))
    usable = delta < 1
    weight, guessed = (vote_weights(skills[usable], np.ones(int(usable.sum())), 2) for skills in (true, guess))
    return Lemmas(delta[usable], np.abs(weight - guessed), _loss_gap(rng))


def _loss_gap(rng: np.random.Generator) -> float:
    """Lemma 3 on 60 tasks of 11 workers, half of the labels missing, at 20 points."""
    trials = draw_trials(rng.random((1, 60, N_WORKERS)) < 0.5, rng.uniform(-1, 1, (1, N_WORKERS)), rng)
    edges = trials.edges
    table = np.zeros((trials.n_tasks, N_WORKERS))
    table[trials.labels.task, trials.labels.worker] = 2 * trials.labels.label - 1
    points = rng.uniform(-1, 1, (20, N_WORKERS))
    pair = points[:, edges.first] * points[:, edges.second]
    agreement = 2 * edges.n_agree / edges.n_common - 1
    loss = np.sum(edges.n_common * (agreement - pair) ** 2, axis=1)
    said = table[:, edges.first] * table[:, edges.second]
    squared = np.array([np.sum((said - at)[said != 0] ** 2) for at in pair])
    return float(np.ptp(squared - loss) / loss.max())
