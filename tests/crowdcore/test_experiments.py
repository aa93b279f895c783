"""The shapes of the paper's tables and figure, with fewer trials and margins from the noise of the trials."""

import numpy as np
import pytest

from crowdcore.baselines.majority import majority_vote
from crowdcore.edges import EdgeCounts
from crowdcore.experiments import fig1, graph_size, graphs, skill_distribution, weights
from crowdcore.experiments.trials import (
    CLASSES,
    draw_trials,
    only_pairs,
    pgd_skills,
    share_out,
    shuffled_grid,
    worker_names,
)
from crowdcore.pgd import fit_skills


def error_of_mean(errors):
    return errors.std(ddof=1) / np.sqrt(errors.shape[-1])


def clearly_above(high, low, by=3.0):
    """Whether the mean of `high` is above that of `low` by more standard errors than chance explains."""
    return high.mean() - low.mean() > by * np.hypot(error_of_mean(high), error_of_mean(low))


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(1)
    skills = shuffled_grid(-0.3, 0.8, (3, 11), rng)
    return draw_trials(rng.random((3, 40, 11)) < 0.6, skills, rng)


def test_trials_solved_together_have_the_skills_of_trials_solved_alone(trials):
    together = pgd_skills(trials, trials.edges)
    for number in range(trials.n_trials):
        alone = fit_skills(EdgeCounts.of(trials.crowd(number), worker_names(11), CLASSES), n_classes=2).skills
        assert np.allclose(together[number], alone * np.sign(alone.sum()), atol=1e-7)


def test_majority_errors_of_trials_are_the_expected_errors_of_each(trials):
    truth = trials.truth.reshape(3, -1)
    expected = [majority_vote(trials.crowd(number)).expected_error(truth[number]) for number in range(3)]
    assert trials.majority_errors() == pytest.approx(expected)


def test_labels_are_right_as_often_as_skills_say():
    rng = np.random.default_rng(2)
    made = draw_trials(np.ones((1, 20_000, 2), bool), np.array([[0.6, -0.2]]), rng)
    right = made.labels.label == made.truth[made.labels.task]
    shares = np.array([right[made.labels.worker == worker].mean() for worker in (0, 1)])
    assert np.abs(shares - [0.8, 0.4]).max() < 4 * np.sqrt(0.25 / 20_000)


def test_only_the_pairs_of_the_graph_stay(trials):
    hub = np.array([4, 0, 10])
    kept = only_pairs(trials.edges, fig1.star_around(hub, 11))
    assert kept.n_edges == 3 * 11  # ten rays and one side of the triangle
    codes = np.array([int(name[1:]) for name in kept.workers])
    ends = np.stack([codes[kept.first], codes[kept.second]])
    assert all(np.sum((ends == 11 * number + hub[number]).any(axis=0)) == 10 for number in range(3))


def test_only_the_labels_that_are_named_stay(trials):
    named = np.random.default_rng(5).random((trials.n_trials, trials.n_tasks, trials.n_workers)) < 0.4
    kept = trials.only(named)
    for number in range(trials.n_trials):
        whole, part = trials.crowd(number), kept.crowd(number)
        stays = named[number][whole.task, whole.worker]
        assert np.array_equal(part.task, whole.task[stays])
        assert np.array_equal(part.worker, whole.worker[stays])
        assert np.array_equal(part.label, whole.label[stays])
    assert np.array_equal(kept.truth, trials.truth)


def test_in_reading_b_opt_dawid_skene_does_not_see_pairs_beside_the_star():
    # Four workers know, the others guess. Around a hub that guesses no pair of the star tells who knows.
    n_trials, n_tasks = 20, 300
    skills = np.zeros((n_trials, fig1.N_WORKERS))
    skills[:, [5, 6, 7, 8]] = 0.9
    trials = draw_trials(np.ones((n_trials, n_tasks, fig1.N_WORKERS), bool), skills, np.random.default_rng(0))
    seen = fig1.label_errors(trials, np.random.default_rng(1))["Opt-D&S"]
    blind = fig1.star_errors(trials, np.full(n_trials, 2), np.random.default_rng(1))
    assert seen.max() < 0.05
    assert blind.mean() > 0.1
    strong = fig1.star_errors(trials, np.full(n_trials, 5), np.random.default_rng(1))
    assert strong.mean() < blind.mean() / 2


def test_in_reading_a_a_task_goes_to_the_hub_and_a_leaf_or_to_the_triangle():
    assigned = fig1.one_edge_a_task(1, 20_000, np.random.default_rng(0))[0]
    sizes = assigned.sum(axis=1)
    assert assigned[:, 0].all()
    assert set(sizes) == {2, 3}
    assert (assigned[sizes == 3][:, :3]).all()
    shares = assigned[:, 2:].mean(axis=0)
    assert np.abs(shares - 1 / 9).max() < 4.5 * np.sqrt(1 / 9 * 8 / 9 / 20_000)


def test_chance_does_not_depend_on_who_does_which_piece():
    def backwards(work, jobs):
        return [work(job) for job in jobs[::-1]][::-1]

    def draw(piece):
        return piece[2].random(piece[1])

    once, again = (share_out(draw, ["a", "b"], 60, np.random.default_rng(0), run) for run in (map, backwards))
    assert all(
        np.array_equal(a, b) for one, two in zip(once, again, strict=True) for a, b in zip(one, two, strict=True)
    )


@pytest.fixture(scope="module")
def figure():
    return fig1.draw_figure(100, np.random.default_rng(3), n_tasks=(30, 100, 300))


@pytest.mark.parametrize("setting", fig1.SETTINGS)
def test_the_error_of_pgd_falls_with_the_number_of_tasks(figure, setting):
    few, many = (figure[setting].at(tasks, "PGD") for tasks in ("30", "300"))
    assert many.mean() < few.mean()
    if setting == fig1.CLIQUE or setting == "star (b), random hub":  # with a strong hub little is left to gain
        assert clearly_above(few, many)


@pytest.mark.parametrize("tasks", ["100", "300"])
@pytest.mark.parametrize("setting", ["star (a), strong hub", "star (b), random hub", "star (b), strong hub"])
def test_pgd_is_below_opt_dawid_skene_where_the_graph_is_sparse(figure, setting, tasks):
    table = figure[setting]
    assert table.at(tasks, "PGD").mean() <= table.at(tasks, "Opt-D&S").mean()


@pytest.mark.parametrize(("setting", "graph"), [(fig1.CLIQUE, "clique"), ("star (b), strong hub", "star")])
def test_deviations_of_pgd_majority_and_opt_dawid_skene_are_within_30_percent_of_the_papers(figure, setting, graph):
    table = figure[setting]
    noise = 1 / np.sqrt(2 * 100)  # relative standard error of a standard deviation of 100 trials
    for method in ("PGD", "MV", "Opt-D&S"):
        std = table.std[table.rows.index("300"), table.columns.index(method)]
        assert abs(std / fig1.PAPER_STD[graph]["300"][method] - 1) < 0.3 + 2 * noise


def test_no_trial_of_opt_dawid_skene_is_turned_on_the_clique(figure):
    assert figure[fig1.CLIQUE].at("300", "Opt-D&S").max() < 0.2


def test_majority_vote_has_the_error_that_the_grid_of_skills_implies(figure):
    right = (1 + np.linspace(-0.3, 0.8, 11)) / 2
    votes = np.array([1.0])  # distribution of the number of right labels
    for p in right:
        votes = np.convolve(votes, [1 - p, p])
    implied = votes[:6].sum()
    found = figure[fig1.CLIQUE].at("300", "MV")
    assert abs(found.mean() - implied) < 4 * np.sqrt(implied * (1 - implied) / 300 / 100)


def test_each_kind_of_weights_is_clearly_worst_where_the_paper_says():
    found = weights.compare_weights(100, np.random.default_rng(4))
    for case, worst in weights.WORST.items():
        for kind in set(weights.WEIGHTS) - {worst}:
            assert clearly_above(found.at(case, worst), found.at(case, kind)), (case, kind)
        assert found.at(case, worst).mean() > found.at(case, weights.KNOWN).mean()


def test_the_sign_is_lost_when_the_crowd_is_worse_than_guessing_and_nothing_else():
    found = skill_distribution.compare_distributions(60, np.random.default_rng(5))
    assert found.at("Beta(5, 1)", "clique").mean() < 0.02
    for row in ("Beta(2, 5)", "Beta(1, 3)"):
        assert found.at(row, "clique").mean() > 0.9
        assert found.at(row, "clique, either sign").mean() < 0.1
    coin = found.at("Beta(0.5, 0.5)", "clique")
    assert abs(coin.mean() - 0.5) < 4 * 0.5 / np.sqrt(60)


def test_the_error_stays_flat_as_the_graph_grows():
    found = graph_size.compare_sizes(30, np.random.default_rng(6))
    first, last = (found.at(row, "strong hub") for row in ("21", "91"))
    noise = np.hypot(error_of_mean(first), error_of_mean(last))
    assert abs(last.mean() - first.mean()) < 0.01 + 3 * noise  # one point; known skills alone change by as much
    assert (found.mean[:, 3] > found.mean[:, 2]).all()


def test_graphs_have_the_edges_they_are_named_for():
    numbers = {graphs.clique: 55, graphs.star: 10, graphs.star_with_triangle: 11, graphs.cycle: 11, graphs.path: 10}
    for graph, n_edges in numbers.items():
        joined = graph(11)
        assert np.array_equal(joined, joined.T)
        assert joined.sum() == 2 * n_edges
        assert not joined.diagonal().any()
