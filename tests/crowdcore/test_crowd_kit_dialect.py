"""A script written for crowd-kit runs on crowdcore with its imports changed, and finds the same.

What each library does where they differ, and so what is compared:

- Ties of majority vote: crowd-kit takes the class that comes first in its table of counts, which depends on the data;
  crowdcore the class that sorts first. The crowds here have none.
- Repeats: crowd-kit counts each row as a vote, crowdcore the last of a worker on a task. The crowds here have none.
- The order of tasks, workers and classes: crowd-kit's depends on the data; crowdcore sorts. Cells are compared by name.
- `errors_`: crowd-kit has rows only for labels that a worker gave, and columns without a type for other classes than
  strings; crowdcore has every row, and columns of the classes' type.
- `skills_` of crowd-kit are accuracies; so are crowdcore's `accuracies_`, but its `skills_` go from −1 to 1.
- Some series of metrics have no name in crowd-kit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("crowd_kit_script.py")
ROOT = Path(__file__).resolve().parents[2]
IMPORTS = {
    "crowdkit.aggregation": "crowdcore.estimators",
    "crowdkit.metrics.data": "crowdcore.crowd_metrics",
    "crowdkit.metrics.workers": "crowdcore.crowd_metrics",
}
CASES = ("str", "int", "bool", "float", "ids")
NAMELESS = ("consistency by task", "uncertainty by worker", "accuracy by worker")


def made_crowd(labels, whole_ids):
    """Sixty tasks of five labels by seven workers: no tie with two classes, no repeat."""
    rng = np.random.default_rng(11)
    truth, accuracy = rng.integers(0, 2, 60), rng.uniform(0.6, 0.95, 7)
    rows = []
    for task in range(60):
        for worker in rng.choice(7, 5, replace=False).tolist():
            right = rng.random() < accuracy[worker]
            label = labels[int(truth[task] if right else 1 - truth[task])]
            rows.append([task if whole_ids else f"task {task}", worker if whole_ids else f"worker {worker}", label])
    gold = [[task if whole_ids else f"task {task}", labels[int(1 - truth[task])]] for task in range(8)]
    weights = [[worker if whole_ids else f"worker {worker}", p] for worker, p in enumerate(accuracy.tolist())]
    return {"rows": rows, "gold": gold, "weights": weights}


@pytest.fixture(scope="module")
def found(crowd_kit, tmp_path_factory):
    """What the script writes: with crowd-kit, and with crowdcore."""
    folder = tmp_path_factory.mktemp("dialect")
    labels = {"str": ["no", "yes"], "int": [0, 1], "bool": [False, True], "float": [0.0, 1.5], "ids": ["a", "b"]}
    crowds = {case: made_crowd(labels[case], whole_ids=case == "ids") for case in CASES}
    theirs = crowd_kit(SCRIPT, crowds, folder)
    text = SCRIPT.read_text(encoding="utf-8")
    for before, after in IMPORTS.items():
        assert text.count(f"from {before} import") == 1
        text = text.replace(f"from {before} import", f"from {after} import")
    assert "from crowdkit" not in text
    (folder / "script.py").write_text(text, encoding="utf-8")
    command = [sys.executable, str(folder / "script.py"), str(folder / "given.json"), str(folder / "ours.json")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stderr
    return theirs, json.loads((folder / "ours.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_names_index_names_and_types_are_the_same(found, case):
    theirs, ours = (each[case] for each in found)
    assert set(theirs) == set(ours)
    for name, about in theirs.items():
        if not isinstance(about, dict) or "kind" not in about:
            continue
        kept = ["kind", "index", "index types", "columns", "column type", "type", "name"]
        if name in NAMELESS:
            kept.remove("name")
        if name.endswith("errors"):
            kept.remove("column type")
        assert {key: ours[name].get(key) for key in kept} == {key: about.get(key) for key in kept}, name


@pytest.mark.parametrize("case", CASES)
def test_answers_and_numbers_are_the_same(found, case):
    theirs, ours = (each[case] for each in found)
    for name, about in theirs.items():
        if name == "kos labels":  # random starts; the crowd is clear enough for both to agree nearly everywhere
            same = [about["cells"][task] == answer for task, answer in ours[name]["cells"].items()]
            assert np.mean(same) > 0.9
        elif name == "ds rounds":
            assert ours[name] == about == 10
        elif "value" in about:
            assert ours[name]["value"] == pytest.approx(about["value"], abs=1e-9), name
        elif name.endswith("errors"):
            for key, cell in about["cells"].items():
                assert ours[name]["cells"][key] == pytest.approx(cell, abs=1e-6), (name, key)
        else:
            assert ours[name]["cells"] == pytest.approx(about["cells"], abs=1e-6), name


def test_the_comparison_tells_gold_and_weights_from_none(found):
    for each in found:
        assert each["str"]["ds gold"]["cells"] != each["str"]["ds probas"]["cells"]
        assert each["str"]["mv weighted"]["cells"] != each["str"]["mv probas"]["cells"]
        assert each["str"]["consistency of skills"] != each["str"]["consistency"]
