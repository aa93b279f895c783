"""What fitted workers say about new labels: who is unknown, what bounds and weights they keep."""

import numpy as np
import pandas as pd
import pytest
from frame_kinds import as_pandas

from crowdcore.estimators import DawidSkene, MajorityVote, OneCoinDawidSkene, ProjectedGradient
from crowdcore.simulate import simulate_crowd


@pytest.fixture
def frame(mixed_crowd):
    return as_pandas(mixed_crowd[0])


@pytest.mark.parametrize("method", [DawidSkene, OneCoinDawidSkene, ProjectedGradient])
def test_the_label_of_an_unknown_worker_moves_no_probability(method, frame):
    fitted = method().fit(frame)
    asked = frame.head(3).assign(task="new")
    stranger = pd.DataFrame({"task": ["new"], "worker": ["stranger"], "label": [frame["label"].iloc[0]]})
    with_stranger = fitted.predict_proba(pd.concat([asked, stranger], ignore_index=True))
    assert np.allclose(with_stranger, fitted.predict_proba(asked))


def test_an_unknown_worker_has_the_default_skill_in_a_weighted_vote():
    labels = pd.DataFrame({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "label": ["yes", "no", "yes"]})
    new = pd.DataFrame({"task": ["c", "c"], "worker": ["ann", "stranger"], "label": ["yes", "no"]})
    for default, answer, share in ((3.0, "no", 0.75), (0.5, "yes", 1 / 3)):
        vote = MajorityVote(default_skill=default, on_missing_skill="value").fit(labels, skills={"ann": 1.0})
        assert vote.predict(new)["c"] == answer
        assert vote.predict_proba(new).loc["c", "no"] == pytest.approx(share)


@pytest.mark.parametrize("tau", [0.5, 3.0])
def test_workers_who_are_always_wrong_keep_the_bound_of_their_fit(tau):
    # With three classes a skill below −1/2 stands for no accuracy; what it counts for depends on the worker's bound.
    rng = np.random.default_rng(2)
    crowd = simulate_crowd(n_tasks=60, n_workers=9, labels_per_task=6, n_classes=3, skills="fixed:0.9", rng=rng)
    wrong = np.where(crowd.worker == 0, (crowd.truth[crowd.task] + 1) % 3, crowd.label)
    frame = pd.DataFrame({"task": crowd.task, "worker": crowd.worker, "label": wrong})
    fitted = ProjectedGradient(tau=tau).fit(frame)
    assert fitted.skills_[0] < -0.3
    assert np.allclose(fitted.predict_proba(frame), fitted.probas_, atol=1e-12)
