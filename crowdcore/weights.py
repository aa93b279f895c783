"""How much a pair of workers counts, as a function B(N) of their number of common tasks N.

The paper takes B(N) = N, which makes the loss the squared error over single pairs of labels (its lemma 2). The others:
1 for every pair, N² (Dalvi, Dasgupta, Kumar, Rastogi, 2013), and N / (1 + N / n0), which grows like N while N is well
below n0 and levels off at n0: where workers err together on the same hard tasks, more common tasks stop telling more.

>>> pair_weights(np.array([1, 10, 100]), "identity")
array([  1.,  10., 100.])
>>> pair_weights(np.array([1, 10, 90]), "saturating", saturation=10.0)
array([0.90909091, 5.        , 9.        ])
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.errors import InvalidOptionError
from crowdcore.options import WEIGHTS

Floats = NDArray[np.float64]


def pair_weights(n_common: ArrayLike, kind: str = "identity", saturation: float = 10.0) -> Floats:
    """(edges,) the weight of each pair of workers.

    Args:
        n_common: (edges,) tasks that both workers labelled.
        kind: "identity" N, "binary" 1 where N > 0, "squared" N², "saturating" N / (1 + N / saturation).
        saturation: n0 of the saturating weights, above 0.
    """
    common: Floats = np.asarray(n_common, np.float64)
    if kind == "identity":
        return np.array(common)
    if kind == "binary":
        return (common > 0).astype(np.float64)
    if kind == "squared":
        return np.array(common * common)
    if kind == "saturating":
        if not saturation > 0:
            raise InvalidOptionError(f"saturation is {saturation}; it takes a number above 0")
        return common / (1 + common / saturation)
    raise InvalidOptionError(f"weights is {kind!r}; it takes {', '.join(WEIGHTS)}")
