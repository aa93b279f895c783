"""What every estimator has in common: `fit` on a frame, then results in frames of the same kind.

A result is made when it is asked for, so that `fit_predict` does not pay for probabilities of every class. Names, index
names and layouts are those of crowd-kit 1.4; where a library has no index, the index comes as columns in front.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.agreement import bounds_of
from crowdcore.baselines.dawid_skene import e_step
from crowdcore.baselines.oracle import oracle_vote
from crowdcore.errors import InvalidOptionError, NotFittedError
from crowdcore.frames import CodedLabels, code_labels
from crowdcore.frames.coded import in_codes_of
from crowdcore.frames.known import gold_codes
from crowdcore.labels import Ints, TaskLabels

_LEAST = 1e-10

Fitting = TypeVar("Fitting", bound="Estimator")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Labels as they were given and what a method made of them."""

    coded: CodedLabels
    found: Aggregation
    rejects: dict[str, int]


class Estimator:
    """A method on data frames; a subclass holds its settings and says how it aggregates.

    Data are a long frame with the columns `task`, `worker` and `label`: of pandas, polars or Arrow, or a dict of
    columns, or a list of (task, worker, label). Rows that lack one of them are left out and counted. Tasks, workers
    and classes come out sorted, in the types they came in.
    """

    repeats: str
    _takes_gold = False
    _fitted: Fitted | None = None

    def _aggregate(self, labels: TaskLabels, gold: Ints | None) -> Aggregation:
        """The method itself, on at least one label; `gold` is (tasks,) class codes, -1 where unknown."""
        raise NotImplementedError

    def fit(self: Fitting, data: Any, true_labels: Any = None) -> Fitting:
        """Fits to labels.

        Args:
            data: the labels.
            true_labels: known answers of some tasks: a pandas Series indexed by task, a dict from task to label, or a
                frame with the columns `task` and `label`.
        """
        return self._fit_coded(code_labels(data, self.repeats), true_labels)

    def fit_predict(self, data: Any, *known: Any, **named: Any) -> Any:
        """Fits, with the arguments of `fit`, and gives `labels_`."""
        return self.fit(data, *known, **named).labels_

    def fit_predict_proba(self, data: Any, *known: Any, **named: Any) -> Any:
        """Fits, with the arguments of `fit`, and gives `probas_`."""
        return self.fit(data, *known, **named).probas_

    def _fit_coded(self: Fitting, coded: CodedLabels, true_labels: Any) -> Fitting:
        gold, rejects = None, dict(coded.rejects)
        if true_labels is not None:
            if not self._takes_gold:
                raise InvalidOptionError(
                    f"{type(self).__name__} cannot use true_labels; ProjectedGradient, MajorityVote and DawidSkene can"
                )
            gold, unused = gold_codes(coded, true_labels)
            rejects |= unused
        found = self._aggregate(coded.labels, gold) if len(coded.labels.label) else _nothing(coded)
        self._fitted = Fitted(coded, found, rejects)
        return self

    def predict(self, data: Any) -> Any:
        """Answers to tasks, new ones too, from what was found out about the workers; laid out as `labels_`.

        A worker who was not there when it was fitted has no weight, but in majority vote without weights; a label that
        was not there is left out.
        """
        coded, tasks, found = self._applied(data)
        answers = coded.frames.take(self._results.coded.classes, found.answer)
        return coded.frames.series(answers, "agg_label", "task", tasks)

    def predict_proba(self, data: Any) -> Any:
        """As `predict`, laid out as `probas_`."""
        coded, tasks, found = self._applied(data)
        return coded.frames.matrix(found.probabilities, self._results.coded.classes, "label", {"task": tasks})

    @property
    def _results(self) -> Fitted:
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit with labels first")
        return self._fitted

    @property
    def labels_(self) -> Any:
        """The answers: a Series `agg_label` indexed by `task`."""
        coded, found = self._results.coded, self._results.found
        answers = coded.frames.take(coded.classes, found.answer)
        return coded.frames.series(answers, "agg_label", "task", coded.tasks)

    @property
    def probas_(self) -> Any:
        """The probability of each class: a frame indexed by `task`, a column a class."""
        coded, found = self._results.coded, self._results.found
        return coded.frames.matrix(found.probabilities, coded.classes, "label", {"task": coded.tasks})

    @property
    def skills_(self) -> Any:
        """Skills (K p − 1)/(K − 1) in [−1, 1], p the chance of being right: a Series `skill` indexed by `worker`."""
        coded = self._results.coded
        return coded.frames.series(self._results.found.skills, "skill", "worker", coded.workers)

    @property
    def accuracies_(self) -> Any:
        """Probabilities of being right: a Series `accuracy` indexed by `worker`."""
        coded = self._results.coded
        return coded.frames.series(self._results.found.accuracies, "accuracy", "worker", coded.workers)

    @property
    def priors_(self) -> Any:
        """How frequent the method takes each class to be: a Series `prior` indexed by `label`."""
        coded = self._results.coded
        return coded.frames.series(self._results.found.prior, "prior", "label", coded.classes)

    @property
    def errors_(self) -> Any:
        """Confusion matrices: indexed by `worker` and `label`, the label given; a column for each true class."""
        coded, confusion = self._results.coded, self._results.found.confusion
        if confusion is None:
            raise NotFittedError(f"{type(self).__name__} has no confusion matrices; skills_ tells what it found")
        n_workers, n_classes = confusion.shape[:2]
        by = {
            "worker": coded.frames.take(coded.workers, np.repeat(np.arange(n_workers), n_classes)),
            "label": coded.frames.take(coded.classes, np.tile(np.arange(n_classes), n_workers)),
        }
        given_truth = confusion.transpose(0, 2, 1).reshape(-1, n_classes)
        return coded.frames.matrix(given_truth, coded.classes, None, by)

    @property
    def loss_history_(self) -> list[float]:
        """What the method minimises, after each round; empty where it minimises nothing."""
        return list(self._results.found.loss_history)

    @property
    def converged_(self) -> bool:
        """Whether the method ended by itself, not because its rounds were used up."""
        return self._results.found.converged

    @property
    def rejects_(self) -> dict[str, int]:
        """How many rows were left out, by reason."""
        return dict(self._results.rejects)

    @property
    def n_rejected_(self) -> int:
        """How many rows were left out because something was wrong with them."""
        return sum(self._results.rejects.values())

    @property
    def n_repeated_(self) -> int:
        """How many rows were left out because another label of the same worker on the same task counts."""
        return self._results.coded.n_repeated

    def _applied(self, data: Any) -> tuple[CodedLabels, Any, Aggregation]:
        """New labels, the ids of their tasks, and what the fitted workers make of them."""
        fitted = self._results
        coded = code_labels(data, self.repeats)
        tasks, labels = in_codes_of(fitted.coded, coded)
        return coded, tasks, self._answer(labels, fitted) if len(labels.label) else _nothing(fitted.coded)

    def _answer(self, labels: TaskLabels, fitted: Fitted) -> Aggregation:
        """The answers of the fitted workers; the last worker code stands for all who are unknown."""
        found, n_classes = fitted.found, labels.n_classes
        if found.confusion is not None:
            unknown = np.full((1, n_classes, n_classes), 1 / n_classes)
            confusion = np.maximum(np.concatenate([found.confusion, unknown]), _LEAST)
            return Aggregation.of(e_step(labels, confusion, np.maximum(found.prior, _LEAST)), found.skills)
        bounds = np.append(bounds_of(fitted.coded.labels), 0.0)
        return oracle_vote(labels, np.append(found.skills, 0.0), bounds=bounds)


def _nothing(coded: CodedLabels) -> Aggregation:
    """No tasks."""
    n_classes = len(coded.classes)
    return Aggregation.of(np.zeros((0, n_classes)), np.zeros(0))
