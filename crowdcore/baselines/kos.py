"""KOS: message passing between tasks and workers.

With A_ij = ±1 the label of worker j on task i, messages go along the labels, to and fro:

    x_{i→j} = Σ_{j' ≠ j} A_ij' y_{j'→i}      what the others say about task i
    y_{j→i} = Σ_{i' ≠ i} A_i'j x_{i'→j}      how far worker j agrees with the others elsewhere

from y ~ Normal(1, 1); the answer is the sign of x_i = Σ_j A_ij y_{j→i} (Karger, Oh, Shah: "Iterative Learning for
Reliable Crowdsourcing Systems", NIPS 2011; "Budget-Optimal Task Allocation for Reliable Crowdsourcing Systems",
Operations Research 62, 2014). It is a power iteration on the labels' graph without steps back. It assumes that tasks
go to workers at random, with about as many labels on each task and by each worker, and more good workers than bad.

Messages are divided by a common positive number after every round, one for each connected part of the graph, which
changes no sign and keeps them within range. Messages die out where the graph is a tree (one label a task): such tasks
go to the majority. More than two classes go one against the rest, and scores become probabilities and skills as
`one_vs_rest` says.

>>> from crowdcore.baselines.majority import majority_vote
>>> from crowdcore.simulate import simulate_crowd
>>> rng = np.random.default_rng(5)
>>> crowd = simulate_crowd(n_tasks=500, n_workers=500, labels_per_task=15, skills="hammer-spammer:0.7", rng=rng)
>>> labels = crowd.grouped()
>>> [round(float(np.mean(found.answer != crowd.truth)), 3) for found in (majority_vote(labels), kos(labels))]
[0.14, 0.022]
"""

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.one_vs_rest import TaskWorkerGraph, solve_one_vs_rest
from crowdcore.errors import InvalidOptionError
from crowdcore.labels import TaskLabels
from crowdcore.weights import Floats


def kos(labels: TaskLabels, *, rng: np.random.Generator | None = None, n_rounds: int = 100) -> Aggregation:
    """Answers by message passing; `converged` says whether the last round changed no answer.

    Args:
        labels: what was said.
        rng: for the first messages; a fixed one when not given.
        n_rounds: how often messages go to and fro, at least 1.
    """
    if n_rounds < 1:
        raise InvalidOptionError(f"n_rounds is {n_rounds}; it takes 1 or more")
    rng = np.random.default_rng(0) if rng is None else rng

    def weigh(graph: TaskWorkerGraph, codes: Floats) -> tuple[Floats, bool]:
        before = y = rng.normal(1.0, 1.0, len(codes))
        for _ in range(n_rounds):
            before, y = y, graph.scaled(pass_messages(graph, codes, y))
        return y, not np.any(graph.task_sums(codes * y) * graph.task_sums(codes * before) < 0)

    return solve_one_vs_rest(labels, weigh)


def pass_messages(graph: TaskWorkerGraph, codes: Floats, y: Floats) -> Floats:
    """(labels,) the messages y of the next round: once from workers to tasks and back, never by the same label."""
    told = codes * y
    x = graph.task_sums(told)[graph.task] - told
    heard = codes * x
    following: Floats = graph.worker_sums(heard)[graph.labels.worker] - heard
    return following
