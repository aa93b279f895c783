from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels

WORKERS = ("ann", "Bob", "émile", "🐝", "z", "")
CLASSES = ("no", "perhaps", "yes")
CELLS = st.tuples(st.integers(0, 5), st.sampled_from(WORKERS))
CROWDS = st.dictionaries(CELLS, st.sampled_from(CLASSES), max_size=20)


def edges_of(crowd, workers=WORKERS, classes=CLASSES):
    """EdgeCounts of {(task, worker): class}, with the codes that the order of `workers` and `classes` gives."""
    tasks = sorted({task for task, _ in crowd})
    grouped = group_labels(
        np.array([tasks.index(task) for task, _ in crowd], int),
        np.array([workers.index(worker) for _, worker in crowd], int),
        np.array([classes.index(label) for label in crowd.values()], int),
        n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes),
    )  # fmt: skip
    return EdgeCounts.of(grouped.labels, workers, classes)


def by_task(crowd):
    tasks = {}
    for (task, worker), label in crowd.items():
        tasks.setdefault(task, {})[worker] = label
    return tasks.values()


def counted_plainly(crowd):
    """(labels and triples by worker, common tasks and agreements by pair of ids), from dictionaries."""
    workers, pairs = {}, {}
    for task in by_task(crowd):
        for worker in task:
            n_labels, n_triples = workers.get(worker, (0, 0))
            n_peers = len(task) - 1
            workers[worker] = n_labels + 1, n_triples + n_peers * (n_peers - 1)
        for pair in combinations(sorted(task), 2):
            n_common, n_agree = pairs.get(pair, (0, 0))
            pairs[pair] = n_common + 1, n_agree + (task[pair[0]] == task[pair[1]])
    return workers, pairs


def as_dictionaries(edges):
    names = edges.workers.tolist()
    labels = zip(edges.n_labels.tolist(), edges.n_triples.tolist(), strict=True)
    pairs = [(names[a], names[b]) for a, b in zip(edges.first, edges.second, strict=True)]
    counts = zip(edges.n_common.tolist(), edges.n_agree.tolist(), strict=True)
    return dict(zip(names, labels, strict=True)), dict(zip(pairs, counts, strict=True))


def split(crowd, n_parts):
    return [{cell: label for cell, label in crowd.items() if cell[0] % n_parts == part} for part in range(n_parts)]


@given(CROWDS, st.permutations(WORKERS), st.permutations(CLASSES))
def test_edges_are_those_of_a_plain_count_whatever_the_codes(crowd, workers, classes):
    edges = edges_of(crowd, workers, classes)
    assert as_dictionaries(edges) == counted_plainly(crowd)
    assert edges.classes == tuple(sorted(set(crowd.values())))


@given(CROWDS)
def test_workers_and_pairs_are_sorted(crowd):
    edges = edges_of(crowd)
    assert edges.workers.tolist() == sorted(edges.workers.tolist())
    pairs = list(zip(edges.first.tolist(), edges.second.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert all(first < second for first, second in pairs)
    assert (edges.n_workers, edges.n_edges) == (len(edges.workers), len(pairs))


@given(CROWDS, st.integers(2, 6), st.permutations(WORKERS), st.randoms())
def test_edges_do_not_depend_on_how_tasks_are_split(crowd, n_parts, workers, random):
    parts = [edges_of(part, workers) for part in split(crowd, n_parts)]
    random.shuffle(parts)
    assert EdgeCounts.sum(parts) == edges_of(crowd)
    assert EdgeCounts.sum(parts).classes == edges_of(crowd).classes


@given(CROWDS, CROWDS, CROWDS)
def test_addition_is_associative_and_commutative(one, two, three):
    a, b, c = edges_of(one), edges_of(two), edges_of(three)
    assert (a + b) + c == a + (b + c) == EdgeCounts.sum([c, a, b])
    assert a + b == b + a


@given(CROWDS)
def test_zero_changes_nothing(crowd):
    edges = edges_of(crowd)
    assert edges + EdgeCounts.zero() == edges == EdgeCounts.zero() + edges == edges - EdgeCounts.zero()
    assert EdgeCounts.sum([]) == EdgeCounts.zero() == edges - edges


@given(CROWDS, CROWDS)
def test_subtraction_undoes_addition(one, two):
    a, b = edges_of(one), edges_of(two)
    assert a + b - b == a
    assert b + (a - b) == a


@given(CROWDS, CROWDS)
def test_a_difference_holds_the_differences_of_the_plain_counts(one, two):
    difference = as_dictionaries(edges_of(one) - edges_of(two))
    for found, more, less in zip(difference, counted_plainly(one), counted_plainly(two), strict=True):
        for key in more.keys() | less.keys():
            expected = tuple(np.subtract(more.get(key, (0, 0)), less.get(key, (0, 0))))
            assert found.get(key, (0, 0)) == expected


def test_a_corrected_label_changes_agreements_alone():
    before = edges_of({(0, "ann"): "yes", (0, "z"): "yes", (1, "Bob"): "no"})
    after = edges_of({(0, "ann"): "yes", (0, "z"): "no", (1, "Bob"): "no"})
    workers, pairs = as_dictionaries(after - before)
    assert workers == {"ann": (0, 0), "z": (0, 0)}
    assert pairs == {("ann", "z"): (0, -1)}


def test_workers_whose_labels_are_taken_back_leave_the_edges():
    both = edges_of({(0, "ann"): "yes", (0, "z"): "yes", (1, "ann"): "no"})
    edges = both - edges_of({(0, "ann"): "yes", (0, "z"): "yes"})
    assert as_dictionaries(edges) == ({"ann": (1, 0)}, {})


@pytest.mark.parametrize(
    "other",
    [
        {(0, "ann"): "yes", (0, "z"): "no"},
        {(0, "ann"): "yes", (0, "Bob"): "yes"},
        {(0, "ann"): "yes", (0, "z"): "yes", (1, "z"): "yes"},
        {},
    ],
    ids=["another label", "another worker", "another task", "nothing"],
)
def test_different_counts_are_not_equal(other):
    assert edges_of({(0, "ann"): "yes", (0, "z"): "yes"}) != edges_of(other)


def test_counts_of_all_pairs_and_of_sampled_ones_are_not_equal():
    edges = edges_of({(0, "ann"): "yes", (0, "z"): "yes"})
    assert replace(edges, n_sampled=1) != edges
    assert replace(edges, n_sampled=0) == edges


def test_edges_equal_nothing_but_edges():
    assert EdgeCounts.zero() != 0


def test_a_class_whose_labels_are_taken_away_again_is_gone():
    both = group_labels([0, 0, 1], [0, 1, 0], [0, 1, 2], n_tasks=2, n_workers=2, n_classes=3).labels
    extra = group_labels([0], [0], [2], n_tasks=1, n_workers=2, n_classes=3).labels
    whole = EdgeCounts.of(both, ["ann", "bob"], "xyz")
    part = whole - EdgeCounts.of(extra, ["ann", "bob"], "xyz")
    assert (whole.classes, part.classes) == (("x", "y", "z"), ("x", "y"))
    assert whole.class_counts == {"x": 1, "y": 1, "z": 1}
    assert part != whole


def test_few_pairs_are_added_as_many_are_also_where_only_agreements_change():
    names = np.array(list("abcdef"), object)
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6) if (i, j) != (4, 5)]
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    ones = np.ones(len(pairs), np.int64)
    many = EdgeCounts(names, np.full(6, 9), np.full(6, 20), first, second, 3 * ones, ones, ("x",), 0, (54,))
    zero = np.zeros(3, np.int64)
    few = EdgeCounts(
        names[[0, 4, 5]], zero, zero, np.array([0, 1]), np.array([1, 2]), np.array([0, 0]), np.array([1, 1]), ()
    )
    together = many + few
    assert together == EdgeCounts.sum([few, many])  # few before many: by the general way
    assert together.n_edges == many.n_edges + 1
    assert many + few - few == many
