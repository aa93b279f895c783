import numpy as np
import pytest

from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.graph import GOLD, WorkerGraph
from crowdcore.labels import group_labels
from crowdcore.pgd import fit_skills
from crowdcore.problem import AgreementProblem
from crowdcore.solution import solve

MANY = 10**9


def edges_of(agreements, n_labels=None, n_common=MANY, n_classes=2):
    """EdgeCounts whose C is {(worker, worker): C}, as near as whole counts allow."""
    workers = sorted({name for pair in agreements for name in pair} | set(n_labels or ()))
    rows = sorted((workers.index(min(pair)), workers.index(max(pair)), c) for pair, c in agreements.items())
    first, second = (np.array([row[k] for row in rows], np.int64) for k in range(2))
    share = (1 + (n_classes - 1) * np.array([row[2] for row in rows], float)) / n_classes
    common = np.full(len(rows), n_common, np.int64)
    labels = np.array([(n_labels or {}).get(worker, MANY) for worker in workers], np.int64)
    classes = tuple(str(k) for k in range(n_classes))
    agree = np.rint(share * common).astype(np.int64)
    return EdgeCounts(np.array(workers, object), labels, 0 * labels, first, second, common, agree, classes)


def products(skills, pairs):
    return {(a, b): skills[a] * skills[b] for a, b in pairs}


def all_pairs(names):
    return [(a, b) for a in names for b in names if a < b]


def skills_of(fit):
    return dict(zip(fit.workers, fit.skills.tolist(), strict=True))


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


# Noiseless counts


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


@pytest.mark.parametrize("n_classes", [2, 4])
def test_counts_that_follow_the_model_give_back_its_skills(n_classes):
    skills = dict(a=0.9, b=0.3, c=0.55, d=0.7, e=0.45)
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e")]
    fit = fit_skills(edges_of(products(skills, pairs), n_classes=n_classes))
    assert skills_of(fit) == pytest.approx(skills, abs=1e-6)
    assert fit.n_classes == n_classes
    assert fit.converged
    assert set(fit.status) == {"ok"}


# The solvers


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


# Components, sign, balance


def test_a_component_gets_the_skills_it_would_get_alone():
    one, _ = crowd(1, n_workers=9)
    other, _ = crowd(2, n_workers=6)
    other = EdgeCounts(
        np.array([f"x{name}" for name in other.workers], object), other.n_labels, other.n_triples,
        other.first, other.second, other.n_common, other.n_agree, other.classes,
    )  # fmt: skip
    both = fit_skills(one + other)
    alone = {**skills_of(fit_skills(one)), **skills_of(fit_skills(other))}
    assert skills_of(both) == pytest.approx(alone, abs=1e-8)


def test_each_component_gets_its_own_sign_by_its_labels():
    skills = dict(a=0.9, b=0.8, c=-0.7, x=-0.9, y=-0.8, z=0.7)
    pairs = [*all_pairs("abc"), *all_pairs("xyz")]
    labels = dict(a=1000, b=1000, c=1000, x=1000, y=1000, z=100_000)
    fit = fit_skills(edges_of(products(skills, pairs), labels), tau=0.0)
    assert skills_of(fit) == pytest.approx(skills, abs=1e-6)


def test_a_component_without_odd_cycle_is_flagged_and_balanced():
    """x_a x_b = 0.4 and x_b x_c = 0.1 with x_a² + x_c² = x_b²: x_b⁴ = 0.17."""
    fit = fit_skills(edges_of({("a", "b"): 0.4, ("b", "c"): 0.1}))
    middle = 0.17**0.25
    assert fit.skills == pytest.approx([0.4 / middle, middle, 0.1 / middle], abs=1e-6)
    assert set(fit.status) == {"unidentified"}


def test_balance_stays_within_the_bounds():
    """b may not pass 1 − 1/√4 = 0.5, where balance would need 0.64."""
    fit = fit_skills(edges_of({("a", "b"): 0.4, ("b", "c"): 0.1}, dict(b=4)))
    assert fit.skills == pytest.approx([0.8, 0.5, 0.2], abs=1e-6)


def test_random_graphs_without_odd_cycle_are_finite_and_balanced():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        first, second = sparse_graph(rng, 12, 10, odd=False)
        skills = rng.uniform(0.3, 0.8, 12)
        names = [f"w{k:02d}" for k in range(12)]
        agreements = {(names[a], names[b]): skills[a] * skills[b] for a, b in zip(first, second, strict=True)}
        edges = edges_of(agreements)
        side = WorkerGraph.of(edges).side
        fit = fit_skills(edges)
        assert np.all(np.isfinite(fit.skills))
        assert fit.skills[first] * fit.skills[second] == pytest.approx(skills[first] * skills[second], abs=1e-5)
        left, right = (fit.skills[side == k] for k in (0, 1))
        if max(np.abs(fit.skills)) < 0.99:
            assert np.sum(left**2) == pytest.approx(np.sum(right**2), rel=1e-6)


def test_a_worker_without_peers_gets_the_mean_of_the_others_by_their_labels():
    skills = dict(a=0.9, b=0.6, c=0.3)
    labels = dict(a=100, b=200, c=700, lone=400, short=4)
    fit = fit_skills(edges_of(products(skills, all_pairs("abc")), labels), tau=0.0)
    assert skills_of(fit)["lone"] == pytest.approx(0.09 + 0.12 + 0.21, abs=1e-6)
    assert skills_of(fit_skills(edges_of(products(skills, all_pairs("abc")), dict(short=1))))["short"] == 0.0
    assert dict(zip(fit.workers, fit.status, strict=True))["lone"] == "isolated"


def test_workers_all_alone_get_a_half_within_their_bounds():
    fit = fit_skills(edges_of({}, dict(a=100, b=1, c=4)))
    assert skills_of(fit) == dict(a=0.5, b=0.0, c=0.5)
    assert set(fit.status) == {"isolated"}


# Bounds


def test_skills_stay_within_one_minus_tau_over_the_root_of_their_labels():
    agreements = products(dict(a=1.0, b=1.0, c=1.0), all_pairs("abc"))
    for tau in (1.0, 2.0):
        fit = fit_skills(edges_of(agreements, dict(a=16, b=100, c=400)), tau=tau)
        assert fit.skills == pytest.approx([1 - tau / 4, 1 - tau / 10, 1 - tau / 20], abs=1e-12)
        assert set(fit.status) == {"saturated"}


def test_a_worker_with_one_label_has_no_skill_and_tells_nothing_about_its_peers():
    skills = dict(a=0.9, b=0.8, c=0.7)
    triangle = products(skills, all_pairs("abc"))
    edges = edges_of({**triangle, ("a", "once"): 1.0, ("b", "once"): -1.0}, dict(once=1))
    fit = fit_skills(edges)
    assert skills_of(fit) == pytest.approx({**skills, "once": 0.0}, abs=1e-6)
    assert dict(zip(fit.workers, fit.status, strict=True))["once"] == "saturated"
    assert fit.loss == pytest.approx(2.0 * MANY, rel=1e-6)


def test_an_odd_cycle_through_a_worker_with_one_label_determines_nothing():
    fit = fit_skills(edges_of({("a", "b"): 0.36, ("a", "once"): 1.0, ("b", "once"): 1.0}, dict(once=1)))
    assert skills_of(fit) == pytest.approx(dict(a=0.6, b=0.6, once=0.0), abs=1e-6)
    assert fit.status.tolist() == ["unidentified", "unidentified", "saturated"]


# Gold and prior


def test_gold_is_held_at_one_and_needs_no_odd_cycle():
    """x_a = C(gold, a) and x_b = C(a, b) / x_a."""
    fit = fit_skills(edges_of({(GOLD, "a"): 0.5, ("a", "b"): 0.2}))
    assert fit.skills == pytest.approx([1.0, 0.5, 0.4], abs=1e-6)
    assert set(fit.status) == {"ok"}


@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_gold_gives_the_sign(solver):
    skills = {GOLD: 1.0, "a": -0.9, "b": -0.8, "c": 0.3}
    pairs = [(GOLD, "a"), *all_pairs("abc")]
    assert skills_of(fit_skills(edges_of(products(skills, pairs)), solver=solver)) == pytest.approx(skills, abs=1e-6)


def test_gold_alone_changes_nothing():
    triangle = products(dict(a=0.9, b=0.8, c=0.7), all_pairs("abc"))
    fit = fit_skills(edges_of(triangle, {GOLD: 5}))
    assert fit.skills == pytest.approx([1.0, 0.9, 0.8, 0.7], abs=1e-6)


@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_a_prior_pulls_by_its_strength(solver):
    """One pair with C = 0.25, N = 100, and prior 0.8 for a: minimise 100 (0.25 − x y)² + λ (x − 0.8)², so y = 0.25 / x."""
    edges = edges_of({("a", "b"): 0.25}, n_common=100, n_labels=dict(a=10**6, b=10**6))
    fit = fit_skills(edges, prior={"a": 0.8, "nobody": 0.1}, prior_strength=3.0, solver=solver)
    assert fit.skills == pytest.approx([0.8, 0.25 / 0.8 * 0.96 / 0.96], abs=0.01)
    weak = fit_skills(edges_of(products(dict(a=0.9, b=0.8, c=0.7), all_pairs("abc")), n_common=1000), prior={"a": 0.2})
    assert weak.skills == pytest.approx([0.9, 0.8, 0.7], abs=0.01)


def test_a_prior_as_strong_as_the_data_meets_them_half_way():
    """Gold says 0.2 over 100 tasks, the prior 0.6 with strength 100: 100 (0.2 − x)² + 100 (x − 0.6)² is least at 0.4."""
    edges = edges_of({(GOLD, "a"): 0.2}, n_common=100)
    assert fit_skills(edges, prior=[np.nan, 0.6], prior_strength=100.0).skills[1] == pytest.approx(0.4, abs=1e-9)


def test_a_prior_gives_the_sign_and_the_skill_of_a_worker_without_peers():
    edges = edges_of(products(dict(a=0.9, b=0.8, c=0.7), all_pairs("abc")), dict(lone=10**8))
    fit = fit_skills(edges, prior={"a": -0.9, "lone": 0.33}, prior_strength=1e6)
    assert skills_of(fit) == pytest.approx(dict(a=-0.9, b=-0.8, c=-0.7, lone=0.33), abs=1e-3)


# Options


def test_every_option_changes_the_skills():
    edges, _ = crowd(3)
    plain = fit_skills(edges).skills
    for options in (
        dict(weights="binary"), dict(weights="squared"), dict(weights="saturating"), dict(n_classes=3), dict(tau=6.0),
        dict(prior={"w00": -0.5}, prior_strength=10.0), dict(max_rounds=1), dict(tol=1e-2),
    ):  # fmt: skip
        assert not np.array_equal(fit_skills(edges, **options).skills, plain), options
    far, near = (fit_skills(edges, weights="saturating", saturation=n0).skills for n0 in (1.0, 100.0))
    assert np.max(np.abs(far - near)) > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        dict(weights="cubed"), dict(weights="saturating", saturation=-1.0), dict(solver="sgd"), dict(start="best"),
        dict(start=[0.5]), dict(n_classes=1), dict(tau=-1.0), dict(prior={"w00": 1.5}, prior_strength=1.0),
        dict(prior_strength=-1.0), dict(max_rounds=0), dict(tol=0.0),
    ],
)  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidOptionError, match="it takes"):
        fit_skills(crowd(3)[0], **options)


def test_nothing_in_gives_nothing_out():
    fit = fit_skills(EdgeCounts.zero())
    assert len(fit.skills) == len(fit.status) == 0
    assert fit.loss == 0.0
    assert fit.converged


def test_workers_who_agree_by_chance_alone_are_finite():
    fit = fit_skills(edges_of({pair: 0.0 for pair in all_pairs("abcd")}))
    assert np.all(np.abs(fit.skills) < 1e-3)
