"""What the methods on the task-worker graph share: the coding of labels, one class against the rest, and its way back.

Such a method takes a matrix U of tasks and workers that is rank one but for noise. Two classes are coded ±1. With K
classes there is one matrix a class,

    U^k_ij = 1 where worker j says k on task i,   −1/(K − 1) where another class,   0 where nothing,

for then, with one coin a worker, E U^k_ij = s_j u_i with u_i = 1 where the truth is k and −1/(K − 1) elsewhere: rank
one, as in the binary case (K = 2 gives ±1 again). Plain ±1 would add a constant that drowns the skills when K is large.

A method gives, for each class, a weight y_ij for each label, in any unit; the score is x^k_i = Σ_j U^k_ij y^k_ij. The
way back to probabilities:

1. In each connected part of the task-worker graph the weights of a class are divided by their root mean square, so that
   classes and parts compare. Where they vanish the class has no say.
2. The answer is the class with the highest score; between equals the one with more votes, then the smallest code.
3. Skills are the agreement with the answers (`agreement_skills`).
4. The scores become log-odds by one factor c a part, the least squares fit of the skills' log-odds weights w(s_j) by
   c y_ij, and not below 0: P(k) ∝ exp((K − 1)/K · c x^k), which is logistic(c x) when K = 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.agreement import agreement_skills, skill_bounds
from crowdcore.components import Components, sums_by
from crowdcore.labels import Ints, TaskLabels
from crowdcore.scores import vote_weights
from crowdcore.weights import Floats

_TIED = 1e-9


@dataclass(frozen=True, eq=False)
class TaskWorkerGraph:
    """Tasks and workers joined by labels, with sums over the labels of a task, a worker, a connected part."""

    labels: TaskLabels

    @cached_property
    def _by_task(self) -> sp.csr_array:
        shape = (self.labels.n_tasks, len(self.labels.worker))
        return sp.csr_array((np.ones(shape[1]), np.arange(shape[1]), self.labels.starts), shape=shape)

    @cached_property
    def _by_worker(self) -> sp.csr_array:
        return sums_by(self.labels.worker, self.labels.n_workers)

    @cached_property
    def task(self) -> Ints:
        """(labels,) task codes."""
        return self.labels.task

    @cached_property
    def part(self) -> Ints:
        """(labels,) number of the connected part a label belongs to."""
        nodes = self.labels.n_tasks + self.labels.n_workers
        return Components.of(nodes, self.task, self.labels.worker + self.labels.n_tasks).component[self.task]

    @cached_property
    def _by_part(self) -> sp.csr_array:
        return sums_by(self.part, int(self.part.max(initial=-1)) + 1)

    def task_sums(self, values: Floats) -> Floats:
        """(tasks,) sums of a (labels,) array."""
        sums: Floats = self._by_task @ values
        return sums

    def worker_sums(self, values: Floats) -> Floats:
        """(workers,) sums of a (labels,) array."""
        sums: Floats = self._by_worker @ values
        return sums

    def part_sums(self, values: Floats) -> Floats:
        """(parts,) sums of a (labels,) array."""
        sums: Floats = self._by_part @ values
        return sums

    def scaled(self, values: Floats) -> Floats:
        """(labels,) the values divided by their root mean square in each part; zeros stay zeros."""
        largest = max(float(np.max(np.abs(values), initial=0.0)), np.finfo(float).tiny)
        shares = values / largest  # squares of very large or small numbers would leave the range of floats
        square = self.part_sums(shares * shares) / np.maximum(self.part_sums(np.ones(len(values))), 1)
        scaled: Floats = shares / np.sqrt(np.where(square > 0, square, 1.0))[self.part]
        return scaled


def class_codes(labels: TaskLabels, k: int) -> Floats:
    """(labels,) U^k of the module's equation."""
    codes: Floats = np.where(labels.label == k, 1.0, -1 / (labels.n_classes - 1))
    return codes


Weigh = Callable[[TaskWorkerGraph, Floats], tuple[Floats, bool]]


def solve_one_vs_rest(labels: TaskLabels, weigh: Weigh) -> Aggregation:
    """The outcome of a method that weighs the labels of one matrix U at a time.

    Args:
        labels: what was said.
        weigh: from the graph and (labels,) codes U to (labels,) weights y in any unit, and whether they settled.
    """
    n_classes, graph = labels.n_classes, TaskWorkerGraph(labels)
    if n_classes < 2 or len(labels.worker) == 0:
        sure = np.full((labels.n_tasks, n_classes), 1 / max(n_classes, 1))
        return Aggregation.of(sure, agreement_skills(labels, np.zeros(labels.n_tasks, np.int64)))
    scores = np.zeros((labels.n_tasks, n_classes))
    square, settled = np.zeros(len(labels.worker)), True
    total = np.zeros(len(labels.worker))
    for k in range(n_classes) if n_classes > 2 else (1,):
        codes = class_codes(labels, k)
        weights, done = weigh(graph, codes)
        weights = graph.scaled(weights)
        scores[:, k] = graph.task_sums(codes * weights)
        square, total, settled = square + weights * weights, total + weights, settled and done
    if n_classes == 2:
        scores[:, 0] = -scores[:, 1]
    answer = _best(labels, scores)
    skills = agreement_skills(labels, answer)
    bounds = skill_bounds(np.bincount(labels.worker, minlength=labels.n_workers))
    odds = vote_weights(skills, bounds, n_classes)[labels.worker]
    fit, size = graph.part_sums(odds * total), graph.part_sums(square)
    factor = np.maximum(fit, 0.0) / np.where(size > 0, size, 1.0)
    by_task = np.zeros(labels.n_tasks)
    by_task[graph.task] = factor[graph.part]
    logits = scores * (by_task * (n_classes - 1) / n_classes)[:, None]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = shares / shares.sum(axis=1, keepdims=True)
    return Aggregation(answer, probabilities, skills, np.full(n_classes, 1 / n_classes), converged=settled)


def _best(labels: TaskLabels, scores: Floats) -> Ints:
    """(tasks,) the class with the highest score; between equals, but for rounding, by votes, then by code."""
    shape = scores.shape
    votes = np.bincount(labels.task * shape[1] + labels.label, minlength=shape[0] * shape[1]).reshape(shape)
    slack = _TIED * np.maximum(np.abs(scores).max(axis=1, keepdims=True), 1.0)
    leads = scores >= scores.max(axis=1, keepdims=True) - slack
    best: Ints = np.where(leads, votes, -1).argmax(axis=1)
    return best
