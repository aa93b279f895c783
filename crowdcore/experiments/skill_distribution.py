"""The paper's table of skill distributions: what happens when the crowd is not better than guessing.

Eleven workers whose accuracies p are drawn from Beta(α, β), skill 2p − 1; all label all 300 tasks. Skills come from
products C_ij = s_i s_j + ξ_ij, ξ uniform in [−0.2, 0.2], on the pairs of a graph: the clique or the star with a
triangle. The agreements tell s up to one sign, and the sign with Σ x > 0 is taken: where the crowd is worse than
guessing, every answer is turned. "either sign" is the smaller of the errors of s and −s.

>>> found = compare_distributions(2, np.random.default_rng(0))
>>> found.rows[1], found.columns
('Beta(5, 1)', ('skills known', 'clique', 'clique, either sign', 'star', 'star, either sign'))
"""

import numpy as np

from crowdcore.experiments import graphs
from crowdcore.experiments.constant_noise import products, skills_from_products
from crowdcore.experiments.trials import ErrorTable, Run, draw_trials, share_out
from crowdcore.weights import Floats

N_WORKERS, N_TASKS, NOISE = 11, 300, 0.2
DISTRIBUTIONS = ((0.5, 0.5), (5.0, 1.0), (2.0, 5.0), (2.0, 2.0), (1.0, 3.0))
KNOWN = "skills known"
GRAPHS = {"clique": graphs.clique, "star": graphs.star_with_triangle}
# Table 3 of the paper: error with the skills known ("Bayes error") and of PGD, means and deviations of 10 runs.
PAPER = {
    (0.5, 0.5): ((0.0036, 0.0014), (0.5990, 0.4860)),
    (5.0, 1.0): ((0.0038, 0.0014), (0.0041, 0.0013)),
    (2.0, 5.0): ((0.0314, 0.0062), (0.9667, 0.0067)),
    (2.0, 2.0): ((0.0615, 0.0083), (0.4162, 0.4273)),
    (1.0, 3.0): ((0.0129, 0.0034), (0.9864, 0.0041)),
}
# Accuracies of exactly 0 or 1, which Beta(½, ½) comes near, have no log-odds.
_SURE = 0.999


def compare_distributions(n_trials: int, rng: np.random.Generator, run: Run = map) -> ErrorTable:
    """The errors with known skills and of PGD on both graphs, a row for each distribution."""
    found = share_out(_try_distribution, DISTRIBUTIONS, n_trials, rng, run)
    columns = [name for graph in GRAPHS for name in (graph, f"{graph}, either sign")]
    errors = np.stack([np.concatenate(pieces, axis=1) for pieces in found])
    return ErrorTable(tuple(map(name_of, DISTRIBUTIONS)), (KNOWN, *columns), errors)


def name_of(distribution: tuple[float, float]) -> str:
    """As in the rows of the table.

    >>> name_of((0.5, 0.5))
    'Beta(0.5, 0.5)'
    """
    return "Beta({:g}, {:g})".format(*distribution)


def _try_distribution(piece: tuple[tuple[float, float], int, np.random.Generator]) -> Floats:
    """(columns, trials) errors of one distribution; each trial is a crowd of its own."""
    (a, b), n_trials, rng = piece
    skills = np.clip(2 * rng.beta(a, b, (n_trials, N_WORKERS)) - 1, -_SURE, _SURE)
    trials = draw_trials(np.ones((n_trials, N_TASKS, N_WORKERS), bool), skills, rng)
    product = products(skills, NOISE, rng)
    errors = [trials.errors(trials.answers(skills))]
    for graph in GRAPHS.values():
        found = skills_from_products(product, graph(N_WORKERS), n_tasks=N_TASKS, noise=NOISE)
        error = trials.errors(trials.answers(found))
        errors += [error, np.minimum(error, trials.errors(trials.answers(-found)))]
    return np.stack(errors)
