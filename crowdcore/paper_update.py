"""The paper's projected gradient scheme, worker by worker.

    x_i ← clip(x_i + 2η (Σ_j B_ij (C_ij − x_i x_j) x_j + λ_i (x⁰_i − x_i)), ± b_i)        for i = 1, …, W, repeated

The paper gives no step η, and has max and min swapped in its projection. Here η = 0.5 / (largest weighted degree of the
component), with which no step passes the minimum along its coordinate: every update lowers the loss. This is the
reference for the fast solver, not a fast solver: it needs hundreds to many thousands of rounds.

Workers without common tasks do not see each other, so they can be moved together. Each worker belongs to the level
after the last of its peers that come before it: level after level gives the very numbers of worker after worker.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from crowdcore.labels import Ints
from crowdcore.newton import Descent, remaining_step
from crowdcore.problem import AgreementProblem
from crowdcore.weights import Floats

_ROUNDS_A_LOOK = 10


def follow_gradient(problem: AgreementProblem, start: Floats, *, tol: float, max_rounds: int) -> Descent:
    """The paper's updates from `start`, until no worker would move by more than `tol` to its own minimum.

    It looks whether it is there every tenth round.
    """
    levels = _levels(problem)
    point = problem.at(problem.clip(start))
    losses, n_rounds = [float(point.level.sum())], 0
    remaining = remaining_step(problem, point)
    while remaining > tol and n_rounds < max_rounds:
        x = point.x.copy()
        for _ in range(min(_ROUNDS_A_LOOK, max_rounds - n_rounds)):
            for level in levels:
                level.move(x)
            n_rounds += 1
        point = problem.at(x)
        remaining = remaining_step(problem, point)
        losses.append(float(point.level.sum()))
    return Descent(point.x, tuple(losses), n_rounds, remaining)


@dataclass(frozen=True)
class _Level:
    """Workers that are moved together: no two of them have a common task.

    Attributes:
        workers: their positions.
        starts: where the peers of each begin.
        peers: positions of all their peers.
        weight, weighted_target: B and B∘C of these pairs.
        rate: 2η of each worker.
        bound, strength, pull: b, λ and λ x⁰ of each worker.
    """

    workers: Ints
    starts: Ints
    peers: Ints
    weight: Floats
    weighted_target: Floats
    rate: Floats
    bound: Floats
    strength: Floats
    pull: Floats

    def move(self, x: Floats) -> None:
        """One update of these workers, in place."""
        others, own = x[self.peers], x[self.workers]
        downhill = np.add.reduceat(self.weighted_target * others, self.starts) + self.pull
        downhill -= own * (np.add.reduceat(self.weight * (others * others), self.starts) + self.strength)
        x[self.workers] = np.minimum(np.maximum(own + self.rate * downhill, -self.bound), self.bound)


def _levels(problem: AgreementProblem) -> list[_Level]:
    """The levels, in order; workers without peers stay where the start put them."""
    numbers = np.arange(1, len(problem.first) + 1)
    pairs = sp.csr_array((numbers, problem.upper.indices, problem.upper.indptr), shape=problem.upper.shape)
    both = (pairs + pairs.T).tocsr()
    both.sort_indices()
    depth = _depths(problem)
    depth[problem.fixed | (np.diff(both.indptr) == 0)] = -1
    rates = _rates(problem)
    found = []
    for number in range(int(depth.max(initial=-1)) + 1):
        workers = np.flatnonzero(depth == number)
        rows = both[workers]
        together = _Level(
            workers, rows.indptr[:-1], rows.indices,
            problem.upper.data[rows.data - 1], problem.upper_target.data[rows.data - 1],
            rates[workers], problem.bounds[workers], problem.prior_strength[workers],
            problem.prior_strength[workers] * problem.prior[workers],
        )  # fmt: skip
        found.append(together)
    return found


def _depths(problem: AgreementProblem) -> Ints:
    """(workers,) 0 for workers without earlier peers, else one more than the deepest earlier peer."""
    depth = np.zeros(problem.n_workers, np.int64)
    starts, peers = problem.upper.indptr, problem.upper.indices
    for worker in range(problem.n_workers):
        later = peers[starts[worker] : starts[worker + 1]]
        depth[later] = np.maximum(depth[later], depth[worker] + 1)
    return depth


def _rates(problem: AgreementProblem) -> Floats:
    """(workers,) 2η."""
    highest = np.zeros(problem.parts.n_components)
    np.maximum.at(highest, problem.parts.component, problem.degree + problem.prior_strength)
    return 1 / problem.spread(np.where(highest > 0, highest, 1.0))
