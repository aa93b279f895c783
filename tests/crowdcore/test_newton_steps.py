"""Steps of the fast solver at the edge of what numbers can hold."""

import numpy as np

from crowdcore.newton import _stretch
from crowdcore.problem import AgreementProblem


def test_a_direction_too_small_to_divide_by_is_not_stretched():
    problem = AgreementProblem.of([0, 2], [1, 3], weight=[1, 1], target=[0.5, 0.5], bounds=np.ones(4))
    factor = _stretch(problem, np.array([1e-310, 0.0, 0.25, -0.1]), np.array([True, True]))
    assert factor.tolist() == [0.0, 2.0]  # half a skill divided by the largest move
