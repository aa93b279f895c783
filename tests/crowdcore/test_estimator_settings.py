"""Every setting of an estimator changes what it finds."""

import numpy as np
import pandas as pd
import pytest
from frame_kinds import as_pandas

from crowdcore.estimators import (
    DDKR,
    KOS,
    DawidSkene,
    Ghosh,
    OneCoinDawidSkene,
    OptDawidSkene,
    ProjectedGradient,
    ProjectedGradientConfusion,
)


@pytest.fixture
def crowd(mixed_crowd):
    return mixed_crowd


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"weights": "identity"}, {"weights": "squared"}),
        ({"weights": "saturating", "saturation": 1.0}, {"weights": "saturating", "saturation": 100.0}),
        ({"tau": 0.5}, {"tau": 4.0}),
        ({"start": "half", "n_iter": 1}, {"start": "half"}),
        ({"start": "half", "tol": 0.5}, {"start": "half"}),
    ],
)
def test_settings_of_projected_gradient_change_its_skills(one, other, crowd):
    first, second = (ProjectedGradient(**settings).fit(as_pandas(crowd[0])).skills_ for settings in (one, other))
    assert np.max(np.abs(first - second)) > 1e-9


def test_both_solvers_and_rules_are_there(crowd):
    data = as_pandas(crowd[0])
    fast, paper = ProjectedGradient(start="half").fit(data), ProjectedGradient(start="half", solver="paper").fit(data)
    assert len(paper.loss_history_) > len(fast.loss_history_)
    assert paper.skills_.to_numpy() == pytest.approx(fast.skills_.to_numpy(), abs=1e-6)
    rows = [("t1", "ann", "a"), ("t1", "bob", "b"), ("t1", "cem", "c"), ("t2", "ann", "a"), ("t2", "bob", "a")]
    one_coin, versus = (ProjectedGradient(multiclass=rule).fit(as_pandas(rows)) for rule in ("one-coin", "one-vs-rest"))
    assert np.max(np.abs((one_coin.probas_ - versus.probas_).to_numpy())) > 1e-3
    pd.testing.assert_frame_equal(versus.predict_proba(as_pandas(rows)), versus.probas_)


@pytest.mark.parametrize("method", [KOS, Ghosh, OptDawidSkene])
def test_the_random_state_decides_and_repeats(method, crowd):
    data = as_pandas(crowd[0])
    first, again, other = (method(random_state=state, n_iter=1).fit(data).probas_ for state in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert np.max(np.abs((first - other).to_numpy())) > 0


@pytest.mark.parametrize("method", [DawidSkene, OneCoinDawidSkene])
def test_rounds_and_tolerance_of_em_are_those_asked_for(method, crowd):
    data = as_pandas(crowd[0])
    short = method(n_iter=2).fit(data)
    assert (len(short.loss_history_), short.converged_) == (2, False)
    exact = method(tol=1e-12, n_iter=1000).fit(data)
    assert exact.converged_
    assert len(exact.loss_history_) > len(method(tol=1e-2).fit(data).loss_history_)
    assert np.all(np.diff(exact.loss_history_) <= 1e-9)


def test_settings_of_the_confusion_stage_change_its_probabilities(crowd):
    data = as_pandas(crowd[0])
    plain = ProjectedGradientConfusion().fit_predict_proba(data)
    for settings in ({"smoothing": 5.0}, {"n_iter": 1}, {"weights": "squared", "n_iter": 1}):
        other = ProjectedGradientConfusion(**settings).fit_predict_proba(data)
        assert np.max(np.abs((plain - other).to_numpy())) > 1e-9, settings


def test_the_losses_of_ddkr_differ(crowd):
    counts, plain = (DDKR(loss=loss).fit(as_pandas(crowd[0])).skills_ for loss in ("counts", "plain"))
    assert np.max(np.abs(counts - plain)) > 1e-6


def test_fitting_gives_the_estimator_itself_and_settings_show(crowd):
    method = DawidSkene(n_iter=3)
    assert method.fit(as_pandas(crowd[0])) is method
    assert repr(method).startswith("DawidSkene(n_iter=3")
