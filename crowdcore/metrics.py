"""How good answers and their probabilities are, against a known truth.

Answers and truth are class codes, one a task. A truth of -1 is unknown: the task is left out. An answer of -1 is no
answer, which is wrong.

>>> error_rate([0, 1, 1, 0], [0, 1, 0, -1])
0.3333333333333333
>>> confusion_table([0, 1, 1, 0], [0, 1, 0, -1], n_classes=2)
array([[1, 1],
       [0, 1]])
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.labels import Ints

Floats = NDArray[np.float64]


def error_rate(answer: ArrayLike, truth: ArrayLike) -> float:
    """Share of the tasks with a known truth whose answer is wrong or missing."""
    answered, known = _with_truth(answer, truth)
    return float(np.mean(answered != known))


def confusion_table(answer: ArrayLike, truth: ArrayLike, n_classes: int) -> Ints:
    """(classes, classes) how many tasks of each true class (row) got each answer (column); no answer is left out."""
    answered, known = _with_truth(answer, truth)
    _check_codes(answered, known, n_classes)
    given = answered >= 0
    cells = np.bincount(known[given] * n_classes + answered[given], minlength=n_classes * n_classes)
    return cells.reshape(n_classes, n_classes)


@dataclass(frozen=True, eq=False)
class ClassTable:
    """One line a class; a share of nothing is NaN.

    Attributes:
        precision: (classes,) share of the tasks answered so that are so.
        recall: (classes,) share of the tasks that are so that are answered so.
        f1: (classes,) harmonic mean of the two: 2 · right / (answered + support).
        support: (classes,) tasks that are so.
    """

    precision: Floats
    recall: Floats
    f1: Floats
    support: Ints


def per_class(answer: ArrayLike, truth: ArrayLike, n_classes: int) -> ClassTable:
    """Precision, recall, F1 and support of each class.

    >>> table = per_class([0, 1, 1, 0], [0, 1, 0, 0], n_classes=2)
    >>> table.precision, table.recall, table.support
    (array([1. , 0.5]), array([0.66666667, 1.        ]), array([3, 1]))
    """
    answered, known = _with_truth(answer, truth)
    _check_codes(answered, known, n_classes)
    right = np.bincount(known[answered == known], minlength=n_classes)
    n_answered = np.bincount(answered[answered >= 0], minlength=n_classes)
    support = np.bincount(known, minlength=n_classes)
    return ClassTable(
        _share(right, n_answered), _share(right, support), _share(2 * right, n_answered + support), support
    )


@dataclass(frozen=True, eq=False)
class Calibration:
    """Whether answers of probability p are right in a share p of cases, bin by bin; a mean of nothing is NaN.

    Attributes:
        low, high: (bins,) bounds: low ≤ probability < high, the last bin with 1.
        n: (bins,) answers.
        mean_probability: (bins,) what was claimed.
        share_correct: (bins,) what was found.
        expected_error: expected calibration error, Σ n |share_correct − mean_probability| / Σ n.
    """

    low: Floats
    high: Floats
    n: Ints
    mean_probability: Floats
    share_correct: Floats
    expected_error: float


def calibration(probability: ArrayLike, correct: ArrayLike, n_bins: int = 10) -> Calibration:
    """Compares the probabilities of answers with how often the answers are correct.

    Args:
        probability: (tasks,) of the answer given.
        correct: (tasks,) 1 or True: the answer is right; 0 or False: it is wrong; -1: the truth is unknown.
        n_bins: how many bins of equal width.

    >>> calibration([0.9, 0.9, 0.6, 0.6], [True, True, True, False], n_bins=2).expected_error
    0.0
    >>> table = calibration([0.9, 0.7], [1, 0], n_bins=5)
    >>> table.n, round(table.expected_error, 9)
    (array([0, 0, 0, 1, 1]), 0.4)
    """
    if n_bins < 1:
        raise InvalidOptionError(f"n_bins is {n_bins}; it takes a number of at least 1")
    claimed, right = _with_outcome(probability, correct)
    bounds = np.arange(n_bins + 1) / n_bins
    place = np.searchsorted(bounds[1:-1], claimed, side="right")
    n = np.bincount(place, minlength=n_bins)
    total_claimed = np.bincount(place, claimed, minlength=n_bins)
    total_right = np.bincount(place, right, minlength=n_bins)
    expected_error = float(np.abs(total_right - total_claimed).sum() / len(claimed))
    return Calibration(bounds[:-1], bounds[1:], n, _share(total_claimed, n), _share(total_right, n), expected_error)


def log_loss(probability: ArrayLike, correct: ArrayLike, floor: float = 1e-15) -> float:
    """Mean of −log of the probability given to what turned out, in nats.

    Args:
        probability: (tasks,) of the answer given. With the probability of the true class and `correct` all 1, this is
            the log loss over the classes.
        correct: (tasks,) 1 or True: the answer is right; 0 or False: it is wrong; -1: the truth is unknown.
        floor: probabilities of what turned out count as at least this, so that one sure mistake is not infinite.

    >>> round(log_loss([0.5, 0.5], [1, 0]), 9)  # log 2
    0.693147181
    """
    claimed, right = _with_outcome(probability, correct)
    return float(-np.mean(np.log(np.maximum(np.where(right == 1, claimed, 1 - claimed), floor))))


def _with_truth(answer: ArrayLike, truth: ArrayLike) -> tuple[Ints, Ints]:
    """Answers and truth of the tasks with a known truth."""
    answered, known = np.asarray(answer), np.asarray(truth)
    if answered.shape != known.shape or known.ndim != 1:
        raise InvalidLabelsError(f"answer {answered.shape} and truth {known.shape} must be arrays of one length")
    with_truth = known >= 0
    if not with_truth.any():
        raise InvalidLabelsError("no task has a known truth, so there is nothing to compare with")
    return answered[with_truth], known[with_truth]


def _with_outcome(probability: ArrayLike, correct: ArrayLike) -> tuple[Floats, Ints]:
    """Probabilities and outcomes, 0 or 1, where the outcome is known."""
    claimed, right = _with_truth(probability, np.asarray(correct, np.int64))
    if not np.all((claimed >= 0) & (claimed <= 1)) or right.max() > 1:
        raise InvalidLabelsError("probability takes numbers from 0 to 1, correct 1, 0 or -1")
    return claimed.astype(np.float64), right


def _check_codes(answered: Ints, known: Ints, n_classes: int) -> None:
    highest = int(max(answered.max(), known.max()))
    if highest >= n_classes:
        raise InvalidLabelsError(f"class code {highest} is there; with {n_classes} classes they end at {n_classes - 1}")


def _share(part: NDArray[np.number], whole: Ints) -> Floats:
    share = np.full(len(whole), np.nan)
    np.divide(part, whole, out=share, where=whole > 0)
    return share
