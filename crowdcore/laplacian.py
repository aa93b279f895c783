"""The smallest eigenvalue σ_min of signless Laplacians: how firmly the skills of a component are determined.

The signless Laplacian has the common-task counts N_ij beside its diagonal and their row sums on it. Theorem 3 of the
paper bounds the error of the skills by ‖N‖_F ‖Δ‖ / (s_min² σ_min). Gold is a fixed node: its row and column are left
out, its counts stay on the diagonal of its peers.

Small components are solved exactly, many at a time. For large ones the method is LOBPCG (Knyazev, 2001) with one vector
a component, all components at once: a Rayleigh quotient, so the value is never too small.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from crowdcore.components import sums_by
from crowdcore.labels import Ints
from crowdcore.triangles import Triangle, symmetric_product
from crowdcore.weights import Floats

_SMALL = 64
_EXACT = 600
_CELLS = 4_000_000
_MAX_ROUNDS = 60
_PRECISE = 3e-3  # of a residual: values are then right to about a thousandth


@dataclass(frozen=True)
class SignlessLaplacian:
    """Signless Laplacians of many graphs at once.

    Attributes:
        part: (nodes,) which graph a node belongs to, 0 to n_parts − 1.
        diagonal: (nodes,) weighted degrees, fixed neighbours included.
        first, second: (edges,) nodes, sorted by first.
        weight: (edges,) above 0.
        n_parts: how many graphs there are, each with at least one node.
    """

    part: Ints
    diagonal: Floats
    first: Ints
    second: Ints
    weight: Floats
    n_parts: int

    def smallest_eigenvalues(self) -> Floats:
        """(parts,) exact for parts of up to 600 nodes, else an approximation from above, to a thousandth.

        >>> triangle = SignlessLaplacian(
        ...     np.zeros(3, int), np.full(3, 2.0), np.array([0, 0, 1]), np.array([1, 2, 2]), np.ones(3), 1
        ... )
        >>> triangle.smallest_eigenvalues().round(12)
        array([1.])
        """
        size = np.bincount(self.part, minlength=self.n_parts)
        found = np.zeros(self.n_parts)
        room = 1
        while room < min(_SMALL, 2 * size.max(initial=0)):
            room *= 2
            chosen = np.flatnonzero((size <= room) & (2 * size > room) | ((room == 2) & (size == 1)))
            for some in np.array_split(chosen, -(-len(chosen) * room * room // _CELLS)) if len(chosen) else ():
                found[some] = self._only(some)._padded(room)
        middling = np.flatnonzero((size > _SMALL) & (size <= _EXACT))
        if len(middling):
            found[middling] = self._only(middling)._exact()
        large = np.flatnonzero(size > _EXACT)
        if len(large):
            found[large] = self._only(large)._iterated()
        return np.maximum(found, 0.0)

    def _only(self, parts: Ints) -> "SignlessLaplacian":
        number = np.full(self.n_parts, -1, np.int64)
        number[parts] = np.arange(len(parts))
        if len(parts) == self.n_parts:
            return self
        kept = np.flatnonzero(number[self.part] >= 0)
        place = np.full(len(self.part), -1, np.int64)
        place[kept] = np.arange(len(kept))
        edges = np.flatnonzero(place[self.first] >= 0)
        return SignlessLaplacian(
            number[self.part[kept]], self.diagonal[kept], place[self.first[edges]], place[self.second[edges]],
            self.weight[edges], len(parts),
        )  # fmt: skip

    def _padded(self, room: int) -> Floats:
        """Exact, as one stack of matrices of `room` rows; rows to spare get an eigenvalue that is out of the way."""
        within = _places_within(self.part, self.n_parts)
        stack = np.zeros((self.n_parts, room, room))
        stack[:, np.arange(room), np.arange(room)] = 2 * self.diagonal.max(initial=0.0) + 1
        stack[self.part, within, within] = self.diagonal
        part, one, other = self.part[self.first], within[self.first], within[self.second]
        stack[part, one, other] = self.weight
        stack[part, other, one] = self.weight
        return np.linalg.eigvalsh(stack)[:, 0].astype(np.float64, copy=False)

    def _exact(self) -> Floats:
        """Exact, one matrix after the other."""
        import scipy.linalg  # a twentieth of a second that large graphs do without

        within = _places_within(self.part, self.n_parts)
        size = np.bincount(self.part, minlength=self.n_parts)
        edge_part = self.part[self.first]
        order = np.argsort(edge_part, kind="stable")
        ends = np.cumsum(np.bincount(edge_part, minlength=self.n_parts))
        nodes = np.argsort(self.part, kind="stable")
        node_ends = np.cumsum(size)
        found = np.empty(self.n_parts)
        for part in range(self.n_parts):
            edges = order[ends[part - 1] if part else 0 : ends[part]]
            matrix = np.diag(self.diagonal[nodes[node_ends[part] - size[part] : node_ends[part]]])
            matrix[within[self.second[edges]], within[self.first[edges]]] = self.weight[edges]
            found[part] = scipy.linalg.eigh(matrix, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0]
        return found

    def _times(self, upper: sp.csr_array, v: Floats) -> Floats:
        return self.diagonal * v + symmetric_product(upper, v)

    def _dots(self, u: Floats, v: Floats) -> Floats:
        sums: Floats = self._sums @ (u * v)
        return sums

    @cached_property
    def _sums(self) -> sp.csr_array:
        return sums_by(self.part, self.n_parts)

    def _unit(self, v: Floats, product: Floats) -> tuple[Floats, Floats]:
        """Vectors of length 1 a part, and their products; 0 where there is no length to speak of."""
        length = np.sqrt(self._dots(v, v))
        factor = np.where(length > 1e-150, 1 / np.maximum(length, 1e-150), 0.0)[self.part]
        return v * factor, product * factor

    def _iterated(self) -> Floats:
        """LOBPCG from a fixed start; keeps the products with the matrix, so that a round costs one."""
        n_nodes = len(self.part)
        upper = Triangle.of(self.first, self.second, n_nodes).holding(self.weight)
        start = np.random.default_rng(0).standard_normal(n_nodes) / self.diagonal
        x, ax = self._unit(start, self._times(upper, start))
        p, ap = np.zeros(n_nodes), np.zeros(n_nodes)
        for _ in range(_MAX_ROUNDS):
            value = self._dots(x, ax)
            residual = ax - value[self.part] * x
            if np.all(np.sqrt(self._dots(residual, residual)) <= _PRECISE * value):
                break
            w = residual / self.diagonal
            w -= self._dots(x, w)[self.part] * x
            w, aw = self._unit(w, self._times(upper, w))
            for basis, image in ((x, ax), (w, aw)):
                share = self._dots(basis, p)[self.part]
                p, ap = p - share * basis, ap - share * image
            p, ap = self._unit(p, ap)
            mix = self._best_mix((x, w, p), (ax, aw, ap))
            p, ap = mix[1] * w + mix[2] * p, mix[1] * aw + mix[2] * ap
            x, ax = self._unit(mix[0] * x + p, mix[0] * ax + ap)
        return self._dots(x, self._times(upper, x))

    def _best_mix(self, basis: tuple[Floats, ...], image: tuple[Floats, ...]) -> Floats:
        """(3, nodes) how to mix three vectors for the smallest Rayleigh quotient of each part."""
        small = np.zeros((self.n_parts, 3, 3))
        for row in range(3):
            for column in range(row, 3):
                small[:, row, column] = small[:, column, row] = self._dots(basis[row], image[column])
            missing = self._dots(basis[row], basis[row]) < 0.5
            small[missing, row, row] = 4 * self.diagonal.max()
        mix: Floats = np.linalg.eigh(small)[1][:, :, 0].T[:, self.part]
        return mix


def _places_within(part: Ints, n_parts: int) -> Ints:
    """(nodes,) the place of each node among those of its part."""
    size = np.bincount(part, minlength=n_parts)
    within = np.empty(len(part), np.int64)
    within[np.argsort(part, kind="stable")] = np.arange(len(part)) - np.repeat(np.cumsum(size) - size, size)
    return within
