"""The paper's theorems and lemmas, as far as trials can tell."""

import numpy as np
import pytest

from crowdcore.experiments import graphs
from crowdcore.experiments.theory import RECOVERED, judge_bound, smallest_eigenvalue, try_theory


@pytest.fixture(scope="module")
def found():
    return try_theory(12, np.random.default_rng(0))


def test_skills_come_back_without_noise_if_and_only_if_there_is_an_odd_cycle(found):
    ways = found.identifiability
    assert (ways.from_starts[ways.odd_cycle] < RECOVERED).all()
    assert (ways.from_starts[~ways.odd_cycle] > RECOVERED).all()  # the balanced skills are the true ones by chance only
    assert (ways.sigma_min[ways.odd_cycle] > 0.05).all()
    assert ways.sigma_min[~ways.odd_cycle] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n", [5, 7, 11])
def test_sigma_min_of_an_odd_cycle_is_that_of_its_formula(n):
    # The signless Laplacian of a cycle has the eigenvalues 2 + 2 cos(2πk/n).
    expected = min(2 + 2 * np.cos(2 * np.pi * k / n) for k in range(n))
    assert smallest_eigenvalue(graphs.cycle(n).astype(float)) == pytest.approx(expected)


def test_the_bound_holds_inside_its_assumptions_also_halved_and_is_loose(found):
    bound = found.bound
    assert bound.inside.any(axis=(1, 2)).all()
    assert not bound.inside.all()
    ratio = bound.looseness[bound.inside]
    assert ratio.min() > 2
    assert np.median(ratio) > 20


def test_errors_grow_with_the_noise_in_proportion_while_it_is_small(found):
    small = np.median(found.bound.errors, axis=2)[:, :4]
    growth = small[:, -1] / small[:, 0]
    wanted = found.bound.noises[3] / found.bound.noises[0]
    assert (np.abs(np.log(growth / wanted)) < np.log(2.5)).all()


def test_lemma_2_fails_as_printed_and_holds_with_artanh(found):
    deltas, differences = found.lemmas.deltas, found.lemmas.differences
    assert (differences > 2 * deltas + 1e-6).any()
    assert (differences <= 2 * np.arctanh(deltas) + 2**-29).all()
    assert differences.max() > 1


def test_lemma_3_the_two_losses_differ_by_a_constant(found):
    assert found.lemmas.loss_gap < 1e-12


def test_the_bound_of_a_triangle_is_that_of_its_formula():
    # N has three pairs of 10 tasks: ‖N‖_F = 10 √6, Q has the eigenvalues 40, 10, 10. Δ of .1 everywhere has ‖Δ‖₂ = .2.
    counts, noises = 10.0 * graphs.clique(3), 0.1 * graphs.clique(3)
    skills = np.array([0.5, 0.8, 0.9])
    error, bound, _ = judge_bound(skills, skills + np.array([0.03, 0.0, 0.04]), counts, noises)
    assert error == pytest.approx(0.05)
    assert bound == pytest.approx(10 * np.sqrt(6) * 0.2 / (0.5**2 * 10))


@pytest.mark.parametrize(("factor", "inside"), [(0.99, 1.0), (1.01, 0.0)])
def test_the_ball_of_a_triangle_is_that_of_its_formula(factor, inside):
    # 2 δ + δ² = σ_min / (6 d) = 10 / 120, by hand for the triangle of the test before.
    radius = np.sqrt(13 / 12) - 1
    skills = np.array([0.5, 0.8, 0.9])
    moved = skills * (1 + factor * radius * np.array([1, 0, -1]))
    assert judge_bound(skills, moved, 10.0 * graphs.clique(3), 0.1 * graphs.clique(3))[2] == inside
