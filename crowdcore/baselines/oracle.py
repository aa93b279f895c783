"""The log-odds vote with known skills: the best that can be done with one coin a worker.

A worker of skill s who says k adds to the score of k, with K classes,

    w(s) = log((1 + (K − 1) s) / (1 − s)),      P(k) ∝ π_k exp(score(k)).

With the true skills no rule errs less (Nitzan and Paroush, "Optimal Decision Rules in Uncertain Dichotomous Choice
Situations", International Economic Review 23, 1982; K = 2 gives their weights log(p / (1 − p))). With estimated skills
it is the plug-in vote of the paper. A skill of ±1 would weigh without limit; it counts as ±(1 − 10⁻⁹). Of equal scores
the class with more votes wins, then the one with the smallest code.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0], [0, 1, 2], [1, 0, 0], n_tasks=1, n_workers=3, n_classes=2)
>>> found = oracle_vote(crowd.labels, [0.9, 0.2, 0.2])  # odds 19 for 1; 1.5 · 1.5 for 0
>>> found.answer, found.probabilities.round(4)
(array([1]), array([[0.1059, 0.8941]]))
"""

import numpy as np
from numpy.typing import ArrayLike

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.errors import InvalidLabelsError
from crowdcore.labels import TaskLabels
from crowdcore.scores import score_tasks, vote_weights
from crowdcore.weights import Floats

_MOST = 1 - 1e-9


def oracle_vote(
    labels: TaskLabels,
    skills: ArrayLike,
    *,
    bounds: ArrayLike | None = None,
    class_prior: ArrayLike | None = None,
    rule: str = "one-coin",
    loss_history: tuple[float, ...] = (),
    converged: bool = True,
) -> Aggregation:
    """Answers from skills.

    Args:
        labels: what was said.
        skills: (workers,) the skills, s in [−1, 1].
        bounds: (workers,) how far from 0 they may be; 1 − 10⁻⁹ when not given.
        class_prior: (classes,) how frequent the classes are, above 0; all alike when not given.
        rule: "one-coin" or "one-vs-rest", as `vote_weights` has them.
        loss_history: of the way the skills were found, to hand on.
        converged: whether that way came to its end, to hand on.
    """
    given = np.asarray(skills, np.float64)
    if given.shape != (labels.n_workers,):
        raise InvalidLabelsError(f"skills has shape {given.shape}; there are {labels.n_workers} workers")
    most = np.full(labels.n_workers, _MOST) if bounds is None else np.minimum(np.asarray(bounds, np.float64), _MOST)
    used: Floats = np.clip(given, -most, most)
    prior = None if class_prior is None else np.asarray(class_prior, np.float64)
    n_classes = labels.n_classes
    if n_classes < 2 or labels.n_tasks == 0:
        sure = np.full((labels.n_tasks, n_classes), 1 / max(n_classes, 1))
        return Aggregation.of(sure, given, prior, loss_history=loss_history, converged=converged)
    weights = vote_weights(used, most, n_classes, rule)
    found = score_tasks(labels, weights, n_classes=n_classes, rule=rule, class_prior=prior, probabilities=True)
    probabilities = np.zeros((0, n_classes)) if found.probabilities is None else found.probabilities
    even = np.full(n_classes, 1 / n_classes)
    return Aggregation(
        found.answer, probabilities, given, even if prior is None else prior,
        loss_history=loss_history, converged=converged,
    )  # fmt: skip
