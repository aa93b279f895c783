"""Majority vote: the class with the most labels.

Ties go to the class that sorts first, which is the one with the smallest code; `expected_error` says what breaking
them at random would give.

>>> from crowdcore.labels import group_labels
>>> crowd = group_labels([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1, 1, 0, 1, 0], n_tasks=2, n_workers=3, n_classes=2)
>>> vote = majority_vote(crowd.labels)
>>> vote.answer, vote.tied
(array([1, 0]), array([False,  True]))
>>> vote.expected_error([1, 1])
0.25
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.errors import InvalidLabelsError
from crowdcore.labels import Ints, TaskLabels

# A table of tasks by classes is made while it has at most this many cells a label.
_DENSE_CELLS = 4


@dataclass(frozen=True, eq=False)
class Votes:
    """How many labels each class got on each task, where it got any; sorted by task, then class.

    Attributes:
        task, label, count: (votes,) task code, class code, labels.
        leads: (votes,) whether no class of the task has more.
    """

    task: Ints
    label: Ints
    count: Ints
    leads: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MajorityVote:
    """The answers of majority vote.

    Attributes:
        answer: (tasks,) class code; -1 for a task without labels.
        tied: (tasks,) whether several classes lead.
        votes: the labels of each task and class.
    """

    answer: Ints
    tied: NDArray[np.bool_]
    votes: Votes

    def expected_error(self, truth: ArrayLike) -> float:
        """Exact expectation of the share of wrong answers when each tie is broken uniformly at random.

        Args:
            truth: (tasks,) class codes; -1 where unknown: the task is left out. A task without labels is wrong.
        """
        known = np.asarray(truth)
        if known.shape != self.answer.shape:
            raise InvalidLabelsError(f"truth has shape {known.shape}; there are {len(self.answer)} tasks")
        if not np.any(known >= 0):
            raise InvalidLabelsError("no task has a known truth, so there is nothing to compare with")
        leaders = np.bincount(self.votes.task[self.votes.leads], minlength=len(known))
        right = self.votes.leads & (self.votes.label == known[self.votes.task])
        return float(1 - np.sum(1 / leaders[self.votes.task[right]]) / np.sum(known >= 0))


def majority_vote(labels: TaskLabels) -> MajorityVote:
    """Answers each task with the class that got the most labels."""
    votes = count_votes(labels)
    leading = votes.task[votes.leads]
    first = np.flatnonzero(np.diff(leading, prepend=-1))
    answer = np.full(labels.n_tasks, -1, np.int64)
    answer[leading[first]] = votes.label[votes.leads][first]
    return MajorityVote(answer, np.bincount(leading, minlength=labels.n_tasks) > 1, votes)


def count_votes(labels: TaskLabels) -> Votes:
    """Counts the labels of each class on each task; a table of tasks by classes only where it would be well filled."""
    cells = labels.task * labels.n_classes + labels.label
    if labels.n_tasks * labels.n_classes <= _DENSE_CELLS * len(cells):
        table = np.bincount(cells)
        cell = np.flatnonzero(table)
        count = table[cell]
    else:
        cell, count = np.unique(cells, return_counts=True)
    task, label = np.divmod(cell, max(labels.n_classes, 1))
    most = np.zeros(labels.n_tasks, np.int64)
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    most[task[starts]] = np.maximum.reduceat(count, starts) if len(starts) else 0
    return Votes(task, label, count, count == most[task])
