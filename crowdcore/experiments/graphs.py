"""The worker graphs of the paper's experiments, as (workers, workers) tables of who is joined with whom.

>>> star_with_triangle(4).astype(int)
array([[0, 1, 1, 1],
       [1, 0, 1, 0],
       [1, 1, 0, 0],
       [1, 0, 0, 0]])
"""

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


def clique(n_workers: int) -> Flags:
    """Everyone with everyone."""
    return ~np.eye(n_workers, dtype=bool)


def star(n_workers: int) -> Flags:
    """Worker 0, the hub, with everyone: no odd cycle."""
    joined = np.zeros((n_workers, n_workers), bool)
    joined[0, 1:] = joined[1:, 0] = True
    return joined


def star_with_triangle(n_workers: int) -> Flags:
    """The star, and workers 1 and 2 with each other: one odd cycle, of length 3."""
    joined = star(n_workers)
    joined[1, 2] = joined[2, 1] = True
    return joined


def cycle(n_workers: int) -> Flags:
    """Everyone with two neighbours; an odd cycle if there is an odd number of workers."""
    joined = np.zeros((n_workers, n_workers), bool)
    here = np.arange(n_workers)
    joined[here, (here + 1) % n_workers] = joined[(here + 1) % n_workers, here] = True
    return joined


def path(n_workers: int) -> Flags:
    """The cycle without one of its edges: no odd cycle."""
    joined = cycle(n_workers)
    joined[0, -1] = joined[-1, 0] = False
    return joined
