import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdcore.components import Components
from crowdcore.edges import EdgeCounts
from crowdcore.graph import GOLD, WorkerGraph
from crowdcore.laplacian import SignlessLaplacian

PAIRS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]), max_size=16)


def edges_of(pairs, n_labels):
    """EdgeCounts of {(worker, worker): common tasks} with {worker: labels}."""
    workers = sorted(n_labels)
    rows = sorted((workers.index(min(pair)), workers.index(max(pair)), common) for pair, common in pairs.items())
    first, second, common = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    labels = np.array([n_labels[worker] for worker in workers], np.int64)
    return EdgeCounts(np.array(workers, object), labels, 0 * labels, first, second, common, common, ("no", "yes"))


def graph_of(pairs, n_labels=None):
    names = {name for pair in pairs for name in pair}
    return WorkerGraph.of(edges_of(pairs, n_labels or dict.fromkeys(names, 10)))


def complete(names, common=1):
    return {(a, b): common for a in names for b in names if a < b}


def cycle(names, common=1):
    return {tuple(sorted(pair)): common for pair in zip(names, names[1:] + names[:1], strict=True)}


def names_of(n):
    return [f"w{k:04d}" for k in range(n)]


@given(PAIRS)
def test_components_and_colours_agree_with_a_walk_over_the_graph(pairs):
    peers = {node: [b if a == node else a for a, b in pairs if node in (a, b)] for node in range(10)}
    expected, colour, odd = {}, {}, set()
    for root in range(10):
        if root in expected:
            continue
        expected[root], colour[root], queue = root, 0, [root]
        for node in queue:
            for peer in peers[node]:
                if peer not in expected:
                    expected[peer], colour[peer] = root, 1 - colour[node]
                    queue.append(peer)
                elif colour[peer] == colour[node]:
                    odd.add(root)
    rows = sorted(pairs)
    parts = Components.of(10, np.array([a for a, _ in rows], int), np.array([b for _, b in rows], int))
    roots = sorted(set(expected.values()))
    assert parts.component.tolist() == [roots.index(expected[node]) for node in range(10)]
    assert parts.bipartite.tolist() == [root not in odd for root in roots]
    assert parts.side.tolist() == [0 if expected[node] in odd else colour[node] for node in range(10)]


def test_components_do_not_depend_on_the_order_of_the_edges():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 40, 60), rng.integers(40, 80, 60)
    order = rng.permutation(60)
    one, other = Components.of(80, first, second), Components.of(80, first[order], second[order])
    assert np.array_equal(one.component, other.component)
    assert np.array_equal(one.side, other.side)


def test_a_triangle_determines_its_skills():
    graph = graph_of(complete("abc"))
    assert graph.identified.tolist() == [True]
    assert graph.verdicts() == ["Skills are determined: the component has an odd cycle."]
    assert graph.fixes() == [""]


def test_a_path_does_not_and_the_fix_joins_the_two_busiest_of_a_side():
    graph = graph_of(
        {("a", "b"): 1, ("b", "c"): 1, ("c", "d"): 1, ("d", "e"): 1}, {"a": 9, "b": 3, "c": 5, "d": 2, "e": 7}
    )
    assert graph.bipartite.tolist() == [True]
    assert not graph.identified.any()
    assert graph.sigma_min.tolist() == [0.0]
    assert graph.side.tolist() == [0, 1, 0, 1, 0]
    assert graph.verdicts()[0].startswith("Skills are not determined: the component has no odd cycle")
    assert "'a' and 'e' label a common task" in graph.fixes()[0]


def test_following_the_fix_of_a_path_determines_the_skills():
    pairs = {("a", "b"): 1, ("b", "c"): 1, ("c", "d"): 1}
    graph = graph_of(pairs)
    joined = {**pairs, tuple(str(graph.workers[position]) for position in graph.allies[0]): 1}
    assert graph_of(joined).identified.all()


def test_a_pair_alone_needs_a_third_worker():
    assert "a third worker" in graph_of({("a", "b"): 4}).fixes()[0]
    both = graph_of({("a", "b"): 4, **complete("xyz")}, {"a": 4, "b": 4, "x": 5, "y": 8, "z": 5})
    assert both.fixes() == [
        "",
        "Let 'y' label a task that both workers labelled, or give gold answers to some of the tasks.",
    ]


def test_a_worker_alone_is_named_with_someone_to_join():
    graph = graph_of(complete("abc"), {"a": 3, "b": 8, "c": 8, "d": 5})
    assert graph.isolated.tolist() == [False, True]
    assert graph.n_peers.tolist() == [2, 2, 2, 0]
    assert np.isnan(graph.sigma_min[1])
    assert graph.fixes()[1] == "Let 'd' label a task that 'b' labelled, or give gold answers to some of its tasks."
    assert "no common task with anyone" in graph.verdicts()[1]
    assert "Let other workers label tasks of 'd'" in graph_of({}, {"d": 1}).fixes()[0]


def test_components_are_numbered_by_their_workers_then_by_the_smallest_id():
    pairs = {("m", "n"): 1, ("c", "d"): 1, **complete("xyz")}
    graph = graph_of(pairs, dict.fromkeys("abcdmnxyz", 2))
    assert graph.n_workers.tolist() == [3, 2, 2, 1, 1]
    assert [str(name) for name in graph.example_worker] == ["x", "c", "m", "a", "b"]
    assert graph.n_edges.tolist() == [3, 1, 1, 0, 0]
    assert graph.n_labels.tolist() == [6, 4, 4, 2, 2]


def test_a_second_component_says_that_its_sign_is_its_own():
    verdicts = graph_of({**complete("abcd"), **complete("xyz")}).verdicts()
    assert "on its own" not in verdicts[0]
    assert "its sign is chosen on its own" in verdicts[1]


def test_gold_determines_a_component_and_is_no_worker():
    graph = graph_of({(GOLD, "a"): 7, ("a", "b"): 4}, {GOLD: 7, "a": 11, "b": 4})
    assert graph.n_workers.tolist() == [2]
    assert graph.n_edges.tolist() == [2]
    assert graph.n_labels.tolist() == [15]
    assert (graph.has_gold[0], graph.identified[0], graph.bipartite[0]) == (True, True, True)
    assert "gold" in graph.verdicts()[0]
    assert graph.fixes() == [""]
    assert [str(name) for name in graph.example_worker] == ["a"]
    # rows a and b of the signless Laplacian: [[11, 4], [4, 4]]
    assert graph.sigma_min[0] == pytest.approx(7.5 - np.sqrt(3.5**2 + 16))


def test_gold_without_a_common_task_is_no_component():
    graph = graph_of(complete("abc"), {GOLD: 2, "a": 1, "b": 1, "c": 1})
    assert graph.n_workers.tolist() == [3]
    assert graph.component.tolist() == [-1, 0, 0, 0]
    assert not graph.has_gold.any()


@pytest.mark.parametrize("n", [3, 4, 65, 700])
def test_sigma_min_of_a_complete_graph_is_known(n):
    """D + N of the complete graph with weights w has the eigenvalues w (n − 2) and 2 w (n − 1)."""
    graph = graph_of(complete(names_of(n), common=5))
    assert graph.sigma_min[0] == pytest.approx(5 * (n - 2), rel=1e-6)


@pytest.mark.parametrize("n", [5, 63, 301])
def test_sigma_min_of_an_odd_cycle_is_known(n):
    assert graph_of(cycle(names_of(n))).sigma_min[0] == pytest.approx(2 - 2 * np.cos(np.pi / n), rel=1e-7)


def test_sigma_min_of_a_large_component_is_an_upper_bound_and_close():
    rng = np.random.default_rng(1)
    n = 900
    matrix = np.triu((rng.random((n, n)) < 0.02) * rng.integers(1, 9, (n, n)), 1).astype(float)
    matrix[np.arange(n - 1), np.arange(1, n)] = 1
    first, second = np.nonzero(matrix)
    whole = matrix + matrix.T
    degree = whole.sum(axis=1)
    exact = np.linalg.eigvalsh(whole + np.diag(degree))[0]
    parts = SignlessLaplacian(np.zeros(n, np.int64), degree, first, second, matrix[first, second], 1)
    found = parts.smallest_eigenvalues()[0]
    assert exact - 1e-9 <= found <= 1.001 * exact


def test_sigma_min_of_many_components_is_that_of_each_alone():
    triangles, squares = {}, {}
    for k in range(40):
        triangles |= complete([f"t{k:03d}{c}" for c in "abc"], common=k + 1)
        squares |= complete([f"s{k:03d}{c}" for c in "abcd"], common=k + 1)
    graph = graph_of({**triangles, **squares})
    assert np.allclose(graph.sigma_min[:40], 2 * np.arange(1, 41))
    assert np.allclose(graph.sigma_min[40:], np.arange(1, 41))


def test_a_hundred_thousand_workers_alone_are_no_trouble():
    graph = graph_of({}, dict.fromkeys(names_of(100_000), 1))
    assert graph.n_components == 100_000
    assert len(graph.fixes()) == len(graph.verdicts()) == 100_000


def test_a_very_long_id_is_shortened_in_a_sentence():
    assert len(graph_of({}, {"x" * 1_000_000: 1, "y\n": 2}).fixes()[0]) < 300


def test_no_workers_make_no_components():
    graph = WorkerGraph.of(EdgeCounts.zero())
    assert graph.n_components == 0
    assert graph.verdicts() == graph.fixes() == []
