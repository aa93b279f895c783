from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import truncnorm

from crowdcore.covariance import NormalEquations
from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.graph import GOLD
from crowdcore.labels import group_labels
from crowdcore.pgd import fit_skills
from crowdcore.uncertainty import _conditioned, skill_intervals, standard_errors

Z90 = 1.6448536269514722


def edges_of(rows, n_labels, n_triples=None):
    """EdgeCounts of (worker, worker, common, agreements) with {worker: labels}."""
    workers = sorted(n_labels)
    first, second = (np.array([workers.index(row[k]) for row in rows], np.int64) for k in (0, 1))
    common, agree = (np.array([row[k] for row in rows], np.int64) for k in (2, 3))
    labels = np.array([n_labels[worker] for worker in workers], np.int64)
    triples = 0 * labels if n_triples is None else np.array([n_triples[worker] for worker in workers], np.int64)
    return EdgeCounts(np.array(workers, object), labels, triples, first, second, common, agree, ("no", "yes"))


def ring(rng, tasks_per_worker):
    """Two labels a task; each worker has common tasks with the two before and the two after."""
    one = np.repeat(np.arange(41), tasks_per_worker // 2)
    other = (one + np.tile([1, 2], len(one) // 2)) % 41
    return np.stack([one, other], axis=1)


def mixed(rng, tasks_per_worker):
    """Five labels a task, by any of 60 workers."""
    return np.argsort(rng.random((12 * tasks_per_worker, 60)), axis=1)[:, :5]


def uneven(rng, tasks_per_worker):
    """Five labels a task; some of the 60 workers do ten times as much as others."""
    activity = rng.exponential(1.0, 60) + 0.3
    return np.argsort(rng.exponential(1.0, (12 * tasks_per_worker, 60)) / activity, axis=1)[:, :5]


def everyone(rng, tasks_per_worker):
    """Eleven workers label every task."""
    return np.tile(np.arange(11), (tasks_per_worker, 1))


def star(rng, tasks_per_worker):
    """The paper's G2: one worker in the middle, ten around it, two of them joined; two labels a task."""
    pairs = np.array([(0, leaf) for leaf in range(1, 11)] + [(1, 2)])
    return np.repeat(pairs, tasks_per_worker, axis=0)


def crowd(assign, seed, n_classes=2, tasks_per_worker=200):
    """Labels of one coin a worker, skills between 0.1 and 0.9, as EdgeCounts; and the skills."""
    rng = np.random.default_rng(seed)
    worker = assign(rng, tasks_per_worker)
    n_workers, n_tasks = int(worker.max()) + 1, len(worker)
    skills = rng.uniform(0.1, 0.9, n_workers)
    task, worker = np.repeat(np.arange(n_tasks), worker.shape[1]), worker.ravel()
    truth = rng.integers(0, n_classes, n_tasks)[task]
    right = rng.random(len(task)) < (1 + (n_classes - 1) * skills[worker]) / n_classes
    label = np.where(right, truth, (truth + rng.integers(1, n_classes, len(task))) % n_classes)
    grouped = group_labels(task, worker, label, n_tasks=n_tasks, n_workers=n_workers, n_classes=n_classes)
    names = [f"w{k:02d}" for k in range(n_workers)]
    return EdgeCounts.of(grouped.labels, names, [str(k) for k in range(n_classes)]), skills


def coverage(assign, n_classes=2, tasks_per_worker=200):
    """The share of at least 2,000 intervals that hold the true skill."""
    hits = []
    while len(hits) < 2000:
        edges, skills = crowd(assign, len(hits), n_classes, tasks_per_worker)
        low, high = skill_intervals(edges, fit_skills(edges))
        hits.extend((low <= skills) & (skills <= high))
    return float(np.mean(hits))


@pytest.mark.parametrize(
    ("assign", "n_classes", "tasks_per_worker"),
    [
        (ring, 2, 200), (mixed, 2, 200), (everyone, 2, 200), (star, 2, 200), (uneven, 2, 200),
        (mixed, 4, 200), (everyone, 4, 200), (ring, 2, 800),
    ],
)  # fmt: skip
def test_ninety_percent_intervals_hold_the_true_skill_ninety_percent_of_the_time(assign, n_classes, tasks_per_worker):
    assert 0.87 <= coverage(assign, n_classes, tasks_per_worker) <= 0.93


def test_a_triangle_has_the_errors_of_its_closed_form():
    """x_a² = C_ab C_ac / C_bc, so that Var log x = ¼ Σ (1 − C²)/(N C²), the same for all three."""
    rows = [("a", "b", 10_000, 8600), ("a", "c", 20_000, 16_300), ("b", "c", 40_000, 31_200)]
    edges = edges_of(rows, dict.fromkeys("abc", 60_000))
    agreement, common = np.array([0.72, 0.63, 0.56]), np.array([10_000, 20_000, 40_000])
    relative = np.sqrt(np.sum((1 - agreement**2) / (common * agreement**2)) / 4)
    assert standard_errors(edges, fit_skills(edges)) == pytest.approx(relative * np.array([0.9, 0.8, 0.7]), rel=1e-3)


def test_a_worker_with_gold_has_the_error_of_a_share():
    """Right 800 times in 1000: s = 0.6 with variance (1 − 0.36)/1000; gold itself has no error."""
    edges = edges_of([(GOLD, "a", 1000, 800)], {GOLD: 1000, "a": 1000})
    fit = fit_skills(edges)
    error = np.sqrt(0.64 / 1000)
    assert standard_errors(edges, fit) == pytest.approx([0.0, error], rel=1e-3)
    low, high = skill_intervals(edges, fit)
    assert low == pytest.approx([1.0, 0.6 - Z90 * error], rel=1e-3)
    assert high == pytest.approx([1.0, 0.6 + Z90 * error], rel=1e-3)


def test_many_perfect_peers_leave_the_error_of_the_workers_own_share():
    """Next to 300 peers who are nearly always right, on 100 common tasks, a worker is as uncertain as with gold."""
    n_peers, n_tasks = 300, 100
    rng = np.random.default_rng(0)
    right = np.append(rng.permutation(n_tasks) < 80, np.ones(n_tasks * n_peers, bool)).reshape(-1, n_tasks)
    task = np.tile(np.arange(n_tasks), n_peers + 1)
    worker = np.repeat(np.arange(n_peers + 1), n_tasks)
    grouped = group_labels(task, worker, right.ravel().astype(int), n_tasks=n_tasks, n_workers=n_peers + 1, n_classes=2)
    edges = EdgeCounts.of(grouped.labels, [f"w{k:03d}" for k in range(n_peers + 1)], ["no", "yes"])
    fit = fit_skills(edges, tau=0.1)
    assert fit.skills[0] == pytest.approx(0.6, abs=0.02)
    assert standard_errors(edges, fit)[0] == pytest.approx(np.sqrt((1 - fit.skills[0] ** 2) / n_tasks), rel=0.05)


def test_a_prior_known_by_itself_has_the_error_of_its_strength():
    """λ (x − x⁰)² is the data's scale for a variance of 1/λ."""
    edges = edges_of([("a", "b", 50, 40), ("a", "c", 50, 40), ("b", "c", 50, 40)], dict.fromkeys("abcd", 100))
    fit = fit_skills(edges, prior={"d": 0.5}, prior_strength=400.0)
    assert standard_errors(edges, fit)[3] == pytest.approx(1 / 20, rel=1e-3)


def test_where_the_data_tell_nothing_the_interval_is_everything():
    edges = edges_of([("a", "b", 50, 40), ("b", "c", 50, 40)], dict.fromkeys("abcd", 100))
    fit = fit_skills(edges)
    low, high = skill_intervals(edges, fit)
    assert low.tolist() == [-1.0] * 4
    assert high.tolist() == [1.0] * 4
    assert np.all(np.isinf(standard_errors(edges, fit)))


def test_intervals_hold_the_skill_and_grow_with_the_confidence():
    edges, _ = crowd(ring, 1)
    fit = fit_skills(edges)
    low, high = skill_intervals(edges, fit)
    wider_low, wider_high = skill_intervals(edges, fit, confidence=0.99)
    assert np.all((low <= fit.skills) & (fit.skills <= high))
    assert np.all((wider_low <= low) & (high <= wider_high) & (wider_high - wider_low > high - low))
    assert np.all((wider_low >= -1) & (wider_high <= 1))


def test_a_skill_held_at_its_bound_reaches_beyond_it():
    """Three workers who agree on all of 10,000 tasks with bounds at 0.9: the truth is above."""
    rows = [("a", "b", 10_000, 10_000), ("a", "c", 10_000, 10_000), ("b", "c", 10_000, 10_000)]
    edges = edges_of(rows, dict.fromkeys("abc", 100))
    fit = fit_skills(edges)
    assert fit.skills == pytest.approx([0.9, 0.9, 0.9])
    low, high = skill_intervals(edges, fit)
    assert np.all(low < 0.9)
    assert np.all(high > 0.97)


def test_overlapping_tasks_make_longer_intervals():
    edges, _ = crowd(everyone, 3)
    fit = fit_skills(edges)
    apart = EdgeCounts(
        edges.workers, edges.n_labels, 0 * edges.n_triples, edges.first, edges.second, edges.n_common, edges.n_agree,
        edges.classes,
    )  # fmt: skip
    assert np.all(standard_errors(edges, fit) > 1.1 * standard_errors(apart, fit))


def normal_equations(rng, sizes, degree):
    """P and E like those of skills, for random graphs of the given sizes; and both as whole matrices."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    n_nodes = len(part)
    near = np.abs(np.arange(n_nodes)[:, None] - np.arange(n_nodes)) <= degree // 2
    joined = np.triu(near & (part[:, None] == part), 1)
    x, weight = rng.uniform(0.1, 0.9, n_nodes), np.where(joined, rng.integers(20, 90, joined.shape), 0).astype(float)
    weight += weight.T
    variance = 1 - np.outer(x, x) ** 2
    p = weight * np.outer(x, x) + np.diag(weight @ x**2)
    e = weight * variance * np.outer(x, x) + np.diag((weight * variance) @ x**2)
    first, second = np.nonzero(joined)
    system = NormalEquations(
        part, len(sizes), first, second, p[first, second], e[first, second], np.diag(p).copy(), np.diag(e).copy()
    )
    return system, p, e


def test_blocks_are_those_of_the_whole_matrix():
    system, p, e = normal_equations(np.random.default_rng(2), [3, 5, 3, 70, 4, 90, 8], degree=6)
    inverse = np.linalg.inv(p)
    expected, seen = inverse @ e @ inverse, []
    for block, covariance, inverted in system.exact_blocks():
        for nodes, one, other in zip(block, covariance, inverted, strict=True):
            here = np.flatnonzero(nodes >= 0)
            nodes = nodes[here]
            assert one[np.ix_(here, here)] == pytest.approx(expected[np.ix_(nodes, nodes)], rel=1e-6, abs=1e-12)
            assert other[np.ix_(here, here)] == pytest.approx(inverse[np.ix_(nodes, nodes)], rel=1e-6, abs=1e-12)
            seen.extend(nodes)
    assert sorted(seen) == list(range(len(p)))


@pytest.mark.parametrize(("degree", "error"), [(4, 0.2), (40, 0.06)])
def test_probes_come_near_the_exact_variances(degree, error):
    system, p, e = normal_equations(np.random.default_rng(5), [1200], degree)
    inverse = np.linalg.inv(p)
    exact = np.sum((inverse @ e) * inverse, axis=1)
    ratio = system.probed_variances() / exact
    assert np.sqrt(np.mean((ratio - 1) ** 2)) < error
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("confidence", [0.0, 1.0, float("nan")])
def test_bad_confidence_is_refused(confidence):
    edges, _ = crowd(everyone, 3)
    with pytest.raises(InvalidOptionError, match="it takes"):
        skill_intervals(edges, fit_skills(edges), confidence)


def test_no_workers_have_no_intervals():
    low, high = skill_intervals(EdgeCounts.zero(), fit_skills(EdgeCounts.zero()))
    assert len(low) == len(high) == 0


def test_triples_of_tasks_whose_pairs_were_sampled_count_no_more_than_the_workers_labels():
    """φ is at most 1/n then: the errors are those of the triples that make it just that, (200² − 2·100²)/n."""
    rows = [("a", "b", 100, 80), ("a", "c", 100, 75), ("b", "c", 100, 70)]
    n_labels = dict.fromkeys("abc", 100)
    many = edges_of(rows, n_labels, dict.fromkeys("abc", 10**6))
    just = edges_of(rows, n_labels, dict.fromkeys("abc", (200**2 - 2 * 100**2) // 100))
    sampled = replace(many, n_sampled=1)
    fit = fit_skills(just)
    np.testing.assert_allclose(standard_errors(sampled, fit), standard_errors(just, fit), rtol=1e-12)
    assert (standard_errors(many, fit) > standard_errors(just, fit)).all()


@pytest.mark.parametrize(("n_common", "n_agree"), [(50, 35), (50, 30), (100, 54)])
def test_errors_allow_for_squares_of_noisy_skills_being_too_large(n_common, n_agree):
    """Three workers alike, tasks apart: x⁴ = C², Var x = ¾ (1 − C²)/(N C), and a peer's own noise is (1 − C²)/(2 N C).

    Less that, though at least half of it, is left of the x² = C in the denominators.
    """
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    edges = edges_of([(*pair, n_common, n_agree) for pair in pairs], dict.fromkeys("abc", 10_000))
    agreement = 2 * n_agree / n_common - 1
    variance = 0.75 * (1 - agreement**2) / (n_common * agreement)
    noise = min((1 - agreement**2) / (2 * n_common * agreement), agreement / 2)
    expected = np.sqrt(variance * agreement / (agreement - noise))
    assert standard_errors(edges, fit_skills(edges)) == pytest.approx(np.full(3, expected), rel=0.02)


@pytest.mark.parametrize(("mean", "spread"), [(0.95, 0.1), (1.3, 0.2), (-1.1, 0.3), (0.0, 2.0)])
def test_a_held_skill_has_the_moments_of_a_normal_distribution_cut_off_at_one(mean, spread):
    cut = truncnorm((-1 - mean) / spread, (1 - mean) / spread, mean, spread)
    found, variance = _conditioned(np.array([[mean]]), np.array([[[spread**2]]]), np.array([[True]]))
    assert found[0, 0] == pytest.approx(cut.mean(), rel=1e-6)
    assert variance[0, 0, 0] == pytest.approx(cut.var(), rel=1e-6)


def test_a_cut_moves_the_peers_of_a_held_skill_by_what_they_have_in_common():
    """x₁ given x₀ is m₁ + c/v₀ (x₀ − m₀) with the variance v₁ − c²/v₀; x₀ has the moments of its cut."""
    mean, covariance = np.array([1.1, 0.4]), np.array([[0.04, 0.03], [0.03, 0.09]])
    cut = truncnorm((-1 - 1.1) / 0.2, (1 - 1.1) / 0.2, 1.1, 0.2)
    found, conditioned = _conditioned(mean[None], covariance[None], np.array([[True, False]]))
    assert found[0] == pytest.approx([cut.mean(), 0.4 + 0.75 * (cut.mean() - 1.1)], rel=1e-6)
    spread = [[cut.var(), 0.75 * cut.var()], [0.75 * cut.var(), 0.09 - 0.75 * 0.03 + 0.75**2 * cut.var()]]
    assert conditioned[0] == pytest.approx(np.array(spread), rel=1e-6)


def test_a_skill_that_no_bound_holds_is_not_cut_off():
    mean, covariance = np.array([[1.2, 0.9]]), np.array([[[0.04, 0.01], [0.01, 0.25]]])
    found, conditioned = _conditioned(mean, covariance, np.array([[False, False]]))
    assert found == pytest.approx(mean)
    assert conditioned == pytest.approx(covariance)
