from math import isclose, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.metrics import calibration, confusion_table, error_rate, log_loss, per_class

K = 3
TASKS = st.lists(st.tuples(st.integers(-1, K - 1), st.integers(-1, K - 1)), min_size=1, max_size=30).filter(
    lambda tasks: any(truth >= 0 for _, truth in tasks)
)
PROBABILITIES = st.floats(0, 1) | st.sampled_from([k / n for n in range(1, 13) for k in range(n + 1)])
OUTCOMES = st.lists(st.tuples(PROBABILITIES, st.sampled_from([-1, 0, 1])), min_size=1, max_size=30).filter(
    lambda outcomes: any(correct >= 0 for _, correct in outcomes)
)


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


@given(TASKS)
def test_the_error_rate_is_the_share_of_known_tasks_answered_wrongly_or_not_at_all(tasks):
    known = [(answer, truth) for answer, truth in tasks if truth >= 0]
    wrong = sum(answer != truth for answer, truth in known)
    assert error_rate(*columns(tasks)) == pytest.approx(wrong / len(known))


@given(TASKS)
def test_the_confusion_table_counts_each_truth_and_answer(tasks):
    table = confusion_table(*columns(tasks), n_classes=K)
    assert table.tolist() == [[tasks.count((answer, truth)) for answer in range(K)] for truth in range(K)]


@given(TASKS)
def test_precision_recall_and_f1_are_those_of_a_plain_count(tasks):
    found = per_class(*columns(tasks), n_classes=K)
    for code in range(K):
        right = tasks.count((code, code))
        answered = sum(answer == code and truth >= 0 for answer, truth in tasks)
        support = sum(truth == code for _, truth in tasks)
        assert found.support[code] == support
        assert found.precision[code] == pytest.approx(right / answered if answered else np.nan, nan_ok=True)
        assert found.recall[code] == pytest.approx(right / support if support else np.nan, nan_ok=True)
        if right:
            harmonic = 2 / (answered / right + support / right)
            assert found.f1[code] == pytest.approx(harmonic)
        else:
            assert np.isnan(found.f1[code]) if answered + support == 0 else found.f1[code] == 0


@given(OUTCOMES, st.integers(1, 12))
def test_calibration_is_that_of_a_plain_count(outcomes, n_bins):
    found = calibration(*columns(outcomes), n_bins=n_bins)
    known = [(p, correct) for p, correct in outcomes if correct >= 0]
    total = 0.0
    for place in range(n_bins):
        low, high = place / n_bins, (place + 1) / n_bins
        inside = [(p, correct) for p, correct in known if low <= p < high or (p == 1 and place == n_bins - 1)]
        assert (found.low[place], found.high[place], found.n[place]) == (low, high, len(inside))
        if inside:
            claimed = sum(p for p, _ in inside) / len(inside)
            right = sum(correct for _, correct in inside) / len(inside)
            assert isclose(found.mean_probability[place], claimed, abs_tol=1e-12)
            assert isclose(found.share_correct[place], right, abs_tol=1e-12)
            total += len(inside) * abs(claimed - right)
        else:
            assert np.isnan(found.mean_probability[place])
            assert np.isnan(found.share_correct[place])
    assert isclose(found.expected_error, total / len(known), abs_tol=1e-12)


def test_sure_answers_that_are_half_wrong_are_half_miscalibrated():
    assert calibration([1.0, 1.0], [True, False]).expected_error == 0.5


def test_drawn_outcomes_are_well_calibrated():
    rng = np.random.default_rng(3)
    probability = rng.uniform(0.5, 1, 100_000)
    table = calibration(probability, rng.random(100_000) < probability)
    assert table.expected_error < 0.01  # five bins of 20,000, each within 3 standard deviations of 0.0035
    assert table.n[:5].tolist() == [0] * 5


def test_the_log_loss_is_the_mean_surprise():
    assert log_loss([0.8, 0.75, 0.3], [1, 0, -1]) == pytest.approx(-(log(0.8) + log(0.25)) / 2)


@pytest.mark.parametrize(("floor", "loss"), [(1e-15, 15 * log(10)), (0.01, 2 * log(10))])
def test_a_sure_mistake_costs_no_more_than_the_floor(floor, loss):
    assert log_loss([1.0], [False], floor=floor) == pytest.approx(loss)
    assert log_loss([0.0], [True], floor=floor) == pytest.approx(loss)


@pytest.mark.parametrize("measure", [error_rate, calibration, log_loss])
def test_a_truth_that_is_all_unknown_is_refused(measure):
    with pytest.raises(InvalidLabelsError, match="no task has a known truth"):
        measure([0, 1], [-1, -1])


@pytest.mark.parametrize("measure", [error_rate, calibration, log_loss])
def test_columns_of_different_lengths_are_refused(measure):
    with pytest.raises(InvalidLabelsError, match="one length"):
        measure([0, 1], [1])


@pytest.mark.parametrize("probability", [-0.1, 1.1, np.nan])
@pytest.mark.parametrize("measure", [calibration, log_loss])
def test_numbers_that_are_no_probability_are_refused(measure, probability):
    with pytest.raises(InvalidLabelsError, match="numbers from 0 to 1"):
        measure([probability, 0.5], [1, 0])


@pytest.mark.parametrize("measure", [calibration, log_loss])
def test_an_outcome_that_is_neither_right_nor_wrong_is_refused(measure):
    with pytest.raises(InvalidLabelsError, match="correct 1, 0 or -1"):
        measure([0.5, 0.5], [1, 2])


@pytest.mark.parametrize("measure", [confusion_table, per_class])
@pytest.mark.parametrize(("answer", "truth"), [([2], [0]), ([0], [2])])
def test_class_codes_beyond_the_classes_are_refused(measure, answer, truth):
    with pytest.raises(InvalidLabelsError, match="class code 2 is there; with 2 classes they end at 1"):
        measure(answer, truth, n_classes=2)


def test_no_bins_are_refused():
    with pytest.raises(InvalidOptionError, match="n_bins is 0; it takes a number of at least 1"):
        calibration([0.5], [1], n_bins=0)
