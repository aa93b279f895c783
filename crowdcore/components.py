"""Connected components and two-colourings of a graph, without a Python loop over its edges.

Both come from one pass over the double cover: every node stands there twice, once a colour, and an edge joins nodes of
different colours. A connected graph without odd cycles falls apart into two halves (its two colourings); with an odd
cycle the double cover stays in one piece.

>>> parts = Components.of(5, np.array([0, 1, 0, 3]), np.array([1, 2, 2, 4]))
>>> parts.component, parts.bipartite
(array([0, 0, 0, 1, 1]), array([False,  True]))
>>> parts.side
array([0, 0, 0, 0, 1])
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdcore.labels import Ints

_SAMPLE = 8
_STEPS = 64


@dataclass(frozen=True)
class Components:
    """The connected components of a graph.

    Attributes:
        component: (nodes,) numbers from 0, in the order of the smallest node of each component.
        side: (nodes,) 0 or 1: in a bipartite component its two sides, the smallest node on side 0; else 0.
        bipartite: (components,) True where there is no odd cycle.
    """

    component: Ints
    side: Ints
    bipartite: NDArray[np.bool_]

    @classmethod
    def of(cls, n_nodes: int, first: Ints, second: Ints) -> "Components":
        """The components of the graph whose edges join `first` and `second`."""
        if n_nodes == 0:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
        if len(first) > 2 * _SAMPLE * n_nodes and _is_one_odd_piece(n_nodes, *_some_edges(n_nodes, first, second)):
            alike = np.zeros(n_nodes, np.int64)
            return cls(alike, alike, np.zeros(1, bool))  # more edges can neither join more nor mend an odd cycle
        return cls._of(n_nodes, first, second)

    @classmethod
    def _of(cls, n_nodes: int, first: Ints, second: Ints) -> "Components":
        from scipy.sparse.csgraph import connected_components  # its import takes longer than most graphs need

        piece = connected_components(_double_cover(n_nodes, first, second), directed=False)[1].astype(np.int64)
        plain, mirrored = piece[:n_nodes], piece[n_nodes:]
        _, start, component = np.unique(np.minimum(plain, mirrored), return_index=True, return_inverse=True)
        rank = np.empty(len(start), np.int64)
        rank[np.argsort(start)] = np.arange(len(start))
        component = rank[component]
        smallest = np.sort(start)
        bipartite = plain[smallest] != mirrored[smallest]
        side = (bipartite[component] & (plain != plain[smallest][component])).astype(np.int64)
        return cls(component, side, bipartite)

    @property
    def n_components(self) -> int:
        """How many components there are."""
        return len(self.bipartite)


def _some_edges(n_nodes: int, first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """A few edges of each node, from the first of them on evenly spread, when edges are sorted; else some edges."""
    starts = np.searchsorted(first, np.arange(n_nodes + 1))
    kept = (starts[:-1, None] + np.diff(starts)[:, None] * np.arange(_SAMPLE) // _SAMPLE).reshape(-1)
    kept = kept[kept < len(first)]
    return first[kept], second[kept]


def _is_one_odd_piece(n_nodes: int, first: Ints, second: Ints) -> bool:
    """Whether few steps along the edges lead from node 0 to every node, an even and an odd number of them."""
    reached = np.zeros((2, n_nodes), bool)  # by an even number of steps, by an odd one
    reached[0, 0] = True
    for step in range(_STEPS):
        here, there = reached[step % 2], reached[1 - step % 2]
        there[second[here[first]]] = True
        there[first[here[second]]] = True
        if reached.all():
            return True
    return False


def _double_cover(n_nodes: int, first: Ints, second: Ints) -> sp.csr_array:
    if np.any(first[1:] < first[:-1]):
        order = np.argsort(first, kind="stable")
        first, second = first[order], second[order]
    starts = np.searchsorted(first, np.arange(n_nodes + 1)).astype(np.int32)
    columns = np.empty(2 * len(second), np.int32)
    columns[: len(second)] = second
    columns[: len(second)] += n_nodes
    columns[len(second) :] = second
    shape = (2 * n_nodes, 2 * n_nodes)
    return sp.csr_array((np.ones(len(columns)), columns, np.append(starts, starts[1:] + len(second))), shape=shape)


def sums_by(group: Ints, n_groups: int) -> sp.csr_array:
    """A matrix (groups, nodes) whose product with a (nodes,) array is its sum by group, in the order of the nodes.

    The same numbers as `np.bincount`, four times faster.

    >>> sums_by(np.array([1, 0, 1]), 2) @ np.array([1.0, 2.0, 3.0])
    array([2., 4.])
    """
    order = np.argsort(group, kind="stable").astype(np.int32)
    starts = np.append(0, np.cumsum(np.bincount(group, minlength=n_groups))).astype(np.int32)
    return sp.csr_array((np.ones(len(group)), order, starts), shape=(n_groups, len(group)))
