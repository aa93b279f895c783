"""Dawid-Skene and its one-coin form against crowd-kit's, in an environment of its own."""

import numpy as np
import pytest
from test_datasets import DATA, dataset

from crowdcore.baselines.dawid_skene import dawid_skene
from crowdcore.baselines.one_coin import one_coin_dawid_skene

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the datasets are neither in $CROWDBEAM_DATA nor beside the repository (../shared/data)"
)

NAMES = ["rte1", "temp", "dogs", "web", "bluebirds", "face"]
METHODS = {"DawidSkene": dawid_skene, "OneCoinDawidSkene": one_coin_dawid_skene}
ROUNDS = 7

# Everything at once, as starting the environment takes longest.
SCRIPT = """
import json, sys
import pandas as pd
from crowdkit import aggregation

given = json.load(open(sys.argv[1]))
told = {}
for name, columns in given["datasets"].items():
    frame = pd.DataFrame(columns)
    for method in given["methods"]:
        for rounds, options in (("fixed", {"n_iter": given["rounds"], "tol": -1e9}), ("own", {})):
            found = getattr(aggregation, method)(**options).fit_predict_proba(frame)
            found = found.sort_index().reindex(columns=sorted(found.columns))
            told[f"{name} {method} {rounds}"] = found.to_numpy().tolist()
json.dump(told, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def theirs(crowd_kit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd_kit")
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    columns = {}
    for name in NAMES:
        labels = dataset(name)[0]
        columns[name] = {
            "task": labels.task.tolist(), "worker": labels.worker.tolist(), "label": labels.label.tolist()
        }  # fmt: skip
    return crowd_kit(script, {"datasets": columns, "methods": list(METHODS), "rounds": ROUNDS}, folder)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_after_as_many_rounds_probabilities_are_crowd_kits(theirs, name, method):
    found = METHODS[method](dataset(name)[0], n_rounds=ROUNDS, tol=-1.0)
    other = np.array(theirs[f"{name} {method} fixed"])
    gap = np.abs(found.probabilities - other).max(axis=1)
    # A row of a matrix without counts: crowd-kit spreads it over the labels the worker has used, we over all classes.
    limit = 1e-6 if method == "OneCoinDawidSkene" or name in ("rte1", "temp", "bluebirds") else 0.05
    assert np.max(gap) < limit
    assert np.mean(gap) < 1e-3
    assert np.mean(found.answer == other.argmax(axis=1)) > 0.999


# Not web: there crowd-kit's one-coin form ends after two rounds, as its bound counts the class frequencies once a label
# and falls. Ours goes on to a higher likelihood.
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "web"])
def test_each_with_its_own_end_answers_are_crowd_kits_within_noise(theirs, name, method):
    labels, _, _, truth = dataset(name)
    found, other = METHODS[method](labels), np.array(theirs[f"{name} {method} own"])
    assert np.mean(found.answer == other.argmax(axis=1)) > 0.97
    known = truth >= 0
    errors = [np.mean(answer[known] != truth[known]) for answer in (found.answer, other.argmax(axis=1))]
    assert abs(errors[0] - errors[1]) < 0.02
