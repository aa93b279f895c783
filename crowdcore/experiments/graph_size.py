"""The paper's table of graph sizes: the same noise on each pair, a star with a triangle that grows.

Skills on an even grid from −0.3 to 0.8, products C_ij = s_i s_j + ξ_ij, ξ uniform in [−0.2, 0.2], on the star's pairs.
The paper does not say who labels the tasks. Its error with known skills stays near .06 from 21 to 91 workers; if every
worker labelled every task it would vanish, so the number of labels a task has must stay the same. Twelve, by workers
drawn at random, give an error like the paper's, and 2,000 tasks its standard deviation: both were chosen for that,
after ten labels and skills drawn uniformly had given .08. A hub drawn at random is a
poor yardstick half of the time, so there is a column with the best worker as hub.

>>> found = compare_sizes(2, np.random.default_rng(0))
>>> found.rows, found.columns
(('21', '51', '71', '91'), ('skills known', 'random hub', 'strong hub, skills known', 'strong hub'))
"""

import numpy as np

from crowdcore.assignment import draw_distinct
from crowdcore.experiments import graphs
from crowdcore.experiments.constant_noise import products, skills_from_products
from crowdcore.experiments.trials import ErrorTable, Run, draw_trials, share_out, shuffled_grid
from crowdcore.weights import Floats

SIZES = (21, 51, 71, 91)
LOWEST, HIGHEST, NOISE = -0.3, 0.8, 0.2
N_TASKS, LABELS_PER_TASK = 2000, 12
COLUMNS = ("skills known", "random hub", "strong hub, skills known", "strong hub")
# Table 4 of the paper: error with the skills known ("Bayes error") and of PGD, means and standard deviations.
PAPER = {
    21: ((0.0425, 0.0042), (0.0425, 0.0042)),
    51: ((0.0622, 0.0040), (0.0641, 0.0126)),
    71: ((0.0634, 0.0033), (0.0662, 0.0072)),
    91: ((0.0574, 0.0030), (0.0618, 0.0063)),
}


def compare_sizes(n_trials: int, rng: np.random.Generator, run: Run = map) -> ErrorTable:
    """The errors with known skills and of PGD, for each number of workers."""
    found = share_out(_try_size, SIZES, n_trials, rng, run)
    errors = np.stack([np.concatenate(pieces, axis=1) for pieces in found])
    return ErrorTable(tuple(map(str, SIZES)), COLUMNS, errors)


def _try_size(piece: tuple[int, int, np.random.Generator]) -> Floats:
    """(columns, trials) errors with one number of workers."""
    n_workers, n_trials, rng = piece
    errors = []
    for strong_hub in (False, True):
        skills = shuffled_grid(LOWEST, HIGHEST, (n_trials, n_workers), rng, strong_hub=strong_hub)
        assigned = np.zeros((n_trials * N_TASKS, n_workers), bool)
        chosen = draw_distinct(len(assigned), LABELS_PER_TASK, n_workers, rng)
        np.put_along_axis(assigned, chosen, True, axis=1)
        trials = draw_trials(assigned.reshape(n_trials, N_TASKS, n_workers), skills, rng)
        joined = graphs.star_with_triangle(n_workers)
        found = skills_from_products(products(skills, NOISE, rng), joined, n_tasks=N_TASKS, noise=NOISE)
        errors += [trials.errors(trials.answers(given)) for given in (skills, found)]
    return np.stack(errors)
