"""Estimators on data frames: names and layouts, gold, settings, prediction."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frame_kinds import KINDS, as_arrow, as_pandas, as_polars, by_id

from crowdcore.confusion import pgd_confusion
from crowdcore.errors import InvalidLabelsError, InvalidOptionError, NotFittedError
from crowdcore.estimators import (
    DDKR,
    KOS,
    DawidSkene,
    Ghosh,
    MajorityVote,
    OneCoinDawidSkene,
    OptDawidSkene,
    ProjectedGradient,
    ProjectedGradientConfusion,
    TriangleEstimator,
)
from crowdcore.frames import code_labels
from crowdcore.methods import METHODS as REGISTRY

BY_NAME = {
    "pgd": ProjectedGradient, "majority": MajorityVote, "dawid-skene": DawidSkene, "one-coin": OneCoinDawidSkene,
    "opt-dawid-skene": OptDawidSkene, "kos": KOS, "ghosh": Ghosh, "ddkr": DDKR, "triangle": TriangleEstimator,
    "pgd-confusion": ProjectedGradientConfusion,
}  # fmt: skip
WITH_MATRICES = (DawidSkene, OneCoinDawidSkene, OptDawidSkene, ProjectedGradientConfusion)
METHODS = {"pgd-confusion": pgd_confusion, **REGISTRY}
every_method = pytest.mark.parametrize("name", BY_NAME)


@pytest.fixture
def crowd(mixed_crowd):
    return mixed_crowd


def error(found, answers):
    return np.mean([found[task] != answer for task, answer in answers.items()])


@every_method
def test_the_layout_is_that_of_crowd_kit(name, crowd):
    found = BY_NAME[name]().fit(as_pandas(crowd[0]))
    assert (found.labels_.name, found.labels_.index.name) == ("agg_label", "task")
    assert (found.probas_.index.name, found.probas_.columns.name) == ("task", "label")
    assert (found.skills_.name, found.skills_.index.name) == ("skill", "worker")
    assert (found.accuracies_.name, found.accuracies_.index.name) == ("accuracy", "worker")
    assert (found.priors_.name, found.priors_.index.name) == ("prior", "label")
    assert found.priors_.sum() == pytest.approx(1)
    assert found.converged_ or name in ("opt-dawid-skene", "pgd-confusion")  # which make ten rounds
    if isinstance(found, WITH_MATRICES):
        assert (found.errors_.index.names, found.errors_.columns.name) == (["worker", "label"], None)
        columns = found.errors_.groupby("worker").sum().to_numpy()
        assert columns == pytest.approx(np.ones((10, 2)))
        assert found.errors_.loc[("w0", "yes"), "yes"] > 0.8 > 0.3 > found.errors_.loc[("w0", "yes"), "no"]
    else:
        assert not hasattr(found, "errors_")


@every_method
def test_an_estimator_gives_what_its_method_gives(name, crowd):
    labels = code_labels(as_pandas(crowd[0])).labels
    expected = METHODS[name](labels, rng=np.random.default_rng(0))
    found = BY_NAME[name]().fit(as_pandas(crowd[0]))
    assert np.array_equal(found.labels_ == "yes", expected.answer == 1)
    assert found.probas_.to_numpy() == pytest.approx(expected.probabilities)
    assert found.skills_.to_numpy() == pytest.approx(expected.skills)


@every_method
def test_skills_and_accuracies_are_those_of_the_workers(name, crowd):
    rows, _, accuracy = crowd
    found = BY_NAME[name]().fit(as_pandas(rows))
    assert found.accuracies_.to_numpy() == pytest.approx((1 + found.skills_.to_numpy()) / 2)
    distance = np.mean([abs(found.accuracies_[worker] - p) for worker, p in accuracy.items()])
    assert distance < 0.12


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {"majority"}))
def test_methods_that_find_skills_beat_majority_vote_where_some_workers_are_worse_than_guessing(name, crowd):
    rows, answers, _ = crowd
    majority = error(MajorityVote().fit_predict(as_pandas(rows)), answers)
    assert error(BY_NAME[name]().fit_predict(as_pandas(rows)), answers) < majority


@every_method
@pytest.mark.parametrize("kind", ["polars", "arrow", "columns", "rows"])
def test_every_kind_of_frame_gives_the_same_numbers(name, kind, crowd):
    first, second = BY_NAME[name]().fit(as_pandas(crowd[0])), BY_NAME[name]().fit(KINDS[kind](crowd[0]))
    assert by_id(second.labels_) == by_id(first.labels_)
    assert by_id(second.skills_) == by_id(first.skills_)


def test_frames_without_an_index_have_it_as_columns(crowd):
    found = DawidSkene().fit(as_polars(crowd[0]))
    assert isinstance(found.labels_, pl.DataFrame)
    assert found.labels_.columns == ["task", "agg_label"]
    assert found.probas_.columns == ["task", "no", "yes"]
    assert found.errors_.columns == ["worker", "label", "no", "yes"]
    assert found.priors_.columns == ["label", "prior"]
    found = DawidSkene().fit(as_arrow(crowd[0]))
    assert isinstance(found.errors_, pa.Table)
    assert found.errors_.schema.names == ["worker", "label", "no", "yes"]
    assert found.skills_.schema.names == ["worker", "skill"]


def test_no_library_of_frames_is_imported_that_the_caller_did_not_bring():
    code = (
        "import sys; from crowdcore.estimators import DawidSkene\n"
        "DawidSkene().fit_predict([('t', 'a', 'x')])\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))\n"
        "import polars; DawidSkene().fit_predict(polars.DataFrame({'task': ['t'], 'worker': ['a'], 'label': ['x']}))\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['polars']"]


def test_what_only_one_method_needs_of_scipy_is_not_in_the_memory_of_the_others():
    code = (
        "import sys; from crowdcore.estimators import ProjectedGradient\n"
        "ProjectedGradient().fit_predict([('t', 'a', 'x'), ('t', 'b', 'y'), ('s', 'a', 'x'), ('s', 'b', 'x')])\n"
        "print(sorted({'scipy.optimize', 'scipy.special', 'scipy.stats'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


@every_method
def test_before_fitting_there_are_no_results(name):
    method = BY_NAME[name]()
    assert not hasattr(method, "labels_")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        _ = method.probas_
    with pytest.raises(NotFittedError):
        method.predict([("t", "a", "x")])


@pytest.mark.parametrize("name", ["pgd", "majority", "dawid-skene"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "rows"])
def test_gold_answers_stand_and_those_that_cannot_be_used_are_counted(name, kind, crowd):
    rows, answers, _ = crowd
    plain = by_id(BY_NAME[name]().fit_predict(KINDS[kind](rows)))
    wrong = [task for task in answers if plain[task] != answers[task] and task != "t000"][:5]
    assert wrong
    gold = {task: answers[task] for task in wrong}
    found = BY_NAME[name]().fit(KINDS[kind](rows), true_labels={**gold, "elsewhere": "no", "t000": "perhaps"})
    assert {task: by_id(found.labels_)[task] for task in wrong} == gold
    assert found.rejects_ == {"gold for a task without labels": 1, "gold label that no worker gave": 1}


@pytest.mark.parametrize("as_given", [
    pd.Series,
    lambda gold: pd.DataFrame({"task": list(gold), "label": list(gold.values())}),
    lambda gold: pl.DataFrame({"task": list(gold), "agg_label": list(gold.values())}),
    lambda gold: pa.table({"task": list(gold), "label": list(gold.values())}),
    lambda gold: {"task": list(gold), "label": list(gold.values())},
])  # fmt: skip
def test_gold_may_come_in_any_form(as_given):
    rows = [("t1", "ann", "no"), ("t1", "bob", "no"), ("t2", "ann", "yes")]
    assert by_id(DawidSkene().fit_predict(rows, as_given({"t1": "yes"})))["t1"] == "yes"
    assert by_id(ProjectedGradient().fit_predict(rows, as_given({"t1": "yes"})))["t1"] == "yes"


def test_gold_tells_the_sign_of_skills_that_agreements_alone_get_wrong():
    rows = [(f"t{task}", worker, "no") for task in range(40) for worker in ("ann", "bob", "cem")]
    rows += [(f"t{task}", "dan", "yes") for task in range(40)]
    gold = {f"t{task}": "yes" for task in range(20)}
    found = ProjectedGradient().fit(as_pandas(rows), gold)
    assert found.skills_["dan"] > 0.5 > -0.5 > found.skills_["ann"]
    assert set(found.labels_) == {"yes"}
    assert found.skills_.index.tolist() == ["ann", "bob", "cem", "dan"]


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {"pgd", "majority", "dawid-skene"}))
def test_methods_that_cannot_use_gold_say_so(name, crowd):
    with pytest.raises(InvalidOptionError, match="cannot use true_labels"):
        BY_NAME[name]().fit(as_pandas(crowd[0]), crowd[1])


def test_majority_vote_takes_weights_as_crowd_kit_does():
    rows = [("t1", "p1", 0), ("t1", "p2", 0), ("t1", "p3", 1), ("t2", "p1", 1), ("t2", "p2", 0), ("t2", "p3", 1)]
    weights = pd.Series({"p1": 0.25, "p2": 0.5, "p3": 1.0})
    found = MajorityVote().fit(as_pandas(rows), weights)
    assert found.probas_[1].tolist() == pytest.approx([1 / 1.75, 1.25 / 1.75])
    assert found.labels_.tolist() == [1, 1]
    assert found.predict(as_pandas(rows)).tolist() == [1, 1]
    with pytest.raises(InvalidOptionError, match="1 workers have no skill"):
        MajorityVote().fit(as_pandas(rows), weights[:2])
    unheard = MajorityVote(on_missing_skill="ignore").fit_predict(as_pandas(rows), weights[:2])
    assert unheard.tolist() == [0, 0]
    raised = MajorityVote(on_missing_skill="value", default_skill=9.0).fit_predict(as_pandas(rows), weights[:2])
    assert raised.tolist() == [1, 1]
    with pytest.raises(InvalidLabelsError, match="2 tasks have no label of a worker with a weight"):
        MajorityVote(on_missing_skill="ignore").fit(as_pandas(rows), {"someone": 1.0})
    assert (
        MajorityVote().fit_predict_proba(as_pandas(rows), {"p1": 0, "p2": 0, "p3": 0}).to_numpy().tolist()
        == [[0.5, 0.5]] * 2
    )
    for wrong in ({"default_skill": 1.0}, {"on_missing_skill": "value"}, {"on_missing_skill": "guess"}):
        with pytest.raises(InvalidOptionError):
            MajorityVote(**wrong).fit(as_pandas(rows), weights)
    with pytest.raises(InvalidOptionError, match="below 0"):
        MajorityVote().fit(as_pandas(rows), -weights)


def test_what_of_crowd_kit_cannot_be_honoured_is_refused(crowd):
    with pytest.raises(InvalidOptionError, match="no initial_error"):
        DawidSkene(initial_error_strategy="addition").fit(as_pandas(crowd[0]))
    with pytest.raises(InvalidOptionError, match="no initial_error"):
        DawidSkene().fit(as_pandas(crowd[0]), None, pd.DataFrame())


@every_method
def test_prediction_on_the_labels_it_was_fitted_to_is_about_what_was_found(name, crowd):
    data = as_pandas(crowd[0])
    found = BY_NAME[name]().fit(data)
    again = found.predict(data)
    assert (again.name, again.index.name) == ("agg_label", "task")
    assert np.mean(again == found.labels_) > 0.97
    if name in ("pgd", "majority"):
        pd.testing.assert_series_equal(again, found.labels_)
        pd.testing.assert_frame_equal(found.predict_proba(data), found.probas_)


@every_method
def test_prediction_on_new_tasks_uses_what_is_known_of_the_workers(name, crowd):
    found = BY_NAME[name]().fit(as_pandas(crowd[0]))
    new = [("n2", "w0", "yes"), ("n2", "w9", "no"), ("n1", "stranger", "no"), ("n3", "w0", "perhaps")]
    answers = found.predict(as_pandas(new))
    assert answers["n1"] == "no" if name in ("pgd", "majority") else answers["n1"] in ("no", "yes")
    assert answers.index.tolist() == ["n1", "n2"]  # "perhaps" was no class when it was fitted
    assert answers["n2"] == ("no" if name == "majority" else "yes")
    with pytest.raises(InvalidLabelsError, match="of one library"):
        found.predict(as_polars(new))
