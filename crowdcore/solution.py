"""From a least-squares problem to skills: several starts, the best for each component, its sign and its balance.

>>> path = AgreementProblem.of([0, 1], [1, 2], weight=[1, 1], target=[0.4, 0.1], bounds=np.ones(3))
>>> found = solve(path, importance=np.ones(3))
>>> found.x.round(6), round(0.17 ** 0.25, 6)
(array([0.622942, 0.642114, 0.155736]), 0.642114)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.newton import Descent, descend, remaining_step, sweep
from crowdcore.paper_update import follow_gradient
from crowdcore.problem import AgreementProblem
from crowdcore.starts import starting_points
from crowdcore.weights import Floats

MAX_ROUNDS = {"newton": 100, "paper": 100_000}
_MANY_EDGES = 1_000_000
_EQUAL = 1e-9
_UNKNOWN = 0.5


@dataclass(frozen=True)
class Solution:
    """The skills that solve a problem.

    Attributes:
        x: (workers,) skills.
        determined: (workers,) whether the worker's component has an odd cycle or gold, among the pairs that matter.
        loss: at x.
        loss_history: after each round of the start that won in the largest component; then `loss`.
        remaining: the largest step, in skill, that a worker would still make on its own.
        stalled: whether the solver stopped because the loss fell no more.
        start: the start that won in the largest component.
        n_rounds: how many rounds that start took.
    """

    x: Floats
    determined: NDArray[np.bool_]
    loss: float
    loss_history: tuple[float, ...]
    remaining: float
    stalled: bool
    start: str
    n_rounds: int


def solve(
    problem: AgreementProblem,
    *,
    importance: Floats,
    penalty: float = 0.0,
    solver: str = "newton",
    start: str | ArrayLike = "auto",
    rng: np.random.Generator | None = None,
    tol: float = 1e-10,
    max_rounds: int | None = None,
) -> Solution:
    """Solves `problem` from one or several starts.

    Args:
        problem: agreements, weights and bounds.
        importance: (workers,) how much a worker counts for the sign and for the mean skill: its number of labels.
        penalty: what each worker below 0 adds to the loss when starts are compared. Where the data hardly tell a group
            of workers from its mirror image, more than rounding must speak for workers worse than guessing.
        solver: "newton" or "paper".
        start: as in `starting_points`; "auto" is "half" beyond a million edges: several starts cost much there and
            seldom find anything else.
        rng: for the spectral and random starts; a fixed one when not given.
        tol: the solver stops when no worker would move by more than this.
        max_rounds: of the solver; by default 100, or 100,000 for the paper's update.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    rounds = MAX_ROUNDS[solver] if max_rounds is None else max_rounds
    if isinstance(start, str) and start == "auto" and len(problem.first) > _MANY_EDGES:
        start = "half"
    points = starting_points(problem, start, rng)
    names = [name for name, _ in points]
    if solver == "paper":
        runs = [_followed(problem, point, importance, tol, rounds) for _, point in points]
    else:
        swept = [sweep(problem, point) for _, point in points]
        upright = [(_upright(problem, early.x, importance), early) for early in swept]
        runs = [descend(problem, x, tol=tol, max_rounds=rounds).after(early) for x, early in upright]
    winner, x = _lowest(problem, runs, importance, penalty)
    return _finished(problem, x, runs[winner], names[winner], importance)


def _followed(problem: AgreementProblem, point: Floats, importance: Floats, tol: float, max_rounds: int) -> Descent:
    """The paper's updates; again, if the end is farther from the prior than its mirror image."""
    run = follow_gradient(problem, point, tol=tol, max_rounds=max_rounds)
    turned = _upright(problem, run.x, importance)
    if np.array_equal(turned, run.x) or not problem.prior_strength.any():
        return run
    return follow_gradient(problem, turned, tol=tol, max_rounds=max_rounds).after(run)


def _lowest(problem: AgreementProblem, runs: list[Descent], importance: Floats, penalty: float) -> tuple[int, Floats]:
    """The run that won in the largest component, and each component from the run with the lowest loss there."""
    if len(runs) == 1:
        return 0, _upright(problem, runs[0].x, importance)
    xs = np.stack([_upright(problem, run.x, importance) for run in runs])
    levels = np.stack([problem.at(x).level + penalty * problem.by_component(x < 0) for x in xs])
    slack = _EQUAL * problem.by_component(xs[0] ** 2 * problem.degree)
    best = np.argmax(levels <= levels.min(axis=0) + slack, axis=0)
    size = np.bincount(problem.parts.component, minlength=problem.parts.n_components)
    winner = int(best[np.argmax(size)]) if len(size) else 0
    return winner, xs[problem.spread(best), np.arange(problem.n_workers)]


def _upright(problem: AgreementProblem, x: Floats, importance: Floats) -> Floats:
    """Of x and −x the one nearer to the prior, without a prior that with Σ importance x > 0; gold leaves no choice."""
    has_prior = problem.by_component(problem.prior_strength) > 0
    towards_prior = problem.by_component(problem.prior_strength * problem.prior * x)
    direction = np.where(has_prior, towards_prior, problem.by_component(importance * x))
    turned = (direction < 0) & (problem.by_component(problem.fixed) == 0)
    return np.where(problem.spread(turned), -x, x)


def _finished(problem: AgreementProblem, x: Floats, run: Descent, name: str, importance: Floats) -> Solution:
    point = problem.at(x)
    has_gold = problem.by_component(problem.fixed) > 0
    has_prior = problem.by_component(problem.prior_strength) > 0
    has_edges = np.zeros(problem.parts.n_components, bool)
    has_edges[problem.parts.component[np.diff(problem.upper.indptr) > 0]] = True
    determined = has_edges & (has_gold | ~problem.parts.bipartite)
    x = _upright(problem, x, importance)
    x = _balanced(problem, x, has_edges & ~determined & ~has_prior)
    x = _filled(problem, x, problem.spread(determined), problem.spread(has_edges | has_gold | has_prior), importance)
    loss = problem.left_out + float(problem.loss(x).sum())
    level = point.level if np.array_equal(x, point.x) else problem.at(x).level
    constant = loss - float(level.sum())
    history = (*(constant + level for level in run.levels), loss)
    return Solution(
        x, problem.spread(determined), loss, history, remaining_step(problem, point), run.stalled, name, run.n_rounds
    )


def _balanced(problem: AgreementProblem, x: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """In the `chosen` components one side times c, the other divided by c: equal Σ x², as far as the bounds allow."""
    side = problem.parts.side
    left, right = problem.by_component(x**2 * (side == 0)), problem.by_component(x**2 * (side == 1))
    possible = chosen & (left > 0) & (right > 0)
    factor = (np.where(possible, right, 1.0) / np.where(possible, left, 1.0)) ** 0.25
    share = np.abs(x) / np.where(problem.bounds > 0, problem.bounds, 1.0)
    highest = np.zeros((2, problem.parts.n_components))
    np.maximum.at(highest, (side, problem.parts.component), share)
    factor = np.minimum(factor, 1 / np.where(possible, highest[0], 1.0))
    factor = np.maximum(factor, np.where(possible, highest[1], 1.0))
    growth = problem.spread(np.where(possible, factor, 1.0))
    return problem.clip(np.where(side == 0, x * growth, x / growth))


def _filled(
    problem: AgreementProblem,
    x: Floats,
    determined: NDArray[np.bool_],
    informed: NDArray[np.bool_],
    importance: Floats,
) -> Floats:
    """Workers about whom nothing is known get the mean skill of those whose skills are determined."""
    known = determined & ~problem.fixed & (problem.bounds > 0)
    weight = importance[known].sum()
    mean = float((importance[known] * x[known]).sum() / weight) if weight > 0 else _UNKNOWN
    return problem.clip(np.where(informed, x, mean))
