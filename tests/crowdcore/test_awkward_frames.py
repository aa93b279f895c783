"""Awkward labels in every kind of frame, to every method: a stated outcome, never a NaN, never a KeyError."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frame_kinds import COLUMNS, KINDS, as_arrow, as_pandas, as_polars, by_id, cells

from crowdcore import estimators
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.fitted import Estimator

METHODS = [
    value
    for value in vars(estimators).values()
    if isinstance(value, type) and issubclass(value, Estimator) and value is not Estimator
]
NAN = float("nan")
PLAIN = [
    ("t2", "bob", "yes"), ("t2", "ann", "yes"), ("t2", "cem", "no"),
    ("t1", "ann", "no"), ("t1", "bob", "no"), ("t1", "cem", "no"),
    ("t3", "bob", "yes"), ("t3", "ann", "yes"), ("t3", "cem", "yes"),
    ("t4", "cem", "no"), ("t4", "bob", "no"), ("t4", "ann", "no"),
]  # fmt: skip
ANSWERS = {"t1": "no", "t2": "yes", "t3": "yes", "t4": "no"}

every_kind = pytest.mark.parametrize("kind", KINDS)
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)


def assert_whole(fitted, data):
    """Every result is there and is a number."""
    numbers = [
        *cells(fitted.probas_), *by_id(fitted.skills_).values(), *by_id(fitted.accuracies_).values(),
        *by_id(fitted.priors_).values(), *fitted.loss_history_, *cells(fitted.predict_proba(data)),
    ]  # fmt: skip
    assert all(math.isfinite(number) for number in numbers)
    assert all(-1 <= skill <= 1 for skill in by_id(fitted.skills_).values())
    assert sum(cells(fitted.probas_)) == pytest.approx(len(by_id(fitted.labels_)))
    assert set(by_id(fitted.predict(data))) == set(by_id(fitted.labels_))


def fitted(method, kind, rows, **settings):
    data = KINDS[kind](rows)
    if method is estimators.KOS:  # after many rounds its messages turn over in crowds so small, in crowd-kit too
        settings["n_iter"] = 1
    found = method(**settings).fit(data)
    assert_whole(found, data)
    return found


@every_kind
@every_method
def test_a_plain_crowd_gets_its_answers(method, kind):
    found = fitted(method, kind, PLAIN)
    assert by_id(found.labels_) == ANSWERS
    assert (found.n_rejected_, found.rejects_, found.n_repeated_) == (0, {}, 0)


@every_kind
@every_method
def test_rows_that_lack_something_are_left_out_and_counted(method, kind):
    bad = [("t3", "ann", None), (None, "ann", "no"), ("t1", None, "no"), (None, None, None)]
    found = fitted(method, kind, [*bad, *PLAIN])
    assert found.rejects_ == {"missing task": 2, "missing worker": 1, "missing label": 1}
    assert found.n_rejected_ == 4
    assert by_id(found.labels_) == by_id(fitted(method, kind, PLAIN).labels_)


@every_kind
@every_method
def test_labels_that_are_no_numbers_are_left_out(method, kind):
    rows = [("t1", "ann", 1.0), ("t1", "bob", NAN), ("t2", "ann", 0.0), ("t2", "bob", 0.0), ("t3", "bob", NAN)]
    found = fitted(method, kind, rows)
    assert found.rejects_ == {"missing label": 2}
    assert set(by_id(found.labels_)) == {"t1", "t2"}


@every_kind
@every_method
def test_of_repeats_the_last_counts(method, kind):
    found = fitted(method, kind, [("t1", "ann", "no"), ("t1", "ann", "yes"), ("t2", "ann", "no")])
    assert by_id(found.labels_) == {"t1": "yes", "t2": "no"}
    assert found.n_repeated_ == 1


@every_kind
def test_of_repeats_the_first_counts_or_none_if_asked_for(kind):
    rows = [("t1", "ann", "no"), ("t1", "ann", "yes"), ("t2", "ann", "no"), ("t2", "bob", "no")]
    assert by_id(fitted(estimators.MajorityVote, kind, rows, repeats="first").labels_)["t1"] == "no"
    strict = fitted(estimators.MajorityVote, kind, rows, repeats="error")
    assert by_id(strict.labels_) == {"t2": "no"}
    assert strict.rejects_ == {"contradiction": 2}
    with pytest.raises(InvalidOptionError, match="repeats is 'all'"):
        estimators.MajorityVote(repeats="all").fit(KINDS[kind](rows))


@every_kind
@every_method
def test_a_tie_goes_to_the_class_that_sorts_first_whatever_the_order_of_rows(method, kind):
    rows = [("t1", "ann", "b"), ("t1", "bob", "a")]
    if method is estimators.Ghosh:  # its random start decides
        assert by_id(fitted(method, kind, rows).labels_) == by_id(fitted(method, kind, rows[::-1]).labels_)
        return
    assert by_id(fitted(method, kind, rows).labels_) == {"t1": "a"}
    assert by_id(fitted(method, kind, rows[::-1]).labels_) == {"t1": "a"}


@every_kind
@every_method
def test_one_label_a_task_is_the_answer(method, kind):
    found = fitted(method, kind, [("t1", "ann", "no"), ("t2", "bob", "yes"), ("t3", "ann", "yes")])
    assert by_id(found.labels_) == {"t1": "no", "t2": "yes", "t3": "yes"}


@every_kind
@every_method
def test_one_class_is_every_answer_for_sure(method, kind):
    found = fitted(method, kind, [("t1", "ann", "no"), ("t1", "bob", "no"), ("t2", "ann", "no")])
    assert by_id(found.labels_) == {"t1": "no", "t2": "no"}
    assert cells(found.probas_) == [1.0, 1.0]


@every_method
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "columns"])
def test_no_labels_give_no_answers(method, kind):
    data = KINDS[kind](PLAIN)
    nothing = {name: column[:0] for name, column in data.items()} if kind == "columns" else data[:0]
    found = method().fit(nothing)
    assert_whole(found, nothing)
    assert by_id(found.labels_) == by_id(found.skills_) == {}
    if kind != "columns":
        assert type(found.labels_) is type(method().fit(data).labels_)


def test_rows_that_are_all_bad_give_no_answers():
    for data in (as_pandas([("t1", None, "no")]), as_polars([("t1", None, "no")]), as_arrow([("t1", None, "no")])):
        found = estimators.ProjectedGradient().fit(data)
        assert by_id(found.labels_) == {}
        assert found.rejects_ == {"missing worker": 1}


@every_kind
@every_method
@pytest.mark.parametrize(
    "values", [(False, True), (3, 7), ("no", "yes"), (0.5, 1.5)], ids=lambda v: type(v[0]).__name__
)
def test_labels_come_out_in_the_type_they_came_in(method, kind, values):
    rows = [(task, worker, values[label == "yes"]) for task, worker, label in PLAIN]
    answers = by_id(fitted(method, kind, rows).labels_)
    assert answers == {task: values[label == "yes"] for task, label in ANSWERS.items()}
    assert {type(answer) for answer in answers.values()} <= {type(values[0]), np.bool_, np.int64, np.float64}


@every_kind
@every_method
def test_whole_numbers_as_ids_stay_whole_numbers(method, kind):
    rows = [(int(task[1]), {"ann": 10, "bob": 9, "cem": 8}[worker], label) for task, worker, label in PLAIN]
    found = fitted(method, kind, rows)
    assert list(by_id(found.labels_)) == [1, 2, 3, 4]
    assert list(by_id(found.skills_)) == [8, 9, 10]


@every_method
@pytest.mark.parametrize("kind", ["pandas", "columns", "rows"])  # columns of polars and Arrow have one type
def test_labels_of_several_types_are_several_classes(method, kind):
    rows = [
        ("t1", "ann", 1),
        ("t1", "bob", 1),
        ("t1", "cem", "1"),
        ("t2", "ann", "1"),
        ("t2", "bob", "1"),
        (3, "cem", 1),
    ]
    found = fitted(method, kind, rows)
    assert by_id(found.labels_)["t1"] == 1
    assert by_id(found.labels_)["t2"] == "1"
    assert list(by_id(found.labels_)) == [3, "t1", "t2"]


def test_categories_come_out_as_categories():
    order = ["yes", "no", "never seen"]
    data = as_pandas(PLAIN).astype({"label": pd.CategoricalDtype(order, ordered=True), "task": "category"})
    found = estimators.DawidSkene().fit(data)
    assert found.labels_.dtype == data["label"].dtype
    assert found.probas_.columns.tolist() == ["yes", "no"]
    assert by_id(found.labels_) == ANSWERS
    tied = as_pandas([("t1", "ann", "no"), ("t1", "bob", "yes")]).astype({"label": data["label"].dtype})
    assert estimators.MajorityVote().fit_predict(tied).tolist() == ["yes"]  # the category that comes first


def test_categories_of_polars_and_arrow_come_out_as_such():
    answers = estimators.DawidSkene().fit_predict(as_polars(PLAIN).cast({"label": pl.Enum(["yes", "no"])}))
    assert answers.schema["agg_label"] == pl.Enum(["yes", "no"])
    answers = estimators.DawidSkene().fit_predict(as_polars(PLAIN).cast({"label": pl.Categorical}))
    assert answers.schema["agg_label"] == pl.Categorical
    coded = as_arrow(PLAIN).set_column(2, "label", as_arrow(PLAIN).column("label").dictionary_encode())
    answers = estimators.DawidSkene().fit_predict(coded)
    assert pa.types.is_dictionary(answers.schema.field("agg_label").type)
    assert by_id(answers) == ANSWERS


def test_an_arrow_dictionary_may_hold_nulls_and_a_value_twice():
    label = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 3]), pa.array(["yes", None, "yes", "no"]))
    data = pa.table({"task": ["t1", "t1", "t1", "t2"], "worker": ["a", "b", "c", "a"], "label": label})
    found = estimators.MajorityVote().fit(data)
    assert found.rejects_ == {"missing label": 1}
    assert found.probas_.to_pydict() == {"task": ["t1", "t2"], "no": [0.0, 1.0], "yes": [1.0, 0.0]}


@every_method
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "columns"])
@pytest.mark.parametrize("missing", COLUMNS)
def test_a_missing_column_is_named_in_the_error(method, kind, missing):
    data = KINDS[kind](PLAIN)
    kept = [name for name in COLUMNS if name != missing]
    data = (
        {name: data[name] for name in kept}
        if kind == "columns"
        else data.select(kept)
        if kind in ("polars", "arrow")
        else data[kept]
    )
    with pytest.raises(InvalidLabelsError, match=f"lack the column {missing}; they take task, worker and label"):
        method().fit(data)


def test_two_columns_of_one_name_are_refused():
    data = pd.concat([as_pandas(PLAIN), as_pandas(PLAIN)[["label"]]], axis=1)
    with pytest.raises(InvalidLabelsError, match="several columns called label"):
        estimators.MajorityVote().fit(data)


@every_method
def test_other_columns_their_order_and_the_index_play_no_part(method):
    data = as_pandas(PLAIN)
    other = data.assign(time=1.0, note=None)[["note", "label", "time", "worker", "task"]]
    other.index = [7, 7, 7, 1, 0, -1] * 2
    pd.testing.assert_series_equal(method().fit_predict(other), method().fit_predict(data))
    pd.testing.assert_frame_equal(method().fit_predict_proba(other), method().fit_predict_proba(data))


@every_method
def test_the_order_of_rows_plays_no_part(method):
    data = as_pandas(PLAIN)
    shuffled = method().fit(data.iloc[::-1])
    pd.testing.assert_frame_equal(shuffled.probas_, method().fit(data).probas_, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "given", [3, None, "labels.csv", [("t1", "ann")], {"task": 1, "worker": 2, "label": 3}, pd.Series([1])]
)
def test_what_are_no_labels_is_refused_with_a_sentence(given):
    with pytest.raises(InvalidLabelsError):
        estimators.MajorityVote().fit(given)


def test_values_that_cannot_be_told_apart_are_refused_with_a_sentence():
    with pytest.raises(InvalidLabelsError, match="the column 'label' has values that cannot be told apart"):
        estimators.MajorityVote().fit([("t1", "ann", ["yes"]), ("t1", "bob", ["no"])])
    with pytest.raises(InvalidLabelsError, match="the column 'label' holds Python objects"):
        estimators.MajorityVote().fit(as_polars(PLAIN).with_columns(label=pl.Series([object()] * 12, dtype=pl.Object)))


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_a_class_may_be_called_like_a_column(kind):
    found = estimators.MajorityVote().fit_predict_proba(KINDS[kind]([("t1", "ann", "task"), ("t1", "bob", "task_")]))
    names = found.columns if kind == "polars" else found.schema.names
    assert names == ["task", "task_", "task__"]


def test_an_empty_id_is_an_id_and_not_gold():
    rows = [(task, "" if worker == "cem" else worker, label) for task, worker, label in PLAIN]
    found = estimators.ProjectedGradient().fit(as_pandas(rows))
    assert found.skills_[""] < 0.99
    assert found.labels_["t2"] == "yes"


def test_lazy_frames_and_record_batches_are_frames():
    assert by_id(estimators.DawidSkene().fit_predict(as_polars(PLAIN).lazy())) == ANSWERS
    batch = as_arrow(PLAIN).to_batches()[0]
    assert isinstance(estimators.DawidSkene().fit_predict(batch), pa.RecordBatch)


def test_nullable_and_arrow_columns_of_pandas_keep_their_types():
    data = as_pandas(PLAIN).assign(label=pd.array([1, 1, 0, 0, None, 0] * 2, "Int64"))
    found = estimators.MajorityVote().fit(data)
    assert found.labels_.dtype == "Int64"
    assert found.rejects_ == {"missing label": 2}
    floats = data.assign(label=pd.array([1.0, 1.0, 0.0, 0.0, NAN, 0.0] * 2, "double[pyarrow]"))
    assert estimators.MajorityVote().fit(floats).labels_.dtype == "double[pyarrow]"
