from itertools import product

import numpy as np
import pytest

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from crowdcore.pgd import fit_skills
from crowdcore.problem import AgreementProblem
from crowdcore.solution import solve
from crowdcore.starts import starting_points


def sparse_graph(rng, n_workers, n_extra, odd=True):
    """A random tree, one edge that closes an odd cycle (if `odd`), and up to `n_extra` more edges; sorted."""
    parents = [int(rng.integers(0, child)) for child in range(1, n_workers)]
    colour = [0]
    for parent in parents:
        colour.append(1 - colour[parent])
    pairs = {(parent, child) for child, parent in enumerate(parents, start=1)}
    same = [(a, b) for a in range(n_workers) for b in range(a + 1, n_workers) if colour[a] == colour[b]]
    if odd:
        pairs.add(same[rng.integers(len(same))])
    for _ in range(n_extra):
        a, b = sorted(rng.choice(n_workers, 2, replace=False).tolist())
        if odd or colour[a] != colour[b]:
            pairs.add((a, b))
    rows = np.array(sorted(pairs))
    return rows[:, 0], rows[:, 1]


def noiseless(rng, n_workers, n_extra, share_below_zero=0.0):
    first, second = sparse_graph(rng, n_workers, n_extra)
    skills = rng.uniform(0.3, 0.95, n_workers) * np.where(rng.random(n_workers) < share_below_zero, -1, 1)
    skills *= 1 if skills.sum() > 0 else -1
    weight = rng.integers(1, 50, len(first))
    target = skills[first] * skills[second]
    return AgreementProblem.of(first, second, weight=weight, target=target, bounds=np.full(n_workers, 0.99)), skills


def crowd(seed, n_workers=12, n_tasks=300, labels_per_task=4, n_classes=2, skills=None):
    """Labels of one coin a worker, as EdgeCounts, and the skills."""
    rng = np.random.default_rng(seed)
    skills = rng.uniform(0.2, 0.9, n_workers) if skills is None else skills
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :labels_per_task].ravel()
    task = np.repeat(np.arange(n_tasks), labels_per_task)
    truth = rng.integers(0, n_classes, n_tasks)[task]
    right = rng.random(len(task)) < (1 + (n_classes - 1) * skills[worker]) / n_classes
    label = np.where(right, truth, (truth + rng.integers(1, n_classes, len(task))) % n_classes)
    grouped = group_labels(task, worker, label, n_tasks=n_tasks, n_workers=n_workers, n_classes=n_classes)
    names = [f"w{k:02d}" for k in range(n_workers)]
    return EdgeCounts.of(grouped.labels, names, [str(k) for k in range(n_classes)]), skills


@pytest.mark.parametrize("n_extra", [0, 6, 40])
@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_noiseless_skills_are_recovered_on_a_tree_with_one_odd_cycle_and_more(solver, n_extra):
    for seed in range(4):
        problem, skills = noiseless(np.random.default_rng(seed), 8, n_extra)
        found = solve(problem, importance=np.ones(8), solver=solver, start="half")
        assert np.max(np.abs(found.x - skills)) < 1e-6


@pytest.mark.parametrize("n_workers", [30, 150])
def test_noiseless_skills_are_recovered_on_larger_graphs(n_workers):
    for seed in range(3):
        for n_extra in (0, n_workers):
            problem, skills = noiseless(np.random.default_rng(seed), n_workers, n_extra)
            assert np.max(np.abs(solve(problem, importance=np.ones(n_workers)).x - skills)) < 1e-6


def test_workers_worse_than_guessing_are_recovered_on_sparse_graphs():
    for seed in range(5):
        problem, skills = noiseless(np.random.default_rng(seed), 40, 10, share_below_zero=0.3)
        assert np.max(np.abs(solve(problem, importance=np.ones(40)).x - skills)) < 1e-6


def test_random_graphs_without_odd_cycle_are_finite_and_balanced():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        first, second = sparse_graph(rng, 12, 10, odd=False)
        skills = rng.uniform(0.3, 0.6, 12)
        target = skills[first] * skills[second]
        problem = AgreementProblem.of(first, second, weight=np.ones(len(first)), target=target, bounds=np.ones(12))
        found = solve(problem, importance=np.ones(12))
        assert found.x[first] * found.x[second] == pytest.approx(target, abs=1e-8)
        left, right = (found.x[problem.parts.side == k] for k in (0, 1))
        assert np.sum(left**2) == pytest.approx(np.sum(right**2), rel=1e-9)
        assert not found.determined.any()


@pytest.mark.parametrize("weights", ["identity", "saturating"])
def test_both_solvers_find_the_same_minimum(weights):
    edges, _ = crowd(5)
    fast, slow = (fit_skills(edges, solver=solver, weights=weights, start="half") for solver in ("newton", "paper"))
    assert np.max(np.abs(fast.skills - slow.skills)) < 1e-7
    assert fast.loss == pytest.approx(slow.loss, rel=1e-10)
    assert fast.n_rounds < slow.n_rounds


def test_the_papers_update_moves_one_worker_after_the_other():
    edges, _ = crowd(2, n_workers=7, n_tasks=60, labels_per_task=3)
    common, target = np.zeros((7, 7)), np.zeros((7, 7))
    common[edges.first, edges.second] = common[edges.second, edges.first] = edges.n_common
    agreement = 2 * edges.n_agree / edges.n_common - 1
    target[edges.first, edges.second] = target[edges.second, edges.first] = agreement
    bound = 1 - 1 / np.sqrt(edges.n_labels)
    step = 0.5 / common.sum(axis=1).max()
    x = np.full(7, 0.5)
    for _ in range(13):
        for i in range(7):
            x[i] += 2 * step * sum(common[i, j] * (target[i, j] - x[i] * x[j]) * x[j] for j in range(7))
            x[i] = min(max(x[i], -bound[i]), bound[i])
    fit = fit_skills(edges, solver="paper", start="half", max_rounds=13)
    assert fit.skills == pytest.approx(x, abs=1e-12)
    assert fit.n_rounds == 13
    assert not fit.converged
    assert "rounds are used up" in fit.reason


def test_gradient_and_curvature_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    problem, _ = noiseless(rng, 9, 12)
    strength, prior = rng.random(9), rng.uniform(-1, 1, 9)
    problem = AgreementProblem.of(
        problem.first, problem.second, weight=problem.weight, target=problem.target + 0.1,
        bounds=np.ones(9), prior=prior, prior_strength=strength,
    )  # fmt: skip
    x, step = rng.uniform(-1, 1, 9), 1e-5
    nudged = [(x + step * unit, x - step * unit) for unit in np.eye(9)]
    slopes = [(problem.loss(up).sum() - problem.loss(down).sum()) / (2 * step) for up, down in nudged]
    assert 2 * problem.at(x).gradient == pytest.approx(slopes, rel=1e-6, abs=1e-6)
    bends = np.array([(problem.at(up).gradient - problem.at(down).gradient) / (2 * step) for up, down in nudged])
    half = problem.curvature(x).toarray()
    assert half + half.T + np.diag(problem.at(x).diagonal) == pytest.approx(bends, rel=1e-6, abs=1e-6)
    difference = problem.at(x).level - problem.at(prior).level
    assert difference == pytest.approx(problem.loss(x) - problem.loss(prior))


def test_the_loss_is_the_sum_over_all_pairs_and_no_start_beats_it():
    edges, _ = crowd(8)
    fit = fit_skills(edges)
    agreement = 2 * edges.n_agree / edges.n_common - 1
    misfit = agreement - fit.skills[edges.first] * fit.skills[edges.second]
    assert fit.loss == pytest.approx(np.sum(edges.n_common * misfit**2))
    assert fit.loss_history[-1] == fit.loss
    assert fit.loss_history[0] > fit.loss
    for seed in range(5):
        other = fit_skills(edges, start="random", rng=np.random.default_rng(seed))
        assert other.loss >= fit.loss - 1e-6


def test_the_same_counts_give_the_same_bits():
    edges, _ = crowd(4)
    assert np.array_equal(fit_skills(edges).skills, fit_skills(edges).skills)


def test_thousands_of_noisy_triangles_all_converge():
    """Among them are many whose agreements contradict each other, with a saddle or a flat valley on the way."""
    rng = np.random.default_rng(0)
    first = np.repeat(np.arange(3000) * 3, 3) + np.tile([0, 0, 1], 3000)
    second = np.repeat(np.arange(3000) * 3, 3) + np.tile([1, 2, 2], 3000)
    skills = rng.uniform(0.1, 0.9, 9000)
    agree = rng.binomial(100, (1 + skills[first] * skills[second]) / 2)
    names, labels = np.array([f"w{k:04d}" for k in range(9000)], object), np.full(9000, 50)
    edges = EdgeCounts(names, labels, 0 * labels, first, second, np.full(9000, 100), agree, ("no", "yes"))
    assert fit_skills(edges).converged


def test_a_start_at_the_solution_is_already_there():
    edges, _ = crowd(6)
    fit = fit_skills(edges)
    again = fit_skills(edges, start=fit.skills)
    assert again.start == "given"
    assert again.n_rounds < fit_skills(edges, start="half").n_rounds
    assert again.skills == pytest.approx(fit.skills, abs=1e-9)


def test_the_random_start_comes_from_the_generator():
    edges, _ = crowd(6)
    one, same, other = (
        fit_skills(edges, start="random", rng=np.random.default_rng(seed), max_rounds=1).loss_history[0]
        for seed in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize("start", ["half", "spectral", "tree", "random"])
def test_a_named_start_is_reported(start):
    assert fit_skills(crowd(6)[0], start=start).start == start


def test_signs_that_the_data_hardly_tell_are_not_flipped_for_a_little_loss():
    """Workers in a ring, joined to the next two: where two weak neighbours meet, the far side may turn its sign."""
    wrong = {"half": 0, "auto": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        skills = rng.uniform(0.1, 0.9, 41)
        first = np.concatenate([np.arange(41), np.arange(41)])
        second = np.concatenate([(np.arange(41) + 1) % 41, (np.arange(41) + 2) % 41])
        first, second = np.minimum(first, second), np.maximum(first, second)
        order = np.lexsort([second, first])
        first, second = first[order], second[order]
        agree = rng.binomial(50, (1 + skills[first] * skills[second]) / 2)
        names, labels = np.array([f"w{k:02d}" for k in range(41)], object), np.full(41, 200)
        edges = EdgeCounts(names, labels, 0 * labels, first, second, np.full(82, 50), agree, ("no", "yes"))
        for start in wrong:
            wrong[start] += int(np.sum((fit_skills(edges, start=start).skills < 0) & (skills > 0.3)))
    assert wrong["auto"] <= wrong["half"] + 1
    assert wrong["auto"] < 0.02 * 12 * 41


@pytest.mark.parametrize("start", ["spectral", "tree"])
def test_gold_gives_the_signs_of_a_start(start):
    """0 and 1 agree, 1 and the known answers disagree: both are below 0, wherever gold stands among the workers."""
    for seed, gold in product(range(6), (0, 1, 2)):
        place = {0: [1, 2, 0], 1: [0, 2, 1], 2: [0, 1, 2]}[gold]
        one, other, known = place
        pairs = {tuple(sorted((one, other))): 0.3, tuple(sorted((other, known))): -0.6}
        first, second = (np.array([pair[end] for pair in sorted(pairs)]) for end in (0, 1))
        problem = AgreementProblem.of(
            first, second, weight=np.ones(2), target=np.array([pairs[pair] for pair in sorted(pairs)]),
            bounds=np.where(np.arange(3) == gold, 1.0, 0.9), fixed=np.arange(3) == gold,
        )  # fmt: skip
        ((_, x),) = starting_points(problem, start, np.random.default_rng(seed))
        assert np.sign(x[[one, other, known]]).tolist() == [-1, -1, 1]


@pytest.mark.parametrize("n_workers", [12, 20, 30])
def test_the_papers_update_finds_the_minimum_of_larger_random_graphs(n_workers):
    """Trees with an odd cycle and as many edges again, agreements with noise."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        exact, skills = noiseless(rng, n_workers, n_workers)
        target = exact.target + rng.normal(0.0, 0.05, len(exact.target))
        problem = AgreementProblem.of(
            exact.first, exact.second, weight=exact.weight, target=target, bounds=exact.bounds
        )
        slow, fast = (
            solve(problem, importance=np.ones(n_workers), solver=solver, start="half", tol=1e-9)
            for solver in ("paper", "newton")
        )
        assert np.max(np.abs(slow.x - fast.x)) < 1e-5
        assert slow.loss == pytest.approx(fast.loss, rel=1e-9)
        assert np.mean(np.abs(slow.x - skills)) < 0.2
