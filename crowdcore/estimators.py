"""Every method on a data frame, in the dialect of crowd-kit.

>>> labels = [("t1", "ann", "yes"), ("t1", "bob", "yes"), ("t1", "cem", "no"), ("t2", "ann", "no"), ("t2", "bob", "no")]
>>> ProjectedGradient().fit_predict(labels)
{'task': array(['t1', 't2'], dtype=object), 'agg_label': array(['yes', 'no'], dtype=object)}
>>> MajorityVote().fit(labels).accuracies_["accuracy"]
array([1., 1., 0.])
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.weighted_majority import weighted_majority
from crowdcore.errors import InvalidOptionError
from crowdcore.fitted import Estimator, Fitted
from crowdcore.frames import CodedLabels, code_labels, known_values
from crowdcore.labels import Ints, TaskLabels
from crowdcore.projected_gradient import projected_gradient, skill_bounds, weighted_vote
from crowdcore.weights import Floats


@dataclass
class ProjectedGradient(Estimator):
    """Skills that explain how often each two workers agree, then weighted votes; see `crowdcore.pgd`.

    Gold is a worker that is always right, and its answers stand.

    Attributes:
        weights: how much a pair of workers counts: "identity", "binary", "squared" or "saturating".
        saturation: of the saturating weights.
        solver: "newton", or "paper" for the paper's update.
        start: "auto", "half", "spectral", "tree" or "random".
        tau: how far skills stay away from ±1, in standard errors of a guess.
        multiclass: "one-coin" or "one-vs-rest".
        tol, n_iter: the solver stops when no worker would move by more than `tol`, or after `n_iter` rounds; None is
            its own default.
        random_state: of the random starts.
        repeats: which label of a worker on a task counts: "last", "first" or "error".
    """

    weights: str = "identity"
    saturation: float = 10.0
    solver: str = "newton"
    start: str = "auto"
    tau: float = 1.0
    multiclass: str = "one-coin"
    tol: float = 1e-10
    n_iter: int | None = None
    random_state: int = 0
    repeats: str = "last"

    _takes_gold = True

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        return projected_gradient(
            labels, gold=gold, rule=self.multiclass, weights=self.weights, saturation=self.saturation,
            solver=self.solver, start=self.start, tau=self.tau, tol=self.tol, max_rounds=self.n_iter,
            rng=np.random.default_rng(self.random_state),
        )  # fmt: skip

    def _answer(self, labels: TaskLabels, fitted: Fitted) -> Aggregation:
        bounds = np.append(skill_bounds(fitted.coded.labels, self.tau), 0.0)
        return weighted_vote(labels, np.append(fitted.found.skills, 0.0), bounds, rule=self.multiclass)


@dataclass
class MajorityVote(Estimator):
    """The class with the most labels, or with `skills` the greatest weight; ties go to the class that sorts first.

    A probability is the share of the labels; an accuracy is how often a worker gave the answer. Gold answers stand.

    Attributes:
        default_skill: weight of a worker that `skills` does not have, with ``on_missing_skill="value"``.
        on_missing_skill: "error", "ignore" (their labels do not count) or "value".
        repeats: which label of a worker on a task counts: "last", "first" or "error".
    """

    default_skill: float | None = None
    on_missing_skill: str = "error"
    repeats: str = "last"

    _takes_gold = True
    _weights = None

    def fit(self, data: Any, skills: Any = None, true_labels: Any = None) -> "MajorityVote":  # type: ignore[override]
        """Fits to labels.

        Args:
            data: the labels.
            skills: what the vote of each worker weighs, at least 0: a pandas Series indexed by worker, a dict, or a
                frame with the columns `worker` and `skill`. One each when not given.
            true_labels: known answers of some tasks, as for other estimators.
        """
        coded = code_labels(data, self.repeats)
        self._weights = None if skills is None else self._weights_from(known_values(skills, "worker"), coded)
        return self._fit_coded(coded, true_labels)

    def _weights_from(self, skills: Mapping[Any, Any], coded: CodedLabels) -> Floats:
        """(workers,) weights, NaN for workers whose labels do not count."""
        if self.on_missing_skill not in ("error", "ignore", "value"):
            raise InvalidOptionError(f"on_missing_skill is {self.on_missing_skill!r}; it takes error, ignore or value")
        if (self.default_skill is None) == (self.on_missing_skill == "value"):
            raise InvalidOptionError("default_skill goes with on_missing_skill='value', and only with it")
        otherwise = np.nan if self.default_skill is None else self.default_skill
        workers = coded.frames.values(coded.workers)
        weights = np.array([skills.get(worker, otherwise) for worker in workers], np.float64)
        n_unknown = int(np.isnan(weights).sum())
        if n_unknown and self.on_missing_skill == "error":
            raise InvalidOptionError(f"{n_unknown} workers have no skill; give one for each, or set on_missing_skill")
        return weights

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        return weighted_majority(labels, self._weights, gold=gold)

    def _answer(self, labels: TaskLabels, fitted: Fitted) -> Aggregation:
        weights = None if self._weights is None else np.append(self._weights, self.default_skill or 0.0)
        return weighted_majority(labels, weights)
