"""DDKR and the triangle estimator on pair counts whose skills are known exactly."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from crowdcore.baselines import triangle
from crowdcore.baselines.ddkr import ddkr_skills
from crowdcore.baselines.triangle import triangle_skills
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.pgd import fit_skills

SKILLS = np.array([0.9, -0.3, 0.5, 0.8, 0.2, 0.6])
CLIQUE = [(i, j) for i in range(6) for j in range(i + 1, 6)]
ESTIMATORS = {
    "counts": ddkr_skills,
    "plain": lambda edges, **options: ddkr_skills(edges, loss="plain", **options),
    "triangle": triangle_skills,
}


def noiseless(skills, pairs, n_classes=2, n_common=None):
    """Counts whose C is s_i s_j: agreements need not be whole numbers here."""
    first, second = np.array(pairs).T
    common = np.full(len(first), 1000.0) if n_common is None else np.asarray(n_common, float)
    agree = common * (1 + (n_classes - 1) * skills[first] * skills[second]) / n_classes
    names = np.array([f"{i:02d}" for i in range(len(skills))], object)
    size = np.full(len(skills), 10**6)
    classes = tuple("abcdefgh"[:n_classes])
    return EdgeCounts(names, size, size * 0, first, second, common, agree, classes)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_noiseless_clique_gives_the_skills_exactly(name, n_classes):
    found = ESTIMATORS[name](noiseless(SKILLS, CLIQUE, n_classes))
    assert np.max(np.abs(found - SKILLS)) < 1e-8


@pytest.mark.parametrize("name", ESTIMATORS)
def test_noiseless_clique_with_unequal_counts_gives_the_skills_exactly(name):
    counts = np.random.default_rng(1).integers(50, 500, len(CLIQUE))
    assert np.max(np.abs(ESTIMATORS[name](noiseless(SKILLS, CLIQUE, n_common=counts)) - SKILLS)) < 1e-7


@pytest.mark.parametrize("name", ESTIMATORS)
def test_star_with_one_triangle_gives_the_skills_of_its_leaves_too(name):
    pairs = [(0, j) for j in range(1, 6)] + [(1, 2)]
    assert np.max(np.abs(ESTIMATORS[name](noiseless(SKILLS, pairs)) - SKILLS)) < 1e-6


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_component_has_its_own_sign(name):
    skills = np.concatenate([SKILLS[:3], SKILLS[3:]])
    pairs = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
    assert np.max(np.abs(ESTIMATORS[name](noiseless(skills, pairs)) - skills)) < 1e-7


def test_triangle_takes_the_pair_with_the_most_evidence_not_the_one_with_one_common_task():
    # Opposite worker 0: (1, 2), C = .4, 900 common tasks, 12; and (1, 3), C = 1 of one common task, 1.
    names = np.array(["a", "b", "c", "d"], object)
    first, second = np.array([0, 0, 0, 1, 1]), np.array([1, 2, 3, 2, 3])
    common, agreed = np.array([900, 900, 900, 900, 1.0]), np.array([0.6, 0.54, 0.3, 0.4, 1.0])
    size = np.full(4, 10**6)
    edges = EdgeCounts(names, size, size * 0, first, second, common, common * (1 + agreed) / 2, ("n", "y"))
    assert triangle_skills(edges)[0] == pytest.approx(np.sqrt(0.6 * 0.54 / 0.4))


@pytest.mark.parametrize("first_edges", [1, 4, 64])
def test_the_best_triangle_of_every_worker_is_that_of_a_search_through_all(first_edges, monkeypatch):
    monkeypatch.setattr(triangle, "_FIRST_EDGES", first_edges)
    rng = np.random.default_rng(3)
    pairs = [(i, j) for i in range(14) for j in range(i + 1, 14) if rng.random() < 0.5]
    edges = noiseless(rng.uniform(-0.9, 0.9, 14), pairs, n_common=rng.integers(1, 400, len(pairs)))
    agreed = 2 * edges.n_agree / edges.n_common - 1
    common = dict(zip(pairs, edges.n_common, strict=True))
    shared = {**common, **{(j, i): n for (i, j), n in common.items()}}
    table = sp.csr_array(sp.coo_array((list(shared.values()), tuple(np.array(list(shared)).T)), shape=(14, 14)))
    found = triangle.best_triangles(edges, agreed, table)
    for worker in range(14):
        scores = [
            abs(agreed[at]) * np.sqrt(min(shared[worker, j], shared[worker, k], shared[j, k]))
            if (worker, j) in shared and (worker, k) in shared
            else 0.0
            for at, (j, k) in enumerate(pairs)
        ]
        assert found[worker] == (int(np.argmax(scores)) if max(scores) > 0 else -1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_firmest_worker_may_be_the_one_who_is_worse_than_guessing(name):
    skills = np.array([-0.9, 0.6, 0.5, 0.7])
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert np.max(np.abs(ESTIMATORS[name](noiseless(skills, pairs)) - skills)) < 1e-7


@pytest.mark.parametrize("loss", ["counts", "plain"])
def test_the_sign_of_ddkr_goes_by_labels_not_by_heads(loss):
    skills = np.array([0.8, -0.5, -0.6])
    edges = noiseless(skills, [(0, 1), (0, 2), (1, 2)])
    busy = replace(edges, n_labels=np.array([10**6, 10**4, 10**4]))
    assert np.max(np.abs(ddkr_skills(busy, loss=loss) - skills)) < 1e-7
    assert np.max(np.abs(ddkr_skills(edges, loss=loss) + skills)) < 1e-7  # as many labels each: the two are right


def test_a_worker_without_peers_gets_the_mean_of_the_others_by_their_labels():
    skills = np.array([0.9, 0.6, 0.3, 0.0])
    edges = noiseless(skills, [(0, 1), (0, 2), (1, 2)])
    edges = replace(edges, n_labels=np.array([3 * 10**6, 10**6, 10**6, 10**6]))
    assert ddkr_skills(edges)[3] == pytest.approx((3 * 0.9 + 0.6 + 0.3) / 5)


def test_no_triangle_within_reach_means_a_skill_of_zero():
    square = [(0, 1), (1, 2), (2, 3), (0, 3)]
    assert np.array_equal(triangle_skills(noiseless(SKILLS[:4], square)), np.zeros(4))


@pytest.mark.parametrize("loss", ["counts", "plain"])
def test_ddkr_ends_at_a_minimum_that_the_other_solver_finds_too(loss):
    rng = np.random.default_rng(2)
    edges = noiseless(SKILLS, CLIQUE, n_common=rng.integers(50, 500, len(CLIQUE)))
    noisy = edges.n_agree + rng.normal(0, 5, len(CLIQUE))
    edges = EdgeCounts(*edges.arrays()[:6], noisy, edges.classes)
    weights = {"counts": "squared", "plain": "binary"}[loss]
    assert np.max(np.abs(ddkr_skills(edges, loss=loss) - fit_skills(edges, weights=weights).skills)) < 1e-6


def test_both_losses_differ_under_noise_and_others_are_refused():
    edges = noiseless(SKILLS, CLIQUE, n_common=np.arange(50, 350, 20))
    edges = EdgeCounts(*edges.arrays()[:6], edges.n_agree + np.tile([4.0, -4.0, 2.0], 5), edges.classes)
    assert np.max(np.abs(ddkr_skills(edges) - ddkr_skills(edges, loss="plain"))) > 1e-3
    with pytest.raises(InvalidOptionError, match="counts, plain"):
        ddkr_skills(edges, loss="cubed")
