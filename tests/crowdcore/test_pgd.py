import numpy as np
import pytest

from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.graph import GOLD
from crowdcore.labels import group_labels
from crowdcore.pgd import fit_skills

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


@pytest.mark.parametrize("n_classes", [2, 4])
def test_counts_that_follow_the_model_give_back_its_skills(n_classes):
    skills = {"a": 0.9, "b": 0.3, "c": 0.55, "d": 0.7, "e": 0.45}
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e")]
    fit = fit_skills(edges_of(products(skills, pairs), n_classes=n_classes))
    assert skills_of(fit) == pytest.approx(skills, abs=1e-6)
    assert fit.n_classes == n_classes
    assert fit.converged
    assert set(fit.status) == {"ok"}


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
    skills = {"a": 0.9, "b": 0.8, "c": -0.7, "x": -0.9, "y": -0.8, "z": 0.7}
    pairs = [*all_pairs("abc"), *all_pairs("xyz")]
    labels = {"a": 1000, "b": 1000, "c": 1000, "x": 1000, "y": 1000, "z": 100_000}
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
    fit = fit_skills(edges_of({("a", "b"): 0.4, ("b", "c"): 0.1}, {"b": 4}))
    assert fit.skills == pytest.approx([0.8, 0.5, 0.2], abs=1e-6)


def test_a_worker_without_peers_gets_the_mean_of_the_others_by_their_labels():
    skills = {"a": 0.9, "b": 0.6, "c": 0.3}
    labels = {"a": 100, "b": 200, "c": 700, "lone": 400, "short": 4}
    fit = fit_skills(edges_of(products(skills, all_pairs("abc")), labels), tau=0.0)
    assert skills_of(fit)["lone"] == pytest.approx(0.09 + 0.12 + 0.21, abs=1e-6)
    assert skills_of(fit_skills(edges_of(products(skills, all_pairs("abc")), {"short": 1})))["short"] == 0.0
    assert dict(zip(fit.workers, fit.status, strict=True))["lone"] == "isolated"


def test_workers_all_alone_get_a_half_within_their_bounds():
    fit = fit_skills(edges_of({}, {"a": 100, "b": 1, "c": 4}))
    assert skills_of(fit) == {"a": 0.5, "b": 0.0, "c": 0.5}
    assert set(fit.status) == {"isolated"}


# Bounds


def test_skills_stay_within_one_minus_tau_over_the_root_of_their_labels():
    agreements = products({"a": 1.0, "b": 1.0, "c": 1.0}, all_pairs("abc"))
    for tau in (1.0, 2.0):
        fit = fit_skills(edges_of(agreements, {"a": 16, "b": 100, "c": 400}), tau=tau)
        assert fit.skills == pytest.approx([1 - tau / 4, 1 - tau / 10, 1 - tau / 20], abs=1e-12)
        assert set(fit.status) == {"saturated"}


def test_a_worker_with_one_label_has_no_skill_and_tells_nothing_about_its_peers():
    skills = {"a": 0.9, "b": 0.8, "c": 0.7}
    triangle = products(skills, all_pairs("abc"))
    edges = edges_of({**triangle, ("a", "once"): 1.0, ("b", "once"): -1.0}, {"once": 1})
    fit = fit_skills(edges)
    assert skills_of(fit) == pytest.approx({**skills, "once": 0.0}, abs=1e-6)
    assert dict(zip(fit.workers, fit.status, strict=True))["once"] == "saturated"
    assert fit.loss == pytest.approx(2.0 * MANY, rel=1e-6)


def test_an_odd_cycle_through_a_worker_with_one_label_determines_nothing():
    fit = fit_skills(edges_of({("a", "b"): 0.36, ("a", "once"): 1.0, ("b", "once"): 1.0}, {"once": 1}))
    assert skills_of(fit) == pytest.approx({"a": 0.6, "b": 0.6, "once": 0.0}, abs=1e-6)
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
    triangle = products({"a": 0.9, "b": 0.8, "c": 0.7}, all_pairs("abc"))
    fit = fit_skills(edges_of(triangle, {GOLD: 5}))
    assert fit.skills == pytest.approx([1.0, 0.9, 0.8, 0.7], abs=1e-6)


@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_a_prior_chooses_among_equal_solutions(solver):
    """Of all x y = 0.25 the prior x = 0.8 chooses one; without strength none, and x = y = 0.5 is balanced."""
    edges = edges_of({("a", "b"): 0.25}, n_common=1000)
    told = fit_skills(edges, prior={"a": 0.8, "nobody": 0.1}, prior_strength=3.0, solver=solver)
    assert told.skills == pytest.approx([0.8, 0.3125], abs=1e-6)
    assert fit_skills(edges, prior={"a": 0.8}, solver=solver).skills == pytest.approx([0.5, 0.5], abs=1e-6)


def test_a_prior_as_strong_as_the_data_meets_them_half_way():
    """Gold says 0.2 over 100 tasks, the prior 0.6 with strength 100: (0.2 − x)² + (x − 0.6)² is least at 0.4."""
    edges = edges_of({(GOLD, "a"): 0.2}, n_common=100)
    assert fit_skills(edges, prior=[np.nan, 0.6], prior_strength=100.0).skills[1] == pytest.approx(0.4, abs=1e-9)


def test_a_prior_gives_the_sign_and_the_skill_of_a_worker_without_peers():
    edges = edges_of(products({"a": 0.9, "b": 0.8, "c": 0.7}, all_pairs("abc")), {"lone": 10**8})
    fit = fit_skills(edges, prior={"a": -0.9, "lone": 0.33}, prior_strength=1e6)
    assert skills_of(fit) == pytest.approx({"a": -0.9, "b": -0.8, "c": -0.7, "lone": 0.33}, abs=1e-3)


# Options


def test_every_option_changes_the_skills():
    edges, _ = crowd(3)
    plain = fit_skills(edges).skills
    for options in (
        {"weights": "binary"}, {"weights": "squared"}, {"weights": "saturating"}, {"n_classes": 3}, {"tau": 6.0},
        {"prior": {"w00": -0.5}, "prior_strength": 10.0}, {"max_rounds": 1}, {"tol": 1e-2},
    ):  # fmt: skip
        assert not np.array_equal(fit_skills(edges, **options).skills, plain), options
    far, near = (fit_skills(edges, weights="saturating", saturation=n0).skills for n0 in (1.0, 100.0))
    assert np.max(np.abs(far - near)) > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "cubed"}, {"weights": "saturating", "saturation": -1.0}, {"solver": "sgd"}, {"start": "best"},
        {"start": [0.5]}, {"n_classes": 1}, {"tau": -1.0}, {"prior": {"w00": 1.5}, "prior_strength": 1.0},
        {"prior_strength": -1.0}, {"max_rounds": 0}, {"tol": 0.0},
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
    fit = fit_skills(edges_of(dict.fromkeys(all_pairs("abcd"), 0.0)))
    assert np.all(np.abs(fit.skills) < 1e-3)
