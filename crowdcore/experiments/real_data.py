"""The paper's table of real datasets: the share of wrong answers of every method on RTE1, Temp, Dogs and Web.

Majority vote's error is the exact expectation over its ties; the other methods break theirs by a stated rule. Methods
that draw lots (KOS its first messages, Opt-D&S its groups) run several times, and the mean counts. "PGD" is the default
of `fit_skills` with the one-coin vote; "PGD, one-vs-rest" votes as the paper does with more than two classes; "PGD,
saturating" weighs pairs by N / (1 + N / 10).

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 1, 0, 1, 0], n_tasks=2, n_workers=3, n_classes=2)
>>> compare_methods({"tiny": Dataset(crowd.labels, np.array([1, 1]))}, 1, np.random.default_rng(0)).at("tiny", "MV")
array([0.25])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from crowdcore.baselines.majority import majority_vote
from crowdcore.errors import InvalidLabelsError
from crowdcore.experiments.trials import ErrorTable, Run
from crowdcore.labels import Ints, TaskLabels
from crowdcore.methods import METHODS, by_code, pair_counts
from crowdcore.pgd import fit_skills
from crowdcore.scores import score_tasks, vote_weights
from crowdcore.weights import Floats

DATASETS = ("rte1", "temp", "dogs", "web")
DRAWS = 10
# Table 2 of the paper; it gives three of KOS's errors in per cent.
PAPER = {
    "rte1": {"MV": 0.1031, "Opt-D&S": 0.0712, "KOS": 0.3975, "PGD": 0.0700},
    "temp": {"MV": 0.0639, "Opt-D&S": 0.0584, "KOS": 0.0628, "PGD": 0.0540},
    "dogs": {"MV": 0.1958, "Opt-D&S": 0.1689, "KOS": 0.3172, "PGD": 0.1660},
    "web": {"MV": 0.2693, "Opt-D&S": 0.1586, "KOS": 0.4293, "PGD": 0.1623},
}
_VARIANTS = {
    "PGD": ("identity", "one-coin"),
    "PGD, one-vs-rest": ("identity", "one-vs-rest"),
    "PGD, saturating": ("saturating", "one-coin"),
}
_NAMES = {"Opt-D&S": "opt-dawid-skene", "KOS": "kos"}
_MORE = tuple(name for name in METHODS if name not in ("majority", "pgd", *_NAMES.values()))
COLUMNS = ("MV", "Opt-D&S", "KOS", *_VARIANTS, *_MORE)
_BY_CHANCE = ("kos", "opt-dawid-skene")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Real labels.

    Attributes:
        labels: one per (task, worker).
        truth: (tasks,) class codes, −1 where not known.
    """

    labels: TaskLabels
    truth: Ints

    def error(self, answer: Ints) -> float:
        """The share of wrong answers among the tasks with a known truth."""
        known = self.truth >= 0
        if not known.any():
            raise InvalidLabelsError("no task has a known truth, so there is nothing to compare with")
        return float(np.mean(answer[known] != self.truth[known]))


def compare_methods(
    datasets: Mapping[str, Dataset], n_draws: int, rng: np.random.Generator, run: Run = map
) -> ErrorTable:
    """The error of every method on every dataset, of `n_draws` runs where chance plays a part, else of one."""
    jobs = [(data, column) for data in datasets.values() for column in COLUMNS]
    found = run(_try_method, [(*job, n_draws, stream) for job, stream in zip(jobs, rng.spawn(len(jobs)), strict=True)])
    errors = np.stack(list(found)).reshape(len(datasets), len(COLUMNS), n_draws)
    return ErrorTable(tuple(datasets), COLUMNS, errors)


def _try_method(piece: tuple[Dataset, str, int, np.random.Generator]) -> Floats:
    """(draws,) errors of one method on one dataset."""
    data, column, n_draws, rng = piece
    if column == "MV":
        return np.full(n_draws, majority_vote(data.labels).expected_error(data.truth))
    if column in _VARIANTS:
        return np.full(n_draws, data.error(_vote_with_pgd(data.labels, *_VARIANTS[column])))
    name = _NAMES.get(column, column)
    answer: Callable[[], Ints] = lambda: METHODS[name](data.labels, rng=rng).answer  # noqa: E731
    if name in _BY_CHANCE:
        return np.array([data.error(answer()) for _ in range(n_draws)])
    return np.full(n_draws, data.error(answer()))


def _vote_with_pgd(labels: TaskLabels, weights: str, rule: str) -> Ints:
    edges = pair_counts(labels)
    fit = fit_skills(edges, n_classes=labels.n_classes, weights=weights)
    skills, bounds = (by_code(values, edges, labels.n_workers) for values in (fit.skills, fit.bounds))
    votes = vote_weights(skills, bounds, labels.n_classes, rule)
    return score_tasks(labels, votes, n_classes=labels.n_classes, rule=rule).answer
