"""Error of the confusion-matrix methods on public datasets, which are not part of the repository."""

import numpy as np
import pytest
from test_datasets import DATA, dataset

from crowdcore.baselines.dawid_skene import dawid_skene
from crowdcore.baselines.majority import majority_vote
from crowdcore.baselines.opt_dawid_skene import opt_dawid_skene
from crowdcore.confusion import pgd_confusion
from crowdcore.metrics import error_rate

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the datasets are neither in $CROWDBEAM_DATA nor beside the repository (../shared/data)"
)

TEMP = pytest.mark.xfail(reason="27 errors; the bar allows 24 of 462: see crowdcore/confusion.py")
BARS = [("rte1", 0.07), pytest.param("temp", 0.054, marks=TEMP), ("dogs", 0.166), ("web", 0.1586)]
PAPER = {"rte1": 0.0712, "temp": 0.0584, "dogs": 0.1689, "web": 0.1586}  # its table of benchmark datasets, Opt-D&S


@pytest.mark.parametrize(("name", "bar"), BARS)
def test_the_confusion_stage_reaches_the_best_figure_of_the_paper(name, bar):
    labels, _, _, truth = dataset(name)
    assert error_rate(pgd_confusion(labels).answer, truth) <= bar


def test_the_confusion_stage_stays_below_dawid_skene_from_the_votes_on_temp_and_web_or_equal():
    for name in ("temp", "web"):
        labels, _, _, truth = dataset(name)
        assert error_rate(pgd_confusion(labels).answer, truth) <= error_rate(dawid_skene(labels).answer, truth)


@pytest.mark.parametrize("name", ["rte1", "temp", "dogs", "web", "bluebirds", "product", "sentiment", "trec"])
@pytest.mark.parametrize("method", [dawid_skene, pgd_confusion])
def test_confusion_matrices_beat_the_vote(name, method):
    labels, _, _, truth = dataset(name)
    assert error_rate(method(labels).answer, truth) < majority_vote(labels).expected_error(truth)


@pytest.mark.parametrize("name", PAPER)
def test_opt_dawid_skene_is_within_a_point_of_the_paper_in_the_middle_of_its_groupings(name):
    labels, _, _, truth = dataset(name)
    errors = [error_rate(opt_dawid_skene(labels, rng=np.random.default_rng(seed)).answer, truth) for seed in range(21)]
    assert np.median(errors) <= PAPER[name] + 0.01
