"""Ghosh, Kale, McAfee: the top eigenvector of the task-task matrix.

With U_ij = ±1 the label of worker j on task i, and 0 where there is none, E U = u sᵀ where everybody labels everything
(u the truths, s the skills). Then the top eigenvector of U Uᵀ, whose entries say how often two tasks got the same label
from a worker, is u up to its sign (Ghosh, Kale, McAfee: "Who Moderates the Moderators? Crowdsourcing Abuse Detection in
User-Generated Content", EC 2011). The sign is that of the majority: Σ_i x_i Σ_j U_ij ≥ 0.

U Uᵀ is never made. Each round is y = Uᵀ x, x = U y over the labels: y are the workers' weights, x the scores. Each
connected part of the task-worker graph has an eigenvector and a sign of its own. The diagonal of U Uᵀ, the labels of
each task, stays: tasks with many labels pull the vector towards themselves, so that the method suits crowds with about
as many labels on every task. More than two classes go one against the rest, and scores become probabilities and skills
as `one_vs_rest` says.

>>> from crowdcore.labels import group_labels
>>> task, worker = np.divmod(np.arange(12), 3)
>>> crowd = group_labels(task, worker, [1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1], n_tasks=4, n_workers=3, n_classes=2)
>>> ghosh(crowd.labels).answer
array([1, 0, 1, 0])
"""

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.one_vs_rest import TaskWorkerGraph, solve_one_vs_rest
from crowdcore.errors import InvalidOptionError
from crowdcore.labels import TaskLabels
from crowdcore.weights import Floats

_SPREAD = 0.1


def ghosh(
    labels: TaskLabels, *, rng: np.random.Generator | None = None, max_rounds: int = 1000, tol: float = 1e-7
) -> Aggregation:
    """Answers by the top eigenvector; `converged` says whether the power iteration came to rest.

    Args:
        labels: what was said.
        rng: for the first weights, which are 1 but for a small noise; a fixed one when not given.
        max_rounds: of the power iteration.
        tol: it stops when no weight, with a root mean square of 1, moves by more than this.
    """
    if max_rounds < 1:
        raise InvalidOptionError(f"max_rounds is {max_rounds}; it takes 1 or more")
    rng = np.random.default_rng(0) if rng is None else rng

    def weigh(graph: TaskWorkerGraph, codes: Floats) -> tuple[Floats, bool]:
        y, moved = rng.normal(1.0, _SPREAD, labels.n_workers)[labels.worker], np.inf
        for _ in range(max_rounds):
            before = y
            x = graph.task_sums(codes * y)
            y = graph.scaled(graph.worker_sums(codes * x[graph.task])[labels.worker])
            moved = float(np.max(np.abs(y - before), initial=0.0))
            if moved <= tol:
                break
        x = graph.task_sums(codes * y)
        with_votes = graph.part_sums(codes * x[graph.task])
        return np.where(with_votes < 0, -1.0, 1.0)[graph.part] * y, moved <= tol

    return solve_one_vs_rest(labels, weigh)
