"""The fast solver: damped sweeps to the right valley, then projected Newton steps to its bottom.

A sweep first scales each component to its best size, then moves every worker half way to its own minimum p / d. Near
the solution the Hessian is about diag(d) + B∘xxᵀ, whose eigenvalues relative to diag(d) lie between 0 and 2: half way
is the largest step that cannot swing back and forth, even on nearly bipartite graphs.

A Newton step solves H s = −g on the workers that are not held at their bounds, by conjugate gradients (a few products
with the matrix), follows the path clip(x + α s), and halves α until the loss falls. Where the loss bends downward, as
between two valleys, it first tries a long way in that direction. Each component has its own numbers.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crowdcore.problem import AgreementProblem, Point
from crowdcore.triangles import symmetric_product
from crowdcore.weights import Floats

_ROUGH = 0.02
_MAX_HALVINGS = 30
_FARTHEST = 2.0
_MIN_CG = 50
_MAX_CG = 300
_BENT = 1e-8
_REACH = 0.5
# Moves this small are none, and to divide by them would overflow.
_NOTHING = 1e-300
_SHORT = 1 / 64
_NEAR = 1e-3
_SUFFICIENT = 1e-4
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Descent:
    """Where a solver arrived.

    Attributes:
        x: (workers,) skills.
        levels: the loss on the way, all components, but for a constant.
        n_rounds: how many rounds it took.
        remaining: the largest step, in skill, that a worker would still make on its own.
        stalled: whether it stopped because the loss fell no more.
    """

    x: Floats
    levels: tuple[float, ...]
    n_rounds: int
    remaining: float
    stalled: bool = False

    def after(self, earlier: "Descent") -> "Descent":
        """The same, with the rounds of `earlier` before its own."""
        return replace(self, levels=(*earlier.levels, *self.levels), n_rounds=earlier.n_rounds + self.n_rounds)


def sweep(problem: AgreementProblem, start: Floats, max_rounds: int = 30) -> Descent:
    """Damped sweeps from `start`, until no worker moves by more than a few hundredths."""
    x = problem.clip(start)
    anchored = (problem.by_component(problem.fixed) > 0) | (problem.by_component(problem.prior_strength) > 0)
    levels = []
    for _ in range(max_rounds):
        point = problem.at(x)
        levels.append(float(point.level.sum()))
        size = problem.spread(_best_size(problem, point, anchored))
        moved = problem.clip(size * x - 0.5 * (size * x * point.diagonal - point.pull / size) / point.scale)
        remaining = float(np.max(np.abs(moved - x), initial=0.0))
        x = moved
        if remaining <= _ROUGH:
            break
    return Descent(x, tuple(levels), len(levels), remaining)


def _best_size(problem: AgreementProblem, point: Point, anchored: NDArray[np.bool_]) -> Floats:
    """(components,) the factor c for which c x fits best; 1 where gold or a prior decides, or no size fits."""
    wanted = problem.by_component(point.x * point.pull)
    present = problem.by_component(point.x * point.x * point.diagonal)
    free = ~anchored & (wanted > 0) & (present > 0)
    return np.sqrt(np.where(free, wanted, 1.0) / np.where(free, present, 1.0))


def remaining_step(problem: AgreementProblem, point: Point) -> float:
    """The largest step, in skill, that a worker would make to its own minimum."""
    return float(np.max(np.abs(problem.clip(point.coordinate_minimum) - point.x), initial=0.0))


def descend(problem: AgreementProblem, start: Floats, *, tol: float, max_rounds: int) -> Descent:
    """Projected Newton steps from `start`, until no worker would move by more than `tol` on its own."""
    point = problem.at(problem.clip(start))
    levels = [float(point.level.sum())]
    remaining, stalled = remaining_step(problem, point), False
    while remaining > tol and len(levels) <= max_rounds and not stalled:
        follow = _search(problem, point, *_newton_step(problem, point, _held(problem, point, remaining), remaining))
        stalled = bool(np.array_equal(follow.x, point.x))
        point = follow
        levels.append(float(point.level.sum()))
        remaining = remaining_step(problem, point)
    return Descent(point.x, tuple(levels), len(levels) - 1, remaining, stalled)


def _held(problem: AgreementProblem, point: Point, remaining: float) -> NDArray[np.bool_]:
    """(workers,) who is at its bound, or nearly, and wants to go beyond; and gold."""
    near, gradient = problem.bounds - min(_NEAR, remaining), point.gradient
    return problem.fixed | (point.x >= near) & (gradient < 0) | (point.x <= -near) & (gradient > 0)


def _newton_step(
    problem: AgreementProblem, point: Point, held: NDArray[np.bool_], remaining: float
) -> tuple[Floats, Floats]:
    """(workers,) s from conjugate gradients on H s = −g, scaled by the diagonal; and a long step for downward bends.

    Where a direction of no or negative curvature turns up, s ends before it and the long step is along it. Workers held
    by their bounds step straight to them.
    """
    hessian, free = problem.curvature(point.x), ~held
    residual = np.where(free, -point.gradient, 0.0)
    preconditioned = residual / point.scale
    direction, step, long_step = preconditioned.copy(), np.zeros_like(residual), np.zeros_like(residual)
    size = problem.by_component(residual * preconditioned)
    goal = size * min(_ROUGH / 2, remaining) ** 2
    going = size > 0
    for _ in range(int(np.clip(2 * len(step), _MIN_CG, _MAX_CG))):
        product = np.where(free, point.diagonal * direction + symmetric_product(hessian, direction), 0.0)
        curvature = problem.by_component(direction * product)
        bent = going & (curvature <= _BENT * problem.by_component(point.scale * direction * direction))
        if bent.any():
            long_step += problem.spread(_stretch(problem, direction, bent)) * direction
        going &= ~bent
        length = problem.spread(np.where(going, size / np.where(going, curvature, 1.0), 0.0))
        step += length * direction
        residual -= length * product
        preconditioned = residual / point.scale
        left = problem.by_component(residual * preconditioned)
        going &= (left > goal) & (problem.by_component(np.abs(step) > _FARTHEST) == 0)
        if not going.any():
            break
        kept = np.where(going, left / np.where(size > 0, size, 1.0), 0.0)
        direction = preconditioned + problem.spread(kept) * direction
        size = left
    return np.where(held, -point.gradient / point.scale, step), long_step


def _stretch(problem: AgreementProblem, direction: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """(components,) the factor that makes the largest move along `direction` half a skill; 0 where not `chosen`."""
    longest = np.zeros(len(chosen))
    np.maximum.at(longest, problem.parts.component, np.abs(direction))
    moves = longest > _NOTHING
    return np.where(chosen & moves, _REACH / np.where(moves, longest, 1.0), 0.0)


def _search(problem: AgreementProblem, point: Point, step: Floats, long_step: Floats) -> Point:
    """A point on the way where the loss of each component falls enough.

    First the step and the long step together, the latter shorter and shorter, then without; then half the step, …
    """
    gradient = point.gradient
    slack = _ROUNDING * problem.by_component(np.abs(point.x * point.pull) + point.x**2 * point.diagonal)
    length = np.ones(problem.parts.n_components)
    extra = (problem.by_component(long_step != 0) > 0).astype(np.float64)
    resting = (extra > 0) & (problem.by_component(step != 0) == 0)
    step = np.where(problem.spread(resting), _SHORT * long_step, step)
    for _ in range(_MAX_HALVINGS):
        trial = problem.at(problem.clip(point.x + problem.spread(length) * step + problem.spread(extra) * long_step))
        promised = problem.by_component(2 * gradient * (trial.x - point.x))
        worse = trial.level > point.level + _SUFFICIENT * promised + slack
        if not worse.any():
            return trial
        length[worse & (extra == 0)] /= 2
        extra[worse] = np.where(extra[worse] > _SHORT, extra[worse] / 4, 0.0)
    length[worse] = 0.0
    return problem.at(problem.clip(point.x + problem.spread(length) * step + problem.spread(extra) * long_step))
