"""Who labels what: tasks handed out to workers along an interaction graph.

Two workers are adjacent if some task goes to both. Every graph says how many labels a task may have, and how the
workers of many tasks of one size are drawn at once.

>>> task, worker = assign_tasks("bipartite", n_tasks=3, n_workers=2, rng=np.random.default_rng(0))
>>> task, worker
(array([0, 0, 1, 1, 2, 2]), array([0, 1, 0, 1, 0, 1]))
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.errors import InvalidOptionError
from crowdcore.labels import Ints

DEFAULT_LABELS_PER_TASK = 5
_CHUNK = 4_000_000
# What drawing a code again and comparing it costs, roughly, in waiting times: chooses the faster way.
_REDRAW_COST = 0.25

Floats = NDArray[np.float64]
# (tasks, labels of a task) → (tasks, labels of a task) distinct workers.
_Draw = Callable[[int, int], Ints]


def assign_tasks(
    graph: str | ArrayLike,
    *,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int | ArrayLike | None = None,
    activity: float = 0.0,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """(labels,) tasks, in order, and the workers they go to, distinct within a task.

    Args:
        graph: who meets whom:
            "random": each task goes to distinct workers, drawn from all;
            "clique": each task goes to every worker;
            "ring" or "ring:WINDOW": workers stand in a ring, each task goes to distinct workers among WINDOW
            neighbours (3, or the labels of a task if more); from a window of 3 on there are triangles;
            "star": the paper's star with an odd cycle: worker 0 is the hub, each task goes to the hub and one leaf or,
            as often as to any such leaf, to the triangle of workers 0, 1 and 2;
            "bipartite": each task goes to one worker of each half;
            "communities" or "communities:NUMBER": groups of workers (2) that share no task;
            or (edges, 2) pairs of worker codes: each task goes to the two workers of one pair.
        n_tasks: how many tasks.
        n_workers: how many workers.
        labels_per_task: a number, or (tasks,) one for each. When not given: as many as `graph` asks for, else 5, or
            all workers where there are fewer.
        activity: for "random": worker i is drawn in proportion to (i + 1) ** -activity; 0: all alike, 1: Zipf's law.
        rng: where chance comes from.
    """
    if n_tasks < 1 or n_workers < 1:
        raise InvalidOptionError(f"there are {n_tasks} tasks and {n_workers} workers; there must be at least 1 of each")
    name, number = _parsed_graph(graph)
    if not 0 <= activity <= 10 or (activity > 0 and name != "random"):
        raise InvalidOptionError(f"activity is {activity}; it takes 0 to 10 with the graph random, else 0")
    asked = _Asked(graph, name, number, n_tasks, n_workers, labels_per_task, activity, rng)
    sizes, draw = _PLANS[name](asked)
    starts = np.cumsum(sizes) - sizes
    worker = np.empty(int(sizes.sum()), np.int64)
    for size in np.unique(sizes):
        start = starts[sizes == size]
        worker[start[:, None] + np.arange(size)] = draw(len(start), int(size))
    return np.repeat(np.arange(n_tasks), sizes), worker


def draw_distinct(n_rows: int, size: int, n: int, rng: np.random.Generator, share: Floats | None = None) -> Ints:
    """(n_rows, size) codes below n, distinct within a row, drawn one after another without replacement.

    Args:
        n_rows: how many rows.
        size: codes in a row, at most n.
        n: how many codes there are.
        rng: where chance comes from.
        share: (n,) probability of each code as the first of a row; equal when not given.

    A code that its row already has is drawn again: each place then follows the law of drawing from what is left.
    Where that would take long, the codes with the `size` smallest of n waiting times are taken, which is the same law.

    >>> np.sort(draw_distinct(2, 3, 3, np.random.default_rng(0)))
    array([[0, 1, 2],
           [0, 1, 2]])
    """
    heaviest = (size - 1) / n if share is None else float(np.sort(share)[::-1][: size - 1].sum())
    if _REDRAW_COST * size * size >= n * (1 - heaviest):
        return _draw_by_waiting(n_rows, size, n, rng, share)
    cumulated = None if share is None else np.cumsum(share) / share.sum()

    def draw(count: int) -> Ints:
        if cumulated is None:
            return rng.integers(n, size=count)
        return np.searchsorted(cumulated[:-1], rng.random(count), side="right")

    chosen = np.empty((size, n_rows), np.int64)
    for place in range(size):
        chosen[place] = draw(n_rows)
        again = np.flatnonzero((chosen[:place] == chosen[place]).any(axis=0))
        while len(again):
            chosen[place, again] = draw(len(again))
            again = again[(chosen[:place, again] == chosen[place, again]).any(axis=0)]
    rows: Ints = chosen.T
    return rows


def _draw_by_waiting(n_rows: int, size: int, n: int, rng: np.random.Generator, share: Floats | None) -> Ints:
    """`draw_distinct` by waiting times: exponential ones with rates `share` ring in the order of such draws."""
    chosen = np.empty((n_rows, size), np.int64)
    rows = max(1, _CHUNK // n)
    for start in range(0, n_rows, rows):
        waiting = rng.standard_exponential((min(rows, n_rows - start), n))
        if share is not None:
            waiting /= share
        chosen[start : start + rows] = np.argpartition(waiting, size - 1, axis=1)[:, :size]
    return chosen


@dataclass(frozen=True)
class _Asked:
    """What `assign_tasks` was asked for; `number` is the one after the colon of the graph's name."""

    graph: str | ArrayLike
    name: str
    number: int | None
    n_tasks: int
    n_workers: int
    labels_per_task: int | ArrayLike | None
    activity: float
    rng: np.random.Generator

    def sizes(self, low: int, high: int) -> Ints:
        """(tasks,) labels of each task, each from `low` to `high`."""
        given = self.labels_per_task
        if given is None:
            given = min(max(DEFAULT_LABELS_PER_TASK, low), high)
        sizes = np.asarray(given)
        fits = sizes.shape in ((), (self.n_tasks,)) and np.issubdtype(sizes.dtype, np.integer)
        if not fits or sizes.min() < low or sizes.max() > high:
            raise InvalidOptionError(
                f"labels_per_task is {given}; with the graph {self.name} and {self.n_workers} workers it takes "
                + (f"{low}, or nothing" if low == high else f"whole numbers from {low} to {high}, one or one a task")
            )
        return np.broadcast_to(sizes, self.n_tasks).astype(np.int64)

    def need_workers(self, low: int) -> None:
        """Raises if there are fewer than `low` workers."""
        if self.n_workers < low:
            raise InvalidOptionError(f"n_workers is {self.n_workers}; the graph {self.name} takes at least {low}")


def _plan_random(asked: _Asked) -> tuple[Ints, _Draw]:
    share = None
    if asked.activity:
        share = np.arange(1.0, asked.n_workers + 1) ** -asked.activity
        share /= share.sum()
    sizes = asked.sizes(1, asked.n_workers)
    return sizes, lambda n_rows, size: draw_distinct(n_rows, size, asked.n_workers, asked.rng, share)


def _plan_clique(asked: _Asked) -> tuple[Ints, _Draw]:
    sizes = asked.sizes(asked.n_workers, asked.n_workers)
    return sizes, lambda n_rows, size: np.tile(np.arange(size), (n_rows, 1))


def _plan_ring(asked: _Asked) -> tuple[Ints, _Draw]:
    asked.need_workers(asked.number or 1)
    sizes = asked.sizes(1, asked.number or asked.n_workers)
    window = asked.number or min(asked.n_workers, max(3, int(sizes.max())))

    def draw(n_rows: int, size: int) -> Ints:
        first = asked.rng.integers(asked.n_workers, size=(n_rows, 1))
        return (first + draw_distinct(n_rows, size, window, asked.rng)) % asked.n_workers

    return sizes, draw


def _plan_star(asked: _Asked) -> tuple[Ints, _Draw]:
    asked.need_workers(3)
    if asked.labels_per_task is not None:
        raise InvalidOptionError("labels_per_task takes nothing with the graph star: its tasks have 2 or 3 labels")
    sizes = np.where(asked.rng.integers(asked.n_workers - 2, size=asked.n_tasks) == 0, 3, 2)

    def draw(n_rows: int, size: int) -> Ints:
        if size == 3:
            return np.tile(np.arange(3), (n_rows, 1))
        leaf = asked.rng.integers(3, asked.n_workers, size=n_rows)
        return np.stack([np.zeros_like(leaf), leaf], axis=1)

    return sizes, draw


def _plan_bipartite(asked: _Asked) -> tuple[Ints, _Draw]:
    asked.need_workers(2)
    half = asked.n_workers // 2

    def draw(n_rows: int, _: int) -> Ints:
        return asked.rng.integers([0, half], [half, asked.n_workers], size=(n_rows, 2))

    return asked.sizes(2, 2), draw


def _plan_communities(asked: _Asked) -> tuple[Ints, _Draw]:
    """Communities are as large as each other, to one worker; each task picks the community of a random worker."""
    number = asked.number or 2
    asked.need_workers(number)
    bounds = np.arange(number + 1) * asked.n_workers // number

    def draw(n_rows: int, size: int) -> Ints:
        community = np.searchsorted(bounds, asked.rng.integers(asked.n_workers, size=n_rows), side="right") - 1
        width = np.diff(bounds)[community]
        worker = np.repeat(bounds[community][:, None], size, axis=1)
        for n in np.unique(width):
            worker[width == n] += draw_distinct(int((width == n).sum()), size, int(n), asked.rng)
        return worker

    return asked.sizes(1, int(np.diff(bounds).min())), draw


def _plan_edges(asked: _Asked) -> tuple[Ints, _Draw]:
    edges = np.asarray(asked.graph)
    if edges.ndim != 2 or edges.shape[1] != 2 or not len(edges) or not np.issubdtype(edges.dtype, np.integer):
        raise InvalidOptionError(f"graph has shape {edges.shape}; a list of edges takes pairs of worker codes")
    if edges.min() < 0 or edges.max() >= asked.n_workers or np.any(edges[:, 0] == edges[:, 1]):
        raise InvalidOptionError(f"graph takes edges of two different workers, codes 0 to {asked.n_workers - 1}")
    return asked.sizes(2, 2), lambda n_rows, _: edges[asked.rng.integers(len(edges), size=n_rows)]


_PLANS: dict[str, Callable[[_Asked], tuple[Ints, _Draw]]] = {
    "random": _plan_random,
    "clique": _plan_clique,
    "ring": _plan_ring,
    "star": _plan_star,
    "bipartite": _plan_bipartite,
    "communities": _plan_communities,
    "list of edges": _plan_edges,
}
GRAPHS = tuple(name for name in _PLANS if name != "list of edges")
_WITH_NUMBER = ("ring", "communities")


def _parsed_graph(graph: str | ArrayLike) -> tuple[str, int | None]:
    """The graph's name and the number after its colon."""
    if not isinstance(graph, str):
        return "list of edges", None
    name, colon, number = graph.partition(":")
    if name in GRAPHS and not colon:
        return name, None
    if name in _WITH_NUMBER and number.isdecimal() and int(number) > 0:
        return name, int(number)
    raise InvalidOptionError(
        f"graph is {graph!r}; it takes {', '.join(GRAPHS)}, ring:WINDOW, communities:NUMBER or a list of edges"
    )
