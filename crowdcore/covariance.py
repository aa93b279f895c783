"""Covariances P⁻¹ E P⁻¹: how noise of covariance E on the right of P δ = noise moves the solution.

P and E are symmetric and positive, and given by their diagonals and the entries of their upper triangles. Components of
up to 1,000 nodes are solved exactly, many small ones at a time. For larger ones the diagonal is estimated with random
signs z (Hutchinson, 1990): the mean of z ∘ (P⁻¹ E P⁻¹ z), less that of the same with the diagonal of P in place of P,
whose exact value is known and added again. The seed is fixed.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdcore.labels import Ints
from crowdcore.triangles import Triangle, symmetric_product
from crowdcore.weights import Floats

MAX_EXACT = 1000
_SMALL = 64
_CELLS = 2_000_000
_PROBE_CELLS = 20_000_000
_MIN_PROBES, _MAX_PROBES = 8, 64
_PROBES_AT_ONCE = 4
_THREADS = 2
_MAX_ROUNDS = 60
_PRECISE = 1e-2
_FLOOR = 0.25
_CELLS_PER_EDGE = 4  # of a matrix, at most, when it is kept whole


@dataclass(frozen=True)
class NormalEquations:
    """P δ = noise, falling apart into parts.

    Attributes:
        part: (nodes,) which part a node belongs to, 0 to n_parts − 1.
        n_parts: how many parts there are.
        first, second: (edges,) nodes, sorted by first; an edge joins nodes of one part.
        p, e: (edges,) entries of P and E beside the diagonal.
        p_diagonal, e_diagonal: (nodes,) their diagonals; P's is above 0.
    """

    part: Ints
    n_parts: int
    first: Ints
    second: Ints
    p: Floats
    e: Floats
    p_diagonal: Floats
    e_diagonal: Floats

    def exact_blocks(self) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Parts of up to `MAX_EXACT` nodes: (blocks, room) nodes, −1 to spare; stacks of P⁻¹ E P⁻¹ and of P⁻¹."""
        size = np.bincount(self.part, minlength=self.n_parts)
        room = np.where(size <= _SMALL, 2 ** np.ceil(np.log2(np.maximum(size, 1))), size).astype(np.int64)
        order = np.argsort(room, kind="stable")
        order = order[(size[order] > 0) & (size[order] <= MAX_EXACT)]
        rank = np.full(self.n_parts, len(order), np.int64)
        rank[order] = np.arange(len(order))
        nodes = np.argsort(rank[self.part], kind="stable")
        node_ends = np.append(0, np.cumsum(size[order]))
        edge_rank = rank[self.part[self.first]]
        edges = np.argsort(edge_rank, kind="stable")
        edge_ends = np.searchsorted(edge_rank[edges], np.arange(len(order) + 1))
        begin = 0
        while begin < len(order):
            width = int(room[order[begin]])
            last = int(np.searchsorted(room[order], width, side="right"))
            end = min(last, begin + max(1, _CELLS // width**2))
            block = np.full((end - begin, width), -1, np.int64)
            sizes = size[order[begin:end]]
            block[np.arange(width) < sizes[:, None]] = nodes[node_ends[begin] : node_ends[end]]
            yield block, *self._stacks(block, edges[edge_ends[begin] : edge_ends[end]])
            begin = end

    def _stacks(self, block: Ints, edges: Ints) -> tuple[Floats, Floats]:
        """Stacks of P⁻¹ E P⁻¹ and of P⁻¹, by way of P with a diagonal of ones."""
        here, room = block >= 0, block.shape[1]
        scale = np.where(here, 1 / np.sqrt(self.p_diagonal[block]), 1.0)
        place = np.zeros(len(self.part), np.int64)
        row, column = np.nonzero(here)
        place[block[here]] = column
        number = np.zeros(len(self.part), np.int64)
        number[block[here]] = row
        at = number[self.first[edges]], place[self.first[edges]], place[self.second[edges]]
        stacks = []
        diagonals = np.where(here, self.p_diagonal[block], 1.0), np.where(here, self.e_diagonal[block], 0.0)
        for values, diagonal in zip((self.p, self.e), diagonals, strict=True):
            stack = np.zeros((len(block), room, room))
            stack[at] = values[edges]
            stack += stack.transpose(0, 2, 1)
            stack[:, np.arange(room), np.arange(room)] = diagonal
            stacks.append(stack * scale[:, :, None] * scale[:, None, :])
        left, middle = stacks
        inverse = np.linalg.inv(left)
        outer = scale[:, :, None] * scale[:, None, :]
        return inverse @ middle @ inverse * outer, inverse * outer

    def probed_variances(self) -> Floats:
        """(nodes,) diag(P⁻¹ E P⁻¹), estimated."""
        n_nodes = len(self.part)
        p, e = self._beside_diagonal(self.p), self._beside_diagonal(self.e)
        n_probes = int(np.clip(_PROBE_CELLS // (len(self.first) + 10 * n_nodes), _MIN_PROBES, _MAX_PROBES))
        signs: Floats = np.random.default_rng(0).integers(0, 2, (n_nodes, n_probes)).astype(np.float64) * 2 - 1
        scale = self.p_diagonal[:, None]

        def corrections(some: Floats) -> Floats:
            rough = _times(e, self.e_diagonal, some / scale) / scale
            fine: Floats = self._solved(p, _times(e, self.e_diagonal, self._solved(p, some)))
            return some * (fine - rough)

        with ThreadPoolExecutor(_THREADS) as pool:
            parts = list(pool.map(corrections, np.array_split(signs, n_probes // _PROBES_AT_ONCE, axis=1)))
        known: Floats = self.e_diagonal / self.p_diagonal**2
        correction: Floats = np.mean(np.concatenate(parts, axis=1), axis=1)
        return np.maximum(known + correction, _FLOOR * known)

    def _beside_diagonal(self, values: Floats) -> "_Matrix":
        """The matrix of `values`: its upper triangle or, where most nodes are joined, all of it, which is faster.

        That is in half the precision, which is ample for an estimate.
        """
        n_nodes = len(self.part)
        pairs = Triangle.of(self.first, self.second, n_nodes)
        if len(self.first) * _CELLS_PER_EDGE >= n_nodes**2:
            dense: NDArray[np.float32] = pairs.holding(values.astype(np.float32)).toarray()
            dense += dense.T.copy()
            return dense
        return pairs.holding(values)

    def _solved(self, p: "_Matrix", wanted: Floats) -> Floats:
        """P⁻¹ times each column, by conjugate gradients scaled by the diagonal."""
        scale = self.p_diagonal[:, None]
        found, residual = np.zeros_like(wanted), wanted.copy()
        direction = residual / scale
        size = np.sum(residual * direction, axis=0)
        goal = _PRECISE**2 * size
        for _ in range(_MAX_ROUNDS):
            product = _times(p, self.p_diagonal, direction)
            curvature = np.sum(direction * product, axis=0)
            going = (size > goal) & (curvature > 0)
            if not going.any():
                break
            length = np.where(going, size / np.where(going, curvature, 1.0), 0.0)
            found += length * direction
            residual -= length * product
            preconditioned = residual / scale
            left = np.sum(residual * preconditioned, axis=0)
            direction = preconditioned + left / np.where(size > 0, size, 1.0) * direction
            size = left
        return found


_Matrix: TypeAlias = sp.csr_array | NDArray[np.float32]


def _times(matrix: _Matrix, diagonal: Floats, columns: Floats) -> Floats:
    whole = isinstance(matrix, np.ndarray)
    product = matrix @ columns.astype(np.float32) if whole else symmetric_product(matrix, columns)
    return diagonal[:, None] * columns + product
