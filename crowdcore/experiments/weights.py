"""The paper's weighting table: which pairs should count how much, when some workers do most of the work.

Six spammers (skill 0) and five good workers (skills from 0.5 to 0.8), 300 tasks. Workers of the busy kind label each
task with probability 0.65, the others with probability 0.15. The paper says only who does most. This crowd was picked
out of about ninety, after looking at their errors, because B = N has about the paper's errors in it. So that the
finding does not hang on that choice, `sweep_designs` counts in how many of 72 other crowds it holds.

    spammers busy        pairs of spammers have most common tasks. B = N² listens to hardly anything else, and what it
                         hears is noise.
    good workers busy    most pairs of spammers have a handful of common tasks. B = 1 gives their noise as much weight
                         as the agreements of good workers on hundreds of tasks.

>>> found = compare_weights(4, np.random.default_rng(0))
>>> found.rows, found.columns, found.errors.shape
(('spammers', 'good workers'), ('binary', 'identity', 'squared', 'skills known'), (2, 4, 4))
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from crowdcore.experiments.trials import ErrorTable, Run, draw_trials, pgd_skills, share_out
from crowdcore.weights import Floats

N_TASKS = 300
SKILLS = np.concatenate([np.zeros(6), np.linspace(0.5, 0.8, 5)])
BUSY, IDLE = 0.65, 0.15
CASES = ("spammers", "good workers")
WEIGHTS = ("binary", "identity", "squared")
WORST = {"spammers": "squared", "good workers": "binary"}
# Spammers among 11 workers, the least skill of the others, shares of tasks of the idle and of the busy kind.
DESIGNS = tuple(product((5, 6, 8), (0.3, 0.5, 0.7), (0.05, 0.1, 0.15, 0.2), (0.5, 0.8)))
SWEEP_TRIALS = 100
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


@dataclass(frozen=True)
class Sweep:
    """In how many crowds the kind of weights that the paper finds worst is so.

    Attributes:
        case: who does most tasks.
        worst: its mean error is above that of each other kind by more than two standard errors of the difference.
        not_worst: it is below that of another kind by as much.
        undecided: neither.
    """

    case: str
    worst: int
    not_worst: int
    undecided: int


def sweep_designs(n_trials: int, rng: np.random.Generator, run: Run = map) -> tuple[Sweep, ...]:
    """Counts over `DESIGNS`, for both cases.

    >>> sweep = sweep_designs(2, np.random.default_rng(0), lambda work, jobs: map(work, jobs))[0]
    >>> sweep.case, sweep.worst + sweep.not_worst + sweep.undecided
    ('spammers', 72)
    """
    cases = [(case, design) for case in CASES for design in DESIGNS]
    found = share_out(_try_design, cases, n_trials, rng, run, piece=n_trials)
    firm = np.array([pieces[0] for pieces in found]).reshape(len(CASES), -1)
    return tuple(
        Sweep(case, int(np.sum(row > 2)), int(np.sum(row < -2)), int(np.sum(np.abs(row) <= 2)))
        for case, row in zip(CASES, firm, strict=True)
    )


def _try_design(piece: tuple[tuple[str, tuple[int, float, float, float]], int, np.random.Generator]) -> float:
    """How many standard errors the kind expected to be worst is above the worst of the others."""
    (case, (n_spammers, least, idle, busy)), n_trials, rng = piece
    skills = np.concatenate([np.zeros(n_spammers), np.linspace(least, 0.8, len(SKILLS) - n_spammers)])
    errors = dict(zip(WEIGHTS, _errors(case, skills, (busy, idle), n_trials, rng), strict=False))
    above = [errors[WORST[case]] - errors[kind] for kind in WEIGHTS if kind != WORST[case]]
    return min(float(gap.mean() / max(gap.std() / np.sqrt(n_trials), 1e-12)) for gap in above)


def _try_weights(piece: tuple[str, int, np.random.Generator]) -> Floats:
    """(columns, trials) errors of one case."""
    case, n_trials, rng = piece
    return _errors(case, SKILLS, (BUSY, IDLE), n_trials, rng)


def _errors(case: str, crowd: Floats, shares: tuple[float, float], n_trials: int, rng: np.random.Generator) -> Floats:
    """(columns, trials) errors of each kind of weights, and with the skills known."""
    busy = (crowd == 0) == (case == "spammers")
    assigned = rng.random((n_trials, N_TASKS, len(crowd))) < np.where(busy, *shares)
    trials = draw_trials(assigned, np.tile(crowd, (n_trials, 1)), rng)
    skills = [pgd_skills(trials, trials.edges, weights=kind) for kind in WEIGHTS]
    return np.stack([trials.errors(trials.answers(found)) for found in (*skills, trials.skills)])
