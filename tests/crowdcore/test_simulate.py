import numpy as np
import pytest

from crowdcore.edges import EdgeCounts
from crowdcore.errors import InvalidOptionError
from crowdcore.simulate import draw_skills, simulate_crowd


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_share(found, probability, n):
    """The share `found` of n draws is within 5 standard deviations of `probability`."""
    assert abs(found - probability) <= 5 * np.sqrt(probability * (1 - probability) / n)


@pytest.mark.parametrize(("n_classes", "skill"), [(2, 0.6), (2, -0.5), (2, 0), (5, 0.6), (5, -0.2), (300, 0.3)])
def test_a_worker_is_right_with_the_probability_of_its_skill(n_classes, skill):
    crowd = simulate_crowd(n_tasks=50_000, n_workers=9, n_classes=n_classes, skills=f"fixed:{skill}", rng=rng())
    right = crowd.label == crowd.truth[crowd.task]
    assert_share(right.mean(), (1 + (n_classes - 1) * skill) / n_classes, len(right))


def test_wrong_labels_are_spread_evenly_over_the_other_classes():
    crowd = simulate_crowd(n_tasks=50_000, n_workers=9, n_classes=4, skills="fixed:0.2", rng=rng())
    step = (crowd.label - crowd.truth[crowd.task]) % 4
    for other in (1, 2, 3):
        assert_share(np.mean(step == other), (1 - 0.4) / 3, len(step))


@pytest.mark.parametrize(("n_classes", "skill", "always"), [(3, 1.0, True), (2, -1.0, False), (4, -1 / 3, False)])
def test_the_ends_of_the_skills_are_always_right_and_never_right(n_classes, skill, always):
    crowd = simulate_crowd(n_tasks=2000, n_workers=6, n_classes=n_classes, skills=np.full(6, skill), rng=rng())
    assert np.all((crowd.label == crowd.truth[crowd.task]) == always)


def test_agreements_of_two_workers_follow_the_product_of_their_skills():
    skills = [0.9, 0.5, -0.2]
    crowd = simulate_crowd(n_tasks=40_000, n_workers=3, graph="clique", n_classes=3, skills=skills, rng=rng())
    edges = EdgeCounts.of(crowd.grouped(), ["a", "b", "c"], ["x", "y", "z"])
    products = {(0, 1): 0.45, (0, 2): -0.18, (1, 2): -0.1}
    for first, second, n_common, n_agree in zip(edges.first, edges.second, edges.n_common, edges.n_agree, strict=True):
        assert n_common == 40_000
        assert_share(n_agree / n_common, (1 + 2 * products[first, second]) / 3, n_common)


def test_the_truth_follows_the_class_prior():
    even = simulate_crowd(n_tasks=50_000, n_workers=5, n_classes=3, rng=rng())
    skewed = simulate_crowd(n_tasks=50_000, n_workers=5, n_classes=3, class_prior=[0.7, 0.3, 0], rng=rng())
    for code, probability in enumerate([0.7, 0.3, 0.0]):
        assert_share(np.mean(even.truth == code), 1 / 3, 50_000)
        assert_share(np.mean(skewed.truth == code), probability, 50_000)


def test_the_same_seed_gives_the_same_crowd():
    one, same, other = (simulate_crowd(n_tasks=50, n_workers=9, rng=rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.worker, same.worker)
    assert np.array_equal(one.label, same.label)
    assert not np.array_equal(one.worker, other.worker)


def test_grouping_a_crowd_keeps_every_label():
    crowd = simulate_crowd(n_tasks=300, n_workers=20, labels_per_task=4, n_classes=3, rng=rng())
    labels = crowd.grouped()
    assert (labels.n_tasks, labels.n_workers, labels.n_classes) == (crowd.n_tasks, crowd.n_workers, 3)
    assert np.all(labels.sizes == 4)
    given = sorted(zip(crowd.task, crowd.worker, crowd.label, strict=True))
    assert given == list(zip(labels.task, labels.worker, labels.label, strict=True))


def test_uniform_skills_lie_between_their_bounds():
    skills = draw_skills("uniform:-0.3,0.8", 20_000, rng())
    assert -0.3 <= skills.min() < -0.29
    assert 0.79 < skills.max() <= 0.8
    assert abs(skills.mean() - 0.25) < 5 * 1.1 / np.sqrt(12 * 20_000)


def test_grid_skills_are_the_papers_even_grid_shuffled():
    skills = draw_skills("grid:-0.3,0.8", 12, rng())
    assert np.allclose(np.sort(skills), [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    assert not np.array_equal(skills, np.sort(skills))


@pytest.mark.parametrize("n_classes", [2, 6])
def test_beta_skills_are_those_of_accuracies_drawn_from_it(n_classes):
    accuracy = (1 + (n_classes - 1) * draw_skills("beta:5,1", 20_000, rng(), n_classes=n_classes)) / n_classes
    assert accuracy.min() >= 0
    assert abs(accuracy.mean() - 5 / 6) < 5 * np.sqrt(5 / (36 * 7) / 20_000)
    assert_share(np.mean(accuracy < 0.8), 0.8**5, 20_000)  # the distribution function of Beta(5, 1) is p⁵


def test_hammers_and_spammers_come_in_the_share_asked_for():
    skills = draw_skills("hammer-spammer:0.3", 200, rng())
    assert sorted(skills.tolist()) == [0.0] * 60 + [0.9] * 140
    assert not np.array_equal(skills, np.sort(skills))


def test_given_skills_are_copied_and_not_changed():
    given = np.array([0.1, 0.2])
    drawn = draw_skills(given, 2, rng())
    drawn[0] = 9
    assert given.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    "text",
    [
        "", "good", "fixed", "fixed:", "fixed:x", "fixed:nan", "fixed:1.5", "fixed:0.1,0.2", "uniform:0.5", "Beta:5,1",
        "uniform:0.8,0.1", "uniform:-2,0", "grid:0,inf", "beta:0,1", "beta:1,inf", "hammer-spammer:1.1",
        "hammer-spammer:-1",
    ],
)  # fmt: skip
def test_bad_skill_texts_are_refused_with_what_is_taken(text):
    with pytest.raises(InvalidOptionError, match=r"it takes uniform:LOW,HIGH or grid:LOW,HIGH or beta:A,B or hammer"):
        draw_skills(text, 3, rng())


@pytest.mark.parametrize("skills", ["uniform:-0.3,0.8", "fixed:-0.26", [0.1, -0.9]])
def test_skills_below_never_right_are_refused(skills):
    n = 200 if isinstance(skills, str) else 2
    with pytest.raises(InvalidOptionError, match=r"outside -0\.25 \(never right\)"):
        draw_skills(skills, n, rng(), n_classes=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 1}, "n_classes is 1; it takes a number of at least 2"),
        ({"n_tasks": 0}, "0 tasks and 5 workers"),
        ({"n_workers": 0}, "3 tasks and 0 workers"),
        ({"skills": [0.5]}, "one for each of the 5 workers"),
        ({"skills": [0.5, 0.5, 0.5, 0.5, np.nan]}, "outside -1"),
        ({"class_prior": [0.5, 0.6]}, "2 probabilities that add up to 1"),
        ({"class_prior": [1.5, -0.5]}, "2 probabilities that add up to 1"),
        ({"class_prior": [1.0]}, "2 probabilities that add up to 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        simulate_crowd(**{"n_tasks": 3, "n_workers": 5, "rng": rng(), **options})
