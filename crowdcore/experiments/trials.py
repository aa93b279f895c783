"""Many small crowds side by side: the trials of an experiment, drawn and solved at once.

No task and no worker belongs to two trials, so each trial is a part of its own of the worker graph. `fit_skills` takes
the same steps in every part as it would take there alone; one call then solves hundreds of trials.

>>> everyone = np.ones((2, 4, 3), bool)
>>> trials = draw_trials(everyone, np.full((2, 3), 1.0), np.random.default_rng(0))
>>> trials.labels.n_tasks, trials.labels.n_workers, trials.errors(trials.truth)
(8, 6, array([0., 0.]))
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdcore.edges import EdgeCounts
from crowdcore.labels import Ints, TaskLabels
from crowdcore.pgd import fit_skills
from crowdcore.scores import score_tasks, vote_weights
from crowdcore.weights import Floats

CLASSES = ("0", "1")
# Trials of one piece of work: few enough to share the work out, enough to be solved together.
_PIECE = 50

Flags = NDArray[np.bool_]
Piece = TypeVar("Piece")
Found = TypeVar("Found")
# As `map`: applies a function to pieces of work, in any process, and gives the results in their order.
Run = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Shares of wrong answers, of many trials a cell.

    Attributes:
        rows, columns: their names.
        errors: (rows, columns, trials).

    >>> table = ErrorTable(("30 tasks",), ("MV", "PGD"), np.array([[[0.2, 0.4], [0.1, 0.1]]]))
    >>> table.mean.round(3), table.at("30 tasks", "MV")
    (array([[0.3, 0.1]]), array([0.2, 0.4]))
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    errors: Floats

    @property
    def mean(self) -> Floats:
        """(rows, columns)."""
        return np.asarray(self.errors.mean(axis=2))

    @property
    def std(self) -> Floats:
        """(rows, columns) from trial to trial; with one trial 0."""
        return np.asarray(self.errors.std(axis=2, ddof=min(1, self.n_trials - 1)))

    @property
    def n_trials(self) -> int:
        """How many trials a cell has."""
        return int(self.errors.shape[2])

    def at(self, row: str, column: str) -> Floats:
        """(trials,) the errors of one cell."""
        cell: Floats = self.errors[self.rows.index(row), self.columns.index(column)]
        return cell


@dataclass(frozen=True)
class Trials:
    """Crowds of one size with two classes and a known truth.

    Attributes:
        labels: of all trials; the tasks of a trial are consecutive, and so are its workers.
        truth: (trials · tasks,) class codes.
        skills: (trials, workers) the true skills.
    """

    labels: TaskLabels
    truth: Ints
    skills: Floats

    @property
    def n_trials(self) -> int:
        """How many crowds there are."""
        return len(self.skills)

    @property
    def n_workers(self) -> int:
        """How many workers a crowd has."""
        return int(self.skills.shape[1])

    @property
    def n_tasks(self) -> int:
        """How many tasks a crowd has."""
        return self.labels.n_tasks // self.n_trials

    @cached_property
    def n_labels(self) -> Ints:
        """(trials, workers) how many tasks each worker labelled."""
        return np.bincount(self.labels.worker, minlength=self.skills.size).reshape(self.skills.shape)

    @cached_property
    def edges(self) -> EdgeCounts:
        """The agreements of all trials; workers are named by their codes."""
        return EdgeCounts.of(self.labels, worker_names(self.skills.size), CLASSES)

    def crowd(self, number: int) -> TaskLabels:
        """The labels of one trial, tasks and workers numbered from 0."""
        starts = self.labels.starts[number * self.n_tasks : (number + 1) * self.n_tasks + 1]
        inside = slice(starts[0], starts[-1])
        worker = self.labels.worker[inside] - number * self.n_workers
        return TaskLabels(starts - starts[0], worker, self.labels.label[inside], self.n_workers, len(CLASSES))

    def only(self, assigned: Flags) -> "Trials":
        """The same trials with those labels alone that `assigned`, (trials, tasks, workers), names."""
        task, worker = self.labels.task, self.labels.worker
        kept = assigned[task // self.n_tasks, task % self.n_tasks, worker % self.n_workers]
        starts = np.concatenate([[0], np.cumsum(np.bincount(task[kept], minlength=self.labels.n_tasks))])
        labels = dataclasses.replace(self.labels, starts=starts, worker=worker[kept], label=self.labels.label[kept])
        return dataclasses.replace(self, labels=labels)

    def errors(self, answer: Ints) -> Floats:
        """(trials,) the share of wrong answers."""
        wrong: Floats = np.mean((answer != self.truth).reshape(self.n_trials, -1), axis=1)
        return wrong

    def majority_errors(self) -> Floats:
        """(trials,) the error of majority vote; a tie is half an error, as breaking it at random is on average."""
        balance = np.bincount(self.labels.task, 2 * self.labels.label - 1, self.labels.n_tasks)
        wrong = np.where(balance == 0, 0.5, (balance > 0) != self.truth)
        return np.asarray(wrong.reshape(self.n_trials, -1).mean(axis=1))

    def answers(self, skills: Floats) -> Ints:
        """(trials · tasks,) log-odds votes with the given (trials, workers) skills, inside (−1, 1)."""
        weights = vote_weights(skills.ravel(), np.ones(skills.size), len(CLASSES))
        return score_tasks(self.labels, weights, n_classes=len(CLASSES)).answer


def worker_names(n: int) -> NDArray[Any]:
    """(n,) ids that sort by number."""
    return np.array([f"w{number:07d}" for number in range(n)], object)


def draw_trials(assigned: Flags, skills: Floats, rng: np.random.Generator) -> Trials:
    """Labels by workers with one coin each; both classes are equally frequent.

    Args:
        assigned: (trials, tasks, workers) who labels what.
        skills: (trials, workers).
        rng: where chance comes from.
    """
    n_trials, n_tasks, n_workers = assigned.shape
    truth = rng.integers(2, size=n_trials * n_tasks)
    task, place = np.divmod(np.flatnonzero(assigned), n_workers)
    worker = task // n_tasks * n_workers + place
    right = rng.random(len(task)) < (1 + skills.ravel()[worker]) / 2
    starts = np.zeros(len(truth) + 1, np.int64)
    np.cumsum(assigned.sum(axis=2).ravel(), out=starts[1:])
    label = np.where(right, truth[task], 1 - truth[task])
    return Trials(TaskLabels(starts, worker, label, n_trials * n_workers, len(CLASSES)), truth, skills)


def only_pairs(edges: EdgeCounts, pairs: Flags) -> EdgeCounts:
    """The agreements of those pairs alone that `pairs`, (trials, workers, workers), names."""
    trial, place = np.divmod(codes_of(edges.workers), pairs.shape[1])
    kept = pairs[trial[edges.first], place[edges.first], place[edges.second]]
    return dataclasses.replace(
        edges, first=edges.first[kept], second=edges.second[kept],
        n_common=edges.n_common[kept], n_agree=edges.n_agree[kept],
    )  # fmt: skip


def codes_of(names: NDArray[Any]) -> Ints:
    """The worker codes that `worker_names` has named."""
    return np.array([int(name[1:]) for name in names], np.int64)


def in_rows(trials: Trials, edges: EdgeCounts, skills: Floats) -> Floats:
    """(trials, workers) the skills of the workers of `edges`; 0 for a worker without labels."""
    rows = np.zeros(trials.skills.size)
    rows[codes_of(edges.workers)] = skills
    return rows.reshape(trials.skills.shape)


def pgd_skills(trials: Trials, edges: EdgeCounts, *, weights: str = "identity") -> Floats:
    """(trials, workers) the skills that minimise the paper's loss in every trial; 0 for a worker without labels.

    Of x and −x each trial takes the one with Σ x > 0, the paper's rule.
    """
    return upright(in_rows(trials, edges, fit_skills(edges, n_classes=len(CLASSES), weights=weights).skills))


def upright(skills: Floats) -> Floats:
    """Turns the rows of (trials, workers) skills whose sum is below 0.

    >>> upright(np.array([[0.5, -0.2], [-0.5, 0.2]]))
    array([[ 0.5, -0.2],
           [ 0.5, -0.2]])
    """
    turned = skills.sum(axis=1, keepdims=True) < 0
    return np.where(turned, -skills, skills)


def pieces_of(n_trials: int, size: int = _PIECE) -> list[int]:
    """How many trials each piece of work has.

    >>> pieces_of(120)
    [50, 50, 20]
    """
    return [min(size, n_trials - done) for done in range(0, n_trials, size)]


def share_out(
    work: Callable[[tuple[Piece, int, np.random.Generator]], Found],
    cases: Sequence[Piece],
    n_trials: int,
    rng: np.random.Generator,
    run: Run = map,
    piece: int = _PIECE,
) -> list[list[Found]]:
    """For each case, what `work` makes of each of its pieces of trials.

    Every piece has its own stream of chance, so that the outcome does not depend on who does which piece when.

    Args:
        work: takes (case, how many trials, rng).
        cases: what is to be tried.
        n_trials: of each case.
        rng: where chance comes from.
        run: as `map`.
        piece: how many trials a piece of work has.

    >>> share_out(lambda piece: piece[:2], ["a", "b"], 60, np.random.default_rng(0))
    [[('a', 50), ('a', 10)], [('b', 50), ('b', 10)]]
    """
    sizes = pieces_of(n_trials, piece)
    streams = rng.spawn(len(cases) * len(sizes))
    jobs = [(case, size) for case in cases for size in sizes]
    found = list(run(work, [(*job, stream) for job, stream in zip(jobs, streams, strict=True)]))
    return [found[start : start + len(sizes)] for start in range(0, len(found), len(sizes))]


def shuffled_grid(
    low: float, high: float, shape: tuple[int, int], rng: np.random.Generator, *, strong_hub: bool = False
) -> Floats:
    """(trials, workers) skills evenly spaced from low to high, in a new order each trial.

    Args:
        low: the lowest skill.
        high: the highest skill.
        shape: trials and workers.
        rng: where chance comes from.
        strong_hub: whether the highest skill always goes to worker 0.

    >>> shuffled_grid(0.0, 1.0, (2, 3), np.random.default_rng(0), strong_hub=True)[:, 0]
    array([1., 1.])
    """
    skills = np.tile(np.linspace(low, high, shape[1]), (shape[0], 1))
    if strong_hub:
        return np.concatenate([skills[:, -1:], rng.permuted(skills[:, :-1], axis=1)], axis=1)
    return rng.permuted(skills, axis=1)
