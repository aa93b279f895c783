import numpy as np
import pytest

from crowdcore.errors import InvalidOptionError
from crowdcore.weights import pair_weights

COMMON = np.array([0, 1, 4, 30])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("identity", [0, 1, 4, 30]),
        ("binary", [0, 1, 1, 1]),
        ("squared", [0, 1, 16, 900]),
        ("saturating", [0, 10 / 11, 40 / 14, 300 / 40]),
    ],
)
def test_each_kind_follows_its_formula(kind, expected):
    assert np.allclose(pair_weights(COMMON, kind, saturation=10.0), expected, rtol=1e-15)


def test_saturating_weights_stay_below_their_saturation():
    assert np.all(pair_weights([1, 10**6, 10**12], "saturating", saturation=3.0) < 3.0 + 1e-9)


def test_weights_are_a_new_array():
    common = COMMON.astype(float)
    pair_weights(common, "identity")[:] = -1
    assert np.array_equal(common, COMMON)


@pytest.mark.parametrize(("kind", "saturation"), [("cubed", 10.0), ("saturating", 0.0), ("saturating", float("nan"))])
def test_bad_options_are_refused(kind, saturation):
    with pytest.raises(InvalidOptionError, match="it takes"):
        pair_weights(COMMON, kind, saturation)
