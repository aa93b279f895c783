import numpy as np
import pytest

from crowdcore.components import Components


def all_pairs(nodes):
    nodes = np.asarray(nodes)
    one, other = np.triu_indices(len(nodes), 1)
    return np.column_stack([nodes[one], nodes[other]])


def components_of(n_nodes, *edge_lists):
    edges = np.concatenate(edge_lists)
    return Components.of(n_nodes, *edges[np.lexsort(edges.T[::-1])].T)


def test_many_edges_are_one_component_with_odd_cycles():
    found = components_of(300, all_pairs(range(300)))
    assert found.n_components == 1
    assert not found.bipartite[0]


def test_many_edges_in_two_components_are_told_apart():
    found = components_of(400, all_pairs(range(0, 400, 2)), all_pairs(range(1, 400, 2)))
    assert found.component.tolist() == [0, 1] * 200


@pytest.mark.parametrize("extra", [[], [[0, 2]]])
def test_many_edges_without_odd_cycle_are_bipartite_until_one_edge_makes_one(extra):
    sides = np.array([(a, b) for a in range(0, 400, 2) for b in range(1, 400, 2)])
    edges = np.concatenate([np.sort(sides, axis=1), np.array(extra, int).reshape(-1, 2)])
    found = components_of(400, edges)
    assert found.bipartite.tolist() == [not extra]
    if not extra:
        assert found.side.tolist() == [0, 1] * 200


def test_edges_in_no_order_are_told_apart_all_the_same():
    edges = np.random.default_rng(0).permutation(all_pairs(range(200)))
    assert Components.of(201, *edges.T).component.tolist() == [0] * 200 + [1]
