from itertools import permutations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crowdcore.assignment
from crowdcore.assignment import assign_tasks, draw_distinct
from crowdcore.errors import InvalidOptionError

TRIANGLE_AND_TAIL = [(0, 1), (1, 2), (2, 0), (2, 3)]


def rng(seed=0):
    return np.random.default_rng(seed)


def teams(graph, n_tasks=400, n_workers=10, **options):
    """The workers of each task, sorted."""
    task, worker = assign_tasks(graph, n_tasks=n_tasks, n_workers=n_workers, rng=rng(), **options)
    assert np.array_equal(task, np.sort(task))
    return [tuple(sorted(worker[task == code].tolist())) for code in range(n_tasks)]


def edges_of(found):
    return {(a, b) for team in found for a in team for b in team if a < b}


@given(
    st.sampled_from(["random", "clique", "ring", "ring:6", "star", "bipartite", "communities:3", TRIANGLE_AND_TAIL]),
    st.integers(6, 40),
    st.integers(0, 2**32),
)
def test_no_worker_gets_a_task_twice(graph, n_workers, seed):
    fits = 2 if graph == "communities:3" else None
    task, worker = assign_tasks(graph, n_tasks=30, n_workers=n_workers, labels_per_task=fits, rng=rng(seed))
    assert len(set(zip(task.tolist(), worker.tolist(), strict=True))) == len(task)
    assert set(task.tolist()) == set(range(30))
    assert 0 <= worker.min() <= worker.max() < n_workers


def probability_of_each_set(share, size):
    """Drawing `size` codes one after another without replacement, every order added up."""
    found = {}
    for order in permutations(range(len(share)), size):
        left, probability = 1.0, 1.0
        for code in order:
            probability *= share[code] / left
            left -= share[code]
        found[frozenset(order)] = found.get(frozenset(order), 0) + probability
    return found


@pytest.mark.parametrize("always_wait", [False, True], ids=["drawn again", "by waiting times"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("share", [None, [0.5, 0.3, 0.15, 0.05]], ids=["alike", "unequal"])
def test_sets_of_distinct_codes_come_as_often_as_drawing_without_replacement_says(share, size, always_wait):
    n_rows = 40_000
    weights = None if share is None else np.array(share)
    with patch.object(crowdcore.assignment, "_REDRAW_COST", np.inf if always_wait else 0.0):
        rows = draw_distinct(n_rows, size, 4, rng(), weights)
    sets, counts = np.unique(np.sort(rows, axis=1), axis=0, return_counts=True)
    found = {frozenset(codes): count for codes, count in zip(sets.tolist(), counts, strict=True)}
    for codes, probability in probability_of_each_set(share or [0.25] * 4, size).items():
        assert len(codes) == size
        spread = np.sqrt(probability * (1 - probability) * n_rows)
        assert abs(found[codes] - probability * n_rows) <= 5 * spread


def test_waiting_times_are_drawn_in_parts_when_there_are_many():
    with patch.object(crowdcore.assignment, "_CHUNK", 30):
        rows = draw_distinct(100, 7, 10, rng())
    assert all(len(set(row)) == 7 for row in rows.tolist())
    assert set(np.unique(rows)) == set(range(10))


@pytest.mark.parametrize("activity", [0.0, 1.0, 2.0])
def test_activity_makes_the_first_workers_busier(activity):
    _, worker = assign_tasks("random", n_tasks=50_000, n_workers=4, labels_per_task=1, activity=activity, rng=rng())
    share = 1 / np.arange(1, 5) ** activity
    share /= share.sum()
    found = np.bincount(worker) / len(worker)
    assert np.all(np.abs(found - share) <= 5 * np.sqrt(share * (1 - share) / len(worker)))


def test_a_clique_gives_every_task_to_every_worker():
    assert set(teams("clique", n_workers=7)) == {tuple(range(7))}


def test_a_random_graph_of_many_tasks_connects_every_pair():
    assert len(edges_of(teams("random", labels_per_task=3))) == 45


@pytest.mark.parametrize(
    ("graph", "size", "window"), [("ring", 2, 3), ("ring", 4, 4), ("ring:2", 2, 2), ("ring:5", 2, 5)]
)
def test_a_ring_connects_the_workers_of_a_window_and_no_others(graph, size, window):
    found = edges_of(teams(graph, n_tasks=2000, n_workers=12, labels_per_task=size))
    near = {(a, b) for a in range(12) for b in range(a + 1, 12) if min(b - a, 12 - b + a) < window}
    assert found == near


def test_a_star_is_a_hub_with_leaves_and_one_triangle():
    found = teams("star", n_tasks=8000, n_workers=10)
    assert edges_of(found) == {(0, leaf) for leaf in range(1, 10)} | {(1, 2)}
    assert set(found) == {(0, 1, 2), *((0, leaf) for leaf in range(3, 10))}
    for team in set(found):
        assert abs(found.count(team) - 1000) <= 5 * np.sqrt(8000 * (1 / 8) * (7 / 8))


def test_a_star_of_three_workers_is_a_triangle():
    assert set(teams("star", n_workers=3)) == {(0, 1, 2)}


@pytest.mark.parametrize("n_workers", [6, 7])
def test_a_bipartite_graph_connects_each_half_with_the_other_only(n_workers):
    half = n_workers // 2
    found = edges_of(teams("bipartite", n_workers=n_workers))
    assert found == {(a, b) for a in range(half) for b in range(half, n_workers)}


@pytest.mark.parametrize(
    ("graph", "groups"),
    [("communities", [range(5), range(5, 11)]), ("communities:3", [range(3), range(3, 7), range(7, 11)])],
)
def test_communities_share_no_task(graph, groups):
    found = edges_of(teams(graph, n_tasks=2000, n_workers=11, labels_per_task=3))
    assert found == {(a, b) for group in groups for a in group for b in group if a < b}


def test_a_list_of_edges_is_the_graph():
    found = teams(np.array(TRIANGLE_AND_TAIL), n_workers=6)
    assert set(found) == {(0, 1), (1, 2), (0, 2), (2, 3)}


@pytest.mark.parametrize("graph", ["random", "ring", "communities"])
def test_tasks_may_differ_in_their_labels(graph):
    sizes = np.array([1, 3, 2, 5, 3])
    task, _ = assign_tasks(graph, n_tasks=5, n_workers=12, labels_per_task=sizes, rng=rng())
    assert np.bincount(task).tolist() == sizes.tolist()


@pytest.mark.parametrize(
    ("graph", "n_workers", "size"),
    [("random", 9, 5), ("random", 3, 3), ("ring", 9, 5), ("ring:4", 9, 4), ("communities", 8, 4), ("clique", 9, 9),
     ("bipartite", 9, 2), ([(0, 1)], 9, 2)],
)  # fmt: skip
def test_without_a_number_a_task_gets_the_labels_its_graph_asks_for_or_five(graph, n_workers, size):
    assert {len(team) for team in teams(graph, n_tasks=9, n_workers=n_workers)} == {size}


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        ("web", {}, "graph is 'web'; it takes random, clique, ring, star, bipartite, communities, ring:WINDOW"),
        ("ring:", {}, "graph is 'ring:'"),
        ("ring:0", {}, "graph is 'ring:0'"),
        ("star:3", {}, "graph is 'star:3'"),
        ("ring:11", {}, "n_workers is 10; the graph ring takes at least 11"),
        ("communities:11", {}, "n_workers is 10; the graph communities takes at least 11"),
        ("star", {"n_workers": 2}, "n_workers is 2; the graph star takes at least 3"),
        ("bipartite", {"n_workers": 1}, "n_workers is 1; the graph bipartite takes at least 2"),
        ("random", {"labels_per_task": 11}, "whole numbers from 1 to 10"),
        ("random", {"labels_per_task": 0}, "whole numbers from 1 to 10"),
        ("random", {"labels_per_task": 2.5}, "whole numbers from 1 to 10"),
        ("random", {"labels_per_task": [1, 2]}, "whole numbers from 1 to 10"),
        ("ring:4", {"labels_per_task": 5}, "whole numbers from 1 to 4"),
        ("communities", {"labels_per_task": 6}, "whole numbers from 1 to 5"),
        ("clique", {"labels_per_task": 5}, "it takes 10, or nothing"),
        ("bipartite", {"labels_per_task": 3}, "it takes 2, or nothing"),
        ("star", {"labels_per_task": 2}, "2 or 3 labels"),
        ("ring", {"activity": 1.0}, "0 to 10 with the graph random, else 0"),
        ("random", {"activity": -1.0}, "0 to 10 with the graph random, else 0"),
        ([(0, 10)], {}, "codes 0 to 9"),
        ([(-1, 2)], {}, "codes 0 to 9"),
        ([(3, 3)], {}, "two different workers"),
        ([], {}, "pairs of worker codes"),
        ([(0, 1, 2)], {}, "pairs of worker codes"),
        ([(0.5, 1)], {}, "pairs of worker codes"),
    ],
)
def test_what_does_not_fit_the_graph_is_refused(graph, options, message):
    with pytest.raises(InvalidOptionError, match=message):
        assign_tasks(graph, **{"n_tasks": 3, "n_workers": 10, "rng": rng(), **options})
