"""Every method on a data frame, in the dialect of crowd-kit.

Each takes `repeats`: which of several labels of a worker on a task counts, "last", "first", or "error" for none if they
contradict each other. `crowdcore.fitted.Estimator` has what all have in common, docs/python.md a page on all of it.

>>> labels = [("t1", "ann", "yes"), ("t1", "bob", "yes"), ("t1", "cem", "no"), ("t2", "ann", "no"), ("t2", "bob", "no")]
>>> ProjectedGradient().fit_predict(labels)
{'task': array(['t1', 't2'], dtype=object), 'agg_label': array(['yes', 'no'], dtype=object)}
>>> MajorityVote().fit(labels).accuracies_["accuracy"]
array([1., 1., 0.])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.dawid_skene import dawid_skene
from crowdcore.baselines.ddkr import ddkr_skills
from crowdcore.baselines.ghosh import ghosh
from crowdcore.baselines.gold_dawid_skene import dawid_skene_with_gold
from crowdcore.baselines.kos import kos
from crowdcore.baselines.one_coin import one_coin_confusion, one_coin_dawid_skene
from crowdcore.baselines.opt_dawid_skene import opt_dawid_skene
from crowdcore.baselines.oracle import oracle_vote
from crowdcore.baselines.triangle import triangle_skills
from crowdcore.baselines.weighted_majority import weighted_majority
from crowdcore.confusion import pgd_confusion
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.fitted import Estimator, Fitted
from crowdcore.frames import CodedLabels, code_labels, known_values
from crowdcore.labels import Ints, TaskLabels
from crowdcore.methods import by_code, pair_counts
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


@dataclass
class DawidSkene(Estimator):
    """A confusion matrix for each worker, by expectation and maximisation; see `crowdcore.baselines.dawid_skene`.

    Gold, as in crowd-kit, sets the probabilities of its tasks before the first and after every expectation step.

    Attributes:
        n_iter: at most so many rounds.
        tol: the rounds end when the loss falls by less than this.
        initial_error_strategy: crowd-kit's; it takes None only.
    """

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: str | None = None
    repeats: str = "last"

    _takes_gold = True

    def fit(self, data: Any, true_labels: Any = None, initial_error: Any = None) -> "DawidSkene":
        """Fits to labels; `initial_error`, crowd-kit's, is refused."""
        if initial_error is not None or self.initial_error_strategy is not None:
            raise InvalidOptionError("DawidSkene starts from majority vote; it takes no initial_error and no strategy")
        return super().fit(data, true_labels)

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        if gold is None:
            return dawid_skene(labels, n_rounds=self.n_iter, tol=self.tol)
        return dawid_skene_with_gold(labels, gold, n_rounds=self.n_iter, tol=self.tol)


@dataclass
class OneCoinDawidSkene(Estimator):
    """Dawid-Skene with one accuracy a worker; see `crowdcore.baselines.one_coin`.

    Attributes:
        n_iter: at most so many rounds.
        tol: the rounds end when the loss falls by less than this.
    """

    n_iter: int = 100
    tol: float = 1e-5
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        found = one_coin_dawid_skene(labels, n_rounds=self.n_iter, tol=self.tol)
        return replace(found, confusion=one_coin_confusion(found.accuracies, labels.n_classes))


@dataclass
class OptDawidSkene(Estimator):
    """Dawid-Skene from a spectral start, by three groups of workers; see `crowdcore.baselines.opt_dawid_skene`.

    Attributes:
        n_iter: at most so many rounds after the start.
        tol: the rounds end when the loss falls by less than this.
        random_state: of the groups.
    """

    n_iter: int = 10
    tol: float = 1e-5
    random_state: int = 0
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        rng = np.random.default_rng(self.random_state)
        return opt_dawid_skene(labels, rng=rng, n_rounds=self.n_iter, tol=self.tol)


@dataclass
class KOS(Estimator):
    """Message passing between tasks and workers (Karger, Oh, Shah); see `crowdcore.baselines.kos`.

    Attributes:
        n_iter: how often messages go to and fro.
        random_state: of the first messages.
    """

    n_iter: int = 100
    random_state: int = 0
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        return kos(labels, rng=np.random.default_rng(self.random_state), n_rounds=self.n_iter)


@dataclass
class Ghosh(Estimator):
    """The top eigenvector of the task-task matrix (Ghosh, Kale, McAfee); see `crowdcore.baselines.ghosh`.

    Attributes:
        n_iter: of the power iteration.
        tol: it stops when no weight moves by more than this.
        random_state: of the first weights.
    """

    n_iter: int = 1000
    tol: float = 1e-7
    random_state: int = 0
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        return ghosh(labels, rng=np.random.default_rng(self.random_state), max_rounds=self.n_iter, tol=self.tol)


@dataclass
class DDKR(Estimator):
    """Skills from eigenvectors of agreements and counts (Dalvi et al.), then votes; see `crowdcore.baselines.ddkr`.

    Attributes:
        loss: "counts" or "plain".
        n_iter: of alternating steps, then of Newton's.
        tol: it stops when no skill moves by more than this.
    """

    loss: str = "counts"
    n_iter: int = 100
    tol: float = 1e-10
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        options: dict[str, Any] = {"loss": self.loss, "max_rounds": self.n_iter, "tol": self.tol}
        return _vote_by_pairs(labels, lambda edges: ddkr_skills(edges, n_classes=max(2, labels.n_classes), **options))


@dataclass
class TriangleEstimator(Estimator):
    """Skills from triangles of workers (Bonald, Combes), then weighted votes; see `crowdcore.baselines.triangle`."""

    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        n_classes = max(2, labels.n_classes)
        return _vote_by_pairs(labels, lambda edges: triangle_skills(edges, n_classes=n_classes))


@dataclass
class ProjectedGradientConfusion(Estimator):
    """A few smoothed Dawid-Skene rounds from the answers of projected gradient; see `crowdcore.confusion`.

    Attributes:
        weights: of projected gradient: "identity", "binary", "squared" or "saturating".
        smoothing: added to every cell of the counts.
        n_iter: so many rounds.
        random_state: of the random starts.
    """

    weights: str = "identity"
    smoothing: float = 1.0
    n_iter: int = 10
    random_state: int = 0
    repeats: str = "last"

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        options: dict[str, Any] = {"weights": self.weights, "smoothing": self.smoothing, "n_rounds": self.n_iter}
        return pgd_confusion(labels, rng=np.random.default_rng(self.random_state), **options)


def _vote_by_pairs(labels: TaskLabels, find: Callable[[EdgeCounts], Floats]) -> Aggregation:
    """Weighted votes with the skills that `find` reads off the pair counts."""
    edges = pair_counts(labels)
    return oracle_vote(labels, by_code(find(edges), edges, labels.n_workers))
