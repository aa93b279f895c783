"""What the tests of estimators share."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def mixed_crowd():
    """Labels of ten workers, three of them worse than guessing, and the truth."""
    rng = np.random.default_rng(5)
    truth, accuracy = rng.integers(0, 2, 300), np.array([0.9, 0.85, 0.8, 0.75, 0.7, 0.7, 0.65, 0.4, 0.35, 0.3])
    rows = []
    for task, answer in enumerate(truth):
        for worker in rng.choice(10, 6, replace=False):
            right = rng.random() < accuracy[worker]
            rows.append((f"t{task:03d}", f"w{worker}", ["no", "yes"][answer if right else 1 - answer]))
    answers = {f"t{task:03d}": ["no", "yes"][answer] for task, answer in enumerate(truth)}
    return rows, answers, {f"w{worker}": p for worker, p in enumerate(accuracy)}
