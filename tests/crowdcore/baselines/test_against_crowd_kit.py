"""Majority vote, Dawid-Skene, its one-coin form and KOS beside crowd-kit's, on five public datasets.

crowd-kit is an independent implementation. Where both follow the same steps, answers must be equal but for what is left
to each: ties, where an EM stops (1e-5 of the loss here and there, but of different losses), random starts. So:

- majority vote: the same shares; the same answers wherever there is no tie;
- EM and KOS: the same answers on at least 99 % of the tasks, or an error within .01 of crowd-kit's.
"""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets import DATA, load
from crowdcore.baselines.kos import kos
from crowdcore.methods import METHODS

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the datasets are neither in $CROWDBEAM_DATA nor beside the repository (../shared/data)"
)
NAMES = ("rte1", "temp", "dogs", "sentiment", "product")
BINARY = ("rte1", "temp", "sentiment", "product")
SCRIPT = Path(__file__).parent / "crowd_kit_answers.py"


@pytest.fixture(scope="module")
def theirs(crowd_kit, tmp_path_factory):
    """Their answers on all datasets, by codes, from one process."""
    rows = {}
    for name in NAMES:
        labels = load(name)[0]
        rows[name] = np.stack([labels.task, labels.worker, labels.label], axis=1).tolist()
    return crowd_kit(SCRIPT, rows, tmp_path_factory.mktemp("crowd-kit"))


def error_of(answer, truth):
    return float(np.mean(np.asarray(answer)[truth >= 0] != truth[truth >= 0]))


def assert_alike(mine, other, truth):
    same = float(np.mean(mine == np.asarray(other)))
    errors = error_of(mine, truth), error_of(other, truth)
    assert same >= 0.99 or abs(errors[0] - errors[1]) <= 0.01, (same, errors)


@pytest.mark.parametrize("name", NAMES)
def test_majority_vote_has_the_same_shares_and_answers(theirs, name):
    found = METHODS["majority"](load(name)[0], rng=np.random.default_rng(0))
    assert np.max(np.abs(found.probabilities - np.array(theirs[name]["shares"]))) < 1e-12
    ranked = np.sort(found.probabilities, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-9
    assert np.array_equal(found.answer[clear], np.array(theirs[name]["majority"][0])[clear])


@pytest.mark.parametrize("method", ["dawid-skene", "one-coin"])
@pytest.mark.parametrize("name", NAMES)
def test_expectation_maximisation_agrees(theirs, name, method):
    labels, truth = load(name)
    found = METHODS[method](labels, rng=np.random.default_rng(0))
    assert_alike(found.answer, theirs[name][method][0], truth)


@pytest.mark.parametrize("name", BINARY)
def test_kos_agrees_whatever_the_random_start(theirs, name):
    labels, truth = load(name)
    for seed, other in enumerate(theirs[name]["kos"]):
        assert_alike(kos(labels, rng=np.random.default_rng(seed)).answer, other, truth)
