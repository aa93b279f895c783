"""The paper's weighting table: which pairs should count how much, when some workers do most of the work.

Six spammers (skill 0) and five good workers (skills from 0.5 to 0.8), 300 tasks. Workers of the busy kind label each
task with probability 0.65, the others with probability 0.15. The paper says only who does most; these shares give
errors near its own.

    spammers busy        pairs of spammers have most common tasks. B = N² listens to hardly anything else, and what it
                         hears is noise.
    good workers busy    most pairs of spammers have a handful of common tasks. B = 1 gives their noise as much weight
                         as the agreements of good workers on hundreds of tasks.

>>> found = compare_weights(4, np.random.default_rng(0))
>>> found.rows, found.columns, found.errors.shape
(('spammers', 'good workers'), ('binary', 'identity', 'squared', 'skills known'), (2, 4, 4))
"""

import numpy as np

from crowdcore.experiments.trials import ErrorTable, Run, draw_trials, pgd_skills, share_out
from crowdcore.weights import Floats

N_TASKS = 300
SKILLS = np.concatenate([np.zeros(6), np.linspace(0.5, 0.8, 5)])
BUSY, IDLE = 0.65, 0.15
CASES = ("spammers", "good workers")
WEIGHTS = ("binary", "identity", "squared")
KNOWN = "skills known"
# Table 1 of the paper: means and standard deviations of ten runs.
PAPER = {
    "spammers": {"binary": (0.33, 0.03), "identity": (0.33, 0.03), "squared": (0.55, 0.17)},
    "good workers": {"binary": (0.17, 0.06), "identity": (0.09, 0.02), "squared": (0.09, 0.02)},
}


def compare_weights(n_trials: int, rng: np.random.Generator, run: Run = map) -> ErrorTable:
    """The errors of PGD with each kind of weights, and of the vote with the true skills, in both cases."""
    found = share_out(_try_weights, CASES, n_trials, rng, run)
    return ErrorTable(CASES, (*WEIGHTS, KNOWN), np.stack([np.concatenate(pieces, axis=1) for pieces in found]))


def _try_weights(piece: tuple[str, int, np.random.Generator]) -> Floats:
    """(columns, trials) errors of one case."""
    case, n_trials, rng = piece
    busy = (SKILLS == 0) == (case == "spammers")
    assigned = rng.random((n_trials, N_TASKS, len(SKILLS))) < np.where(busy, BUSY, IDLE)
    trials = draw_trials(assigned, np.tile(SKILLS, (n_trials, 1)), rng)
    skills = [pgd_skills(trials, trials.edges, weights=kind) for kind in WEIGHTS]
    return np.stack([trials.errors(trials.answers(found)) for found in (*skills, trials.skills)])
