"""Metrics of agreement: values from the literature and by hand; crowd-kit's are compared in test_crowd_kit_dialect."""

import time

import numpy as np
import pandas as pd
import pytest
from frame_kinds import KINDS, as_pandas, by_id

from crowdcore.crowd_metrics import accuracy_on_aggregates, alpha_krippendorff, consistency, uncertainty
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.estimators import KOS, DawidSkene, MajorityVote

# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve units.
OBSERVED = {
    "A": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    "B": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    "C": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    "D": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
}
UNITS = [(unit, worker, label) for worker, labels in OBSERVED.items() for unit, label in enumerate(labels)]
SPLIT = [("x", "ann", "a"), ("x", "bob", "b"), ("y", "ann", "a"), ("y", "bob", "a")]

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_alpha_is_that_of_krippendorffs_example(kind):
    assert alpha_krippendorff(KINDS[kind](UNITS)) == pytest.approx(0.743, abs=5e-4)
    assert alpha_krippendorff(KINDS[kind](UNITS), lambda a, b: (a - b) ** 2) == pytest.approx(0.849, abs=5e-4)


def test_a_distance_of_one_for_any_two_classes_is_the_default():
    assert alpha_krippendorff(UNITS, lambda a, b: float(a != b)) == pytest.approx(alpha_krippendorff(UNITS))


def test_alpha_needs_two_labels_on_a_task_and_is_one_with_one_class():
    for rows in ([("t", "a", 1)], [("t", "a", 1), ("u", "b", 2)]):
        with pytest.raises(InvalidLabelsError, match="no task has two labels"):
            alpha_krippendorff(as_pandas(rows))
    assert alpha_krippendorff([("t", "a", 1), ("t", "b", 1), ("u", "a", 2)]) == 1.0


def test_alpha_of_a_million_labels_takes_moments():
    rng = np.random.default_rng(0)
    columns = {
        "task": np.repeat(np.arange(2_000), 500), "worker": np.tile(np.arange(500), 2_000),
        "label": rng.integers(0, 3, 1_000_000),
    }  # fmt: skip
    start = time.perf_counter()
    assert alpha_krippendorff(columns) == pytest.approx(0, abs=0.001)
    assert time.perf_counter() - start < 10


@every_kind
def test_consistency_is_the_posterior_of_the_answer(kind):
    skills = {"ann": 0.9, "bob": 0.6}
    found = by_id(consistency(KINDS[kind](SPLIT), skills, by_task=True))
    assert found["x"] == pytest.approx(0.9 * 0.4 / (0.9 * 0.4 + 0.1 * 0.6))
    assert found["y"] == pytest.approx(0.9 * 0.6 / (0.9 * 0.6 + 0.1 * 0.4))
    assert consistency(KINDS[kind](SPLIT), skills) == pytest.approx(np.mean(list(found.values())))


def test_consistency_of_the_impossible_is_zero_and_of_the_sure_is_one():
    sure = {"ann": 1.0, "bob": 1.0}
    assert by_id(consistency(as_pandas(SPLIT), sure, by_task=True)) == {"x": 0.0, "y": 1.0}
    assert consistency(as_pandas(SPLIT), {"ann": 1.0, "bob": 0.5}) == pytest.approx(1.0)


def test_consistency_takes_accuracies_from_the_aggregator():
    by_hand = consistency(as_pandas(UNITS), DawidSkene().fit(as_pandas(UNITS)).accuracies_, DawidSkene())
    assert consistency(as_pandas(UNITS), aggregator=DawidSkene()) == pytest.approx(by_hand)
    assert by_hand != pytest.approx(consistency(as_pandas(UNITS)))


@every_kind
def test_uncertainty_is_the_entropy_of_the_labels(kind):
    assert by_id(uncertainty(KINDS[kind](SPLIT), aggregate=False)) == pytest.approx({"x": np.log(2), "y": 0.0})
    assert uncertainty(KINDS[kind](SPLIT)) == pytest.approx(np.log(2) / 2)
    by_worker = by_id(uncertainty(KINDS[kind](SPLIT), compute_by="worker", aggregate=False))
    assert by_worker == pytest.approx({"ann": 0.0, "bob": np.log(2)})
    unsure = uncertainty(KINDS[kind](SPLIT), {"ann": 0.8, "bob": 0.8}, aggregate=False)
    assert by_id(unsure)["y"] == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2))
    assert uncertainty(KINDS[kind](SPLIT), aggregator=MajorityVote()) != uncertainty(KINDS[kind](SPLIT))


@every_kind
def test_accuracy_on_aggregates_is_the_share_of_equal_labels(kind):
    data = KINDS[kind](SPLIT)  # the tie on x goes to a
    assert accuracy_on_aggregates(data) == 0.75
    assert by_id(accuracy_on_aggregates(data, by="worker")) == {"ann": 1.0, "bob": 0.5}
    assert by_id(accuracy_on_aggregates(data, by="task")) == {"x": 0.5, "y": 1.0}
    assert by_id(accuracy_on_aggregates(data, aggregates={"x": "b"}, by="worker")) == {"ann": 0.0, "bob": 1.0}
    assert accuracy_on_aggregates(data, aggregates={"x": "c", "y": "a"}) == 0.5


def test_repeats_count_as_asked_for():
    rows = [*SPLIT, ("x", "bob", "a")]
    assert accuracy_on_aggregates(rows) == 1.0
    assert accuracy_on_aggregates(rows, repeats="first") == 0.75
    assert (uncertainty(rows), uncertainty(rows, repeats="first") > 0) == (0.0, True)
    assert alpha_krippendorff(rows) == 1.0 > alpha_krippendorff(rows, repeats="first")
    assert consistency(rows) == 1.0 > consistency(rows, {"ann": 0.9, "bob": 0.6}, repeats="first")


def test_what_cannot_be_measured_is_told_in_a_sentence():
    nothing = as_pandas(SPLIT)[:0]
    for metric in (consistency, uncertainty, accuracy_on_aggregates):
        with pytest.raises(InvalidLabelsError, match="no labels"):
            metric(nothing)
        with pytest.raises(InvalidLabelsError, match="lack the column worker"):
            metric(pd.DataFrame({"task": [], "label": []}))
    with pytest.raises(InvalidOptionError, match="1 workers have no accuracy"):
        uncertainty(SPLIT, {"ann": 1.0})
    with pytest.raises(InvalidOptionError, match="not skills"):
        consistency(SPLIT, {"ann": -0.5, "bob": 1.0})
    with pytest.raises(InvalidOptionError, match="compute_by"):
        uncertainty(SPLIT, compute_by="label")
    with pytest.raises(InvalidOptionError, match="by is"):
        accuracy_on_aggregates(SPLIT, by="label")
    with pytest.raises(InvalidLabelsError, match="no task of the labels"):
        accuracy_on_aggregates(SPLIT, aggregates={"z": "a"})
    assert 0 < consistency(SPLIT, aggregator=KOS(n_iter=1)) <= 1


def test_a_task_without_an_aggregated_label_has_no_consistency_and_does_not_count():
    """Its worker contradicts himself, so that the aggregator leaves the task unanswered."""
    rows = [("t", "a", "x"), ("t", "b", "x"), ("u", "a", "x"), ("u", "a", "y"), ("v", "a", "y"), ("v", "b", "y")]
    skills = pd.Series({"a": 0.9, "b": 0.9})
    sure = 0.9**2 / (0.9**2 + 0.1**2)
    aggregator = MajorityVote(repeats="error")
    assert consistency(as_pandas(rows), skills, aggregator) == pytest.approx(sure)
    by_task = consistency(as_pandas(rows), skills, aggregator, by_task=True)
    assert by_task.to_dict() == pytest.approx({"t": sure, "u": 0.0, "v": sure})
