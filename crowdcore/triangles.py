"""Symmetric matrices of worker pairs, by their upper triangles: half the memory, and a product costs the same.

>>> pairs = Triangle.of(np.array([0, 0, 1]), np.array([1, 2, 2]), 3)
>>> symmetric_product(pairs.holding(np.array([1.0, 2.0, 3.0])), np.ones(3))
array([3., 4., 5.])
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crowdcore.labels import Ints
from crowdcore.weights import Floats


@dataclass(frozen=True)
class Triangle:
    """Where the upper triangle of a symmetric matrix without diagonal has numbers.

    Attributes:
        columns: (pairs,) the second of each pair, the pairs sorted by their first.
        starts: (nodes + 1,) where the pairs of each first one start.
    """

    columns: NDArray[np.int32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, first: Ints, second: Ints, n_nodes: int) -> "Triangle":
        """The place of each pair; sorted by `first`."""
        return cls(second.astype(np.int32), np.searchsorted(first, np.arange(n_nodes + 1)).astype(np.int32))

    def holding(self, values: Floats) -> sp.csr_array:
        """The triangle with (pairs,) `values`."""
        n_nodes = len(self.starts) - 1
        return sp.csr_array((values, self.columns, self.starts), shape=(n_nodes, n_nodes))


def symmetric_product(upper: sp.csr_array, v: Floats) -> Floats:
    """The product of a symmetric matrix without diagonal, given by its upper triangle, with `v`."""
    product: Floats = upper @ v + upper.T @ v
    return product
