"""The least-squares problem behind the skills: agreements C_ij of pairs of workers, weights B_ij, bounds.

    L(x) = Σ_{i<j} B_ij (C_ij − x_i x_j)² + Σ_i λ_i (x_i − x⁰_i)²,      |x_i| ≤ b_i

With d = B x² + λ and p = (B∘C) x + λ x⁰ (B and B∘C as symmetric matrices), half the gradient is x d − p, and p / d is
the exact minimum along each coordinate. Only the upper triangles are kept: a product with the whole matrix is one with
the triangle plus one with its transpose.

The problem falls apart into one per connected component. Sums are kept by component, so that every component gets the
same steps as it would alone.

>>> triangle = AgreementProblem.of([0, 0, 1], [1, 2, 2], weight=[1, 1, 1], target=[0.72, 0.63, 0.56], bounds=np.ones(3))
>>> triangle.loss(np.array([0.9, 0.8, 0.7])).round(12)
array([0.])
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from crowdcore.components import Components, sums_by
from crowdcore.labels import Ints
from crowdcore.triangles import Triangle, symmetric_product
from crowdcore.weights import Floats

_FLAT = 1e-6
_EDGES_IN_CACHE = 1 << 15


@dataclass(frozen=True)
class AgreementProblem:
    """Weighted agreements of pairs of workers; see the module's equation.

    Attributes:
        first, second: (edges,) positions of the workers, sorted by (first, second).
        weight: (edges,) B.
        target: (edges,) C.
        bounds: (workers,) b.
        fixed: (workers,) True for gold, whose x is its bound and never moves.
        prior: (workers,) x⁰.
        prior_strength: (workers,) λ, 0 where nothing is known beforehand.
        parts: components of the pairs that matter: both bounds and the weight above 0.
        upper, upper_target: upper triangles of B and B∘C.
        left_out: what the pairs that do not matter add to the loss.
    """

    first: Ints
    second: Ints
    weight: Floats
    target: Floats
    bounds: Floats
    fixed: NDArray[np.bool_]
    prior: Floats
    prior_strength: Floats
    parts: Components
    upper: sp.csr_array
    upper_target: sp.csr_array
    left_out: float = 0.0

    @classmethod
    def of(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        *,
        weight: ArrayLike,
        target: ArrayLike,
        bounds: Floats,
        fixed: NDArray[np.bool_] | None = None,
        prior: Floats | None = None,
        prior_strength: Floats | None = None,
        parts: Components | None = None,
    ) -> "AgreementProblem":
        """Sorts the pairs, leaves out those that no skill can change; `parts` may give the components of all."""
        n_workers = len(bounds)
        one, other = np.asarray(first, np.int64), np.asarray(second, np.int64)
        weights, targets = np.asarray(weight, np.float64), np.asarray(target, np.float64)
        left_out = 0.0
        if not (np.all(weights > 0) and np.all(bounds > 0)):
            matters = (weights > 0) & (bounds[one] > 0) & (bounds[other] > 0)
            if not matters.all():
                parts, left_out = None, float(np.sum((weights * targets**2)[~matters]))
                one, other, weights, targets = one[matters], other[matters], weights[matters], targets[matters]
        if np.any(one[1:] < one[:-1]):
            order = np.argsort(one, kind="stable")
            one, other, weights, targets = one[order], other[order], weights[order], targets[order]
        pairs = Triangle.of(one, other, n_workers)
        nothing = np.zeros(n_workers)
        return cls(
            one, other, weights, targets, bounds,
            np.zeros(n_workers, bool) if fixed is None else fixed,
            nothing if prior is None else prior,
            nothing if prior_strength is None else prior_strength,
            Components.of(n_workers, one, other) if parts is None else parts,
            pairs.holding(weights),
            pairs.holding(weights * targets),
            left_out,
        )  # fmt: skip

    @property
    def n_workers(self) -> int:
        """How many workers there are, gold included."""
        return len(self.bounds)

    @cached_property
    def degree(self) -> Floats:
        """(workers,) Σ_j B_ij."""
        return symmetric_product(self.upper, np.ones(self.n_workers))

    def clip(self, x: Floats) -> Floats:
        """The nearest point within the bounds, gold at its place."""
        return np.where(self.fixed, self.bounds, np.clip(x, -self.bounds, self.bounds))

    def at(self, x: Floats) -> "Point":
        """What the solvers need to know at `x`."""
        diagonal = symmetric_product(self.upper, x * x) + self.prior_strength
        pull = symmetric_product(self.upper_target, x) + self.prior_strength * self.prior
        share = x * x * (0.5 * (diagonal + self.prior_strength)) - x * (pull + self.prior_strength * self.prior)
        scale = np.maximum(diagonal, _FLAT * self.degree)
        return Point(x, diagonal, pull, np.where(scale > 0, scale, 1.0), self.by_component(share))

    def by_component(self, values: Any) -> Floats:
        """(components,) sums of a (workers,) array."""
        sums: Floats = self._sums @ np.asarray(values, np.float64)
        return sums

    @cached_property
    def _sums(self) -> sp.csr_array:
        return sums_by(self.parts.component, self.parts.n_components)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """(workers,) for each worker the value of its component."""
        return values[self.parts.component]

    def loss(self, x: Floats) -> Floats:
        """(components,) the loss at `x`, without cancellation."""
        losses = np.empty_like(self.weight)
        for part in edge_slices(len(losses)):
            misfit = self.target[part] - x[self.first[part]] * x[self.second[part]]
            losses[part] = self.weight[part] * misfit * misfit
        by_first = self._holding(losses) @ np.ones(self.n_workers)
        return self.by_component(by_first + self.prior_strength * (x - self.prior) ** 2)

    def curvature(self, x: Floats) -> sp.csr_array:
        """The upper triangle of half the Hessian, without its diagonal: B (2 x_i x_j − C)."""
        products, twice = np.empty_like(self.weight), 2 * x
        for part in edge_slices(len(products)):
            product = twice[self.first[part]] * x[self.second[part]]
            product *= self.weight[part]
            np.subtract(product, self.upper_target.data[part], out=products[part])
        return self._holding(products)

    def _holding(self, values: Floats) -> sp.csr_array:
        """An upper triangle with numbers of the pairs."""
        return sp.csr_array((values, self.upper.indices, self.upper.indptr), shape=self.upper.shape)


def edge_slices(n_edges: int) -> Iterator[slice]:
    """All edges, some at a time: so few that their numbers stay in the cache."""
    for start in range(0, n_edges, _EDGES_IN_CACHE):
        yield slice(start, start + _EDGES_IN_CACHE)


@dataclass(frozen=True)
class Point:
    """A point and what was computed there.

    Attributes:
        x: (workers,) skills.
        diagonal: (workers,) d = B x² + λ.
        pull: (workers,) p = (B∘C) x + λ x⁰.
        scale: (workers,) d, but not below a millionth of the weighted degree: next to peers whose skill is 0 the loss
            is flat, and a step to its minimum would be long and for nothing.
        level: (components,) the loss, but for a constant.
    """

    x: Floats
    diagonal: Floats
    pull: Floats
    scale: Floats
    level: Floats

    @property
    def gradient(self) -> Floats:
        """(workers,) half the gradient."""
        gradient: Floats = self.x * self.diagonal - self.pull
        return gradient

    @property
    def coordinate_minimum(self) -> Floats:
        """(workers,) where each worker would go if the others stood still."""
        return self.x - self.gradient / self.scale
