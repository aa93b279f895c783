"""The worker graph: who has common tasks with whom, and whether that determines the skills.

Workers are joined when they labelled a common task. Theorem 1 of the paper: the skills of a connected component are
determined, up to one sign, if and only if it has an odd cycle. Gold answers count as a worker who is always right (its
id is the empty string, `GOLD`): a component with gold needs no odd cycle, and its sign is known.

>>> from crowdcore.labels import group_labels
>>> labels = group_labels([0, 0, 1, 1, 2], [0, 1, 1, 2, 3], [0] * 5, n_tasks=3, n_workers=4, n_classes=2).labels
>>> graph = WorkerGraph.of(EdgeCounts.of(labels, workers=["ann", "bob", "cem", "dee"], classes=["no", "yes"]))
>>> graph.component, graph.side, graph.identified
(array([0, 0, 0, 1]), array([0, 1, 0, 0]), array([False, False]))
>>> graph.fixes()[0]
"Let 'ann' and 'cem' label a common task, or give gold answers to some of the tasks."
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crowdcore.components import Components
from crowdcore.edges import EdgeCounts, Names
from crowdcore.labels import Ints
from crowdcore.laplacian import SignlessLaplacian
from crowdcore.weights import Floats

GOLD = ""
_SHOWN_CHARACTERS = 60

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class WorkerGraph:
    """Components of the worker graph; 0 is the one with most workers, among equals the one with the smallest worker id.

    Attributes:
        workers: (workers,) ids, sorted, gold included.
        component: (workers,) number of the worker's component; −1 for gold that shares no task with anyone.
        side: (workers,) in a component without odd cycle, which of its two sides the worker is on: 0 or 1.
        n_peers: (workers,) others with a common task; gold counts as one.
        n_workers: (components,) workers, gold not counted.
        n_edges: (components,) pairs with common tasks, those with gold included.
        n_labels: (components,) labels of its workers.
        bipartite: (components,) whether there is no odd cycle.
        has_gold: (components,) whether some of its tasks have known answers.
        identified: (components,) whether the skills are determined: an odd cycle or gold.
        isolated: (components,) whether it is one worker without peers.
        busiest: (components,) position of the worker with most labels.
        allies: (components, 2) positions of the two workers on one side with most labels; −1 where there are none.
        edges: the counts behind it.
    """

    workers: Names
    component: Ints
    side: Ints
    n_peers: Ints
    n_workers: Ints
    n_edges: Ints
    n_labels: Ints
    bipartite: Flags
    has_gold: Flags
    identified: Flags
    isolated: Flags
    busiest: Ints
    allies: Ints
    edges: EdgeCounts = field(repr=False)

    @classmethod
    def of(cls, edges: EdgeCounts) -> "WorkerGraph":
        """The graph of all pairs in `edges`."""
        parts = _renumbered(Components.of(edges.n_workers, edges.first, edges.second), edges.workers == GOLD)
        component, n_components = parts.component, parts.n_components
        human = (edges.workers != GOLD) & (component >= 0)
        n_peers = np.zeros(edges.n_workers, np.int64)
        for end in (edges.first, edges.second):
            n_peers += np.bincount(end, minlength=edges.n_workers)
        n_workers = np.bincount(component[human], minlength=n_components)
        n_edges = np.bincount(component[edges.first], minlength=n_components)
        labels = np.bincount(component[human], edges.n_labels[human], minlength=n_components).astype(np.int64)
        has_gold = np.zeros(n_components, bool)
        has_gold[component[~human & (component >= 0)]] = True
        identified = has_gold | ~parts.bipartite
        isolated = n_edges == 0
        return cls(
            edges.workers, component, parts.side, n_peers, n_workers, n_edges, labels,
            parts.bipartite, has_gold, identified, isolated,
            _busiest(component, edges.n_labels, human, n_components),
            _allies(parts, edges.n_labels, human),
            edges,
        )  # fmt: skip

    @property
    def n_components(self) -> int:
        """How many components there are."""
        return len(self.n_workers)

    @cached_property
    def sigma_min(self) -> Floats:
        """(components,) smallest eigenvalue of the signless Laplacian with weights N, found when first asked for.

        0 when not identified, NaN when isolated, approximate from above beyond 600 workers.
        """
        return _sigma_min(self.edges, self.component, self.workers != GOLD, self.identified, self.isolated)

    @property
    def parts(self) -> Components | None:
        """The components alone; None when gold has no peer and so no component."""
        return Components(self.component, self.side, self.bipartite) if np.all(self.component >= 0) else None

    @property
    def example_worker(self) -> Names:
        """(components,) id of the worker with most labels; among equals the one that sorts first."""
        return self.workers[self.busiest]

    def verdicts(self) -> list[str]:
        """(components,) what the graph means for the skills, a sentence a component."""
        return [self._verdict(number) for number in range(self.n_components)]

    def fixes(self) -> list[str]:
        """(components,) the cheapest remedy, a sentence a component; empty when none is needed."""
        return [self._fix(number) for number in range(self.n_components)]

    def _verdict(self, number: int) -> str:
        if self.has_gold[number]:
            return "Skills are determined: gold answers fix them."
        if self.isolated[number]:
            return "The skill is not determined: the worker has no common task with anyone; the crowd's mean is given."
        if self.bipartite[number]:
            return (
                "Skills are not determined: the component has no odd cycle, so that one side's skills can grow while"
                " the other's shrink; the balanced solution is given."
            )
        if number > np.argmax(self.identified):
            return (
                "Skills are determined: the component has an odd cycle; it shares no task with the larger ones, so its"
                " sign is chosen on its own."
            )
        return "Skills are determined: the component has an odd cycle."

    def _fix(self, number: int) -> str:
        if self.identified[number]:
            return ""
        worker, helper = self._name(self.busiest[number]), self._helper(number)
        if self.isolated[number]:
            if helper is None:
                return f"Let other workers label tasks of {worker}, or give gold answers to some of them."
            return f"Let {worker} label a task that {helper} labelled, or give gold answers to some of its tasks."
        one, other = self.allies[number]
        if one >= 0:
            pair = f"{self._name(one)} and {self._name(other)}"
            return f"Let {pair} label a common task, or give gold answers to some of the tasks."
        helper = "a third worker" if helper is None else helper
        return f"Let {helper} label a task that both workers labelled, or give gold answers to some of the tasks."

    def _helper(self, number: int) -> str | None:
        """The busiest worker of the largest other component."""
        others = [other for other in range(min(2, self.n_components)) if other != number]
        return self._name(self.busiest[others[0]]) if others else None

    def _name(self, position: int) -> str:
        worker = str(self.workers[position])
        return repr(worker if len(worker) <= _SHOWN_CHARACTERS else worker[: _SHOWN_CHARACTERS - 1] + "…")


def _renumbered(parts: Components, gold: Flags) -> Components:
    """The components by number of workers; gold alone is none."""
    n_workers = np.bincount(parts.component[~gold], minlength=parts.n_components)
    smallest = np.full(parts.n_components, len(gold), np.int64)
    humans = np.flatnonzero(~gold)[::-1]
    smallest[parts.component[humans]] = humans
    order = np.lexsort([smallest, -n_workers])
    order = order[n_workers[order] > 0]
    number = np.full(parts.n_components, -1, np.int64)
    number[order] = np.arange(len(order))
    return Components(number[parts.component], parts.side, parts.bipartite[order])


def _sigma_min(edges: EdgeCounts, component: Ints, human: Flags, identified: Flags, isolated: Flags) -> Floats:
    found = np.where(isolated, np.nan, 0.0)
    wanted = np.flatnonzero(identified & ~isolated)
    if len(wanted) == 0:
        return found
    number = np.full(len(identified), -1, np.int64)
    number[wanted] = np.arange(len(wanted))
    nodes = np.flatnonzero(human & (number[component] >= 0))
    place = np.full(edges.n_workers, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    common = edges.n_common.astype(np.float64)
    degree = np.zeros(edges.n_workers)
    for end in (edges.first, edges.second):
        degree += np.bincount(end, common, edges.n_workers)
    one, other = edges.first, edges.second
    if len(nodes) < edges.n_workers:
        one, other = place[one], place[other]
        kept = (one >= 0) & (other >= 0)
        one, other, common = one[kept], other[kept], common[kept]
    graphs = SignlessLaplacian(number[component[nodes]], degree[nodes], one, other, common, len(wanted))
    found[wanted] = graphs.smallest_eigenvalues()
    return found


def _busiest(group: Ints, n_labels: Ints, human: Flags, n_groups: int) -> Ints:
    """(groups,) position of the worker with most labels, among equals the first; −1 for a group without workers."""
    found = np.full(n_groups, -1, np.int64)
    places = np.flatnonzero(human)
    quiet_to_busy = places[np.lexsort([-places, n_labels[places]])]
    found[group[quiet_to_busy]] = quiet_to_busy
    return found


def _allies(parts: Components, n_labels: Ints, human: Flags) -> Ints:
    """(components, 2) on the side where the two busiest workers have most labels together, those two."""
    n_sides = 2 * parts.n_components
    side = 2 * parts.component + parts.side
    busiest = _busiest(side, n_labels, human, n_sides)
    others = human.copy()
    others[busiest[busiest >= 0]] = False
    pairs = np.stack([busiest, _busiest(side, n_labels, others, n_sides)], axis=1)
    together = np.where(pairs[:, 1] >= 0, n_labels[pairs].sum(axis=1), -1).reshape(-1, 2)
    best = 2 * np.arange(parts.n_components) + np.argmax(together, axis=1)
    pairs[pairs[:, 1] < 0] = -1
    chosen: Ints = pairs[best]
    return chosen
