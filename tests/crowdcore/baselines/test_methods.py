"""What every method keeps to, whatever the crowd."""

import numpy as np
import pytest

from crowdcore import options
from crowdcore.labels import group_labels
from crowdcore.methods import METHODS
from crowdcore.simulate import simulate_crowd


def grouped(task, worker, label, n_tasks, n_workers, n_classes):
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": n_classes}
    return group_labels(np.array(task, int), np.array(worker, int), np.array(label, int), **sizes).labels


AWKWARD = {
    "empty": grouped([], [], [], 0, 0, 0),
    "no labels": grouped([], [], [], 3, 2, 2),
    "one label": grouped([0], [0], [1], 1, 1, 2),
    "one label a task": grouped([0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 1, 0], 4, 2, 2),
    "one class": grouped([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], 2, 2, 1),
    "one class of three used": grouped([0, 0, 1, 1], [0, 1, 0, 1], [2, 2, 2, 2], 2, 2, 3),
    "a task without labels": grouped([0, 0, 2, 2], [0, 1, 0, 1], [0, 0, 1, 0], 3, 2, 2),
    "a worker without labels": grouped([0, 0, 1, 1], [0, 2, 0, 2], [0, 0, 1, 1], 2, 3, 2),
    "all contradict": grouped([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], 2, 2, 2),
    "two parts": grouped([0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 3, 4], [0, 0, 1, 1, 1, 1, 2, 2], 3, 5, 3),
}


def test_options_names_every_method():
    assert tuple(METHODS) == options.METHODS


@pytest.mark.parametrize("crowd", AWKWARD)
@pytest.mark.parametrize("name", METHODS)
def test_awkward_crowds_have_a_whole_outcome(name, crowd):
    labels = AWKWARD[crowd]
    found = METHODS[name](labels, rng=np.random.default_rng(0))
    shape = (labels.n_tasks, labels.n_classes)
    assert found.probabilities.shape == shape
    assert np.all(np.isfinite(found.probabilities))
    assert np.all(np.isfinite(found.skills))
    assert np.all(np.abs(found.skills) <= 1)
    assert found.skills.shape == (labels.n_workers,)
    if labels.n_classes:
        assert found.answer.shape == (labels.n_tasks,)
        assert np.allclose(found.probabilities.sum(axis=1), 1)
        chosen = found.probabilities[np.arange(labels.n_tasks), found.answer]
        assert np.allclose(chosen, found.probabilities.max(axis=1, initial=0))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_good_crowds_are_answered_well_whatever_the_codes_are(name, n_classes):
    rng = np.random.default_rng(3)
    crowd = simulate_crowd(
        n_tasks=400, n_workers=12, labels_per_task=8, n_classes=n_classes, skills="uniform:0.4,0.9", rng=rng
    )
    renamed, reclassed = rng.permutation(12), rng.permutation(n_classes)
    plain = METHODS[name](crowd.grouped(), rng=np.random.default_rng(0))
    sizes = (400, 12, n_classes)
    turned = METHODS[name](
        grouped(crowd.task, renamed[crowd.worker], reclassed[crowd.label], *sizes), rng=np.random.default_rng(0)
    )
    assert np.mean(plain.answer != crowd.truth) < 0.06
    assert np.mean(reclassed[plain.answer] != turned.answer) <= 0.02  # ties go by code; starts are random
    assert np.max(np.abs(turned.skills[renamed] - plain.skills)) < 0.05
    assert np.corrcoef(plain.skills, crowd.skills)[0, 1] > 0.8
