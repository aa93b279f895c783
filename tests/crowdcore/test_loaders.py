"""Loading a folder of datasets."""

import pandas as pd
import pytest

from crowdcore.datasets import list_datasets, load_dataset
from crowdcore.errors import InvalidLabelsError, InvalidOptionError
from crowdcore.estimators import MajorityVote


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "labels.csv").write_text('worker,label,task\nw1,NA,001\nw2,NA,001\nw1,"a,b",2\n')
    (tmp_path / "small" / "truth.csv").write_text("task,label\n001,NA\n")
    return tmp_path


def test_values_stay_the_strings_of_the_file(folder):
    labels, truth = load_dataset(folder / "small")
    assert labels.to_dict("list") == {
        "task": ["001", "001", "2"],
        "worker": ["w1", "w2", "w1"],
        "label": ["NA", "NA", "a,b"],
    }
    pd.testing.assert_series_equal(truth, pd.Series(["NA"], pd.Index(["001"], name="task"), name="true_label"))
    assert MajorityVote().fit_predict(labels).to_dict() == {"001": "NA", "2": "a,b"}
    columns, known = load_dataset(folder / "small", frames="columns")
    assert columns["task"] == ["001", "001", "2"]
    assert known == {"001": "NA"}


def test_a_folder_of_datasets_lists_them_and_truth_may_be_missing(folder):
    assert list_datasets(folder) == ["small"]
    (folder / "small" / "truth.csv").unlink()
    assert load_dataset(folder / "small")[1].empty
    assert load_dataset(folder / "small", "columns")[1] == {}


def test_what_is_no_dataset_is_refused(folder):
    with pytest.raises(InvalidLabelsError, match="is not there; a dataset is a folder"):
        load_dataset(folder)
    with pytest.raises(InvalidOptionError, match="frames is 'polars'"):
        load_dataset(folder / "small", "polars")
    (folder / "small" / "truth.csv").write_text("task\n1\n")
    with pytest.raises(InvalidLabelsError, match=r"truth.csv lacks the column label"):
        load_dataset(folder / "small")
    (folder / "small" / "labels.csv").write_text("task,worker,label\n1,2\n")
    with pytest.raises(InvalidLabelsError, match="a row of 2 values where the header has 3"):
        load_dataset(folder / "small")
