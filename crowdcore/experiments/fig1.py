"""Figure 1 of the paper: error against the number of tasks, on a clique and on a star with one triangle.

Eleven workers, skills on an even grid from −0.3 to 0.8 in a new order each trial. The paper does not say who labels
which task on the star, and its standard deviations at 300 tasks are too small for two labels a task with any hub but a
strong one; so there are five settings:

    clique                    all workers label all tasks, all pairs count
    star (a), random hub      each task goes to the hub and one leaf or, as often as to any such leaf, to the triangle
    star (a), strong hub      the same, and the best worker is the hub
    star (b), random hub      all workers label all tasks; skills come from the star's pairs alone
    star (b), strong hub      the same, and the best worker is the hub

In reading (b) PGD, DDKR and the triangle estimator find skills from the star's pairs, and vote with all labels. Opt-D&S
works on labels, not on pairs: it finds its matrices from the labels that reading (a) would have, those of the hub and
one leaf or of the triangle, and answers with all labels. Majority vote and KOS find no skills apart from the answers,
so they get all labels and their errors are those of the clique. One draw of labels serves the clique and both hubs.
"skills known" is the log-odds vote with the true skills.

Ties of majority vote count half. PGD's sign is the paper's, Σ x > 0; the other methods have their own rules.

>>> found = draw_figure(2, np.random.default_rng(0), n_tasks=(10,))
>>> list(found)[0], found["clique"].rows, found["clique"].errors.shape
('clique', ('10',), (1, 7, 2))
"""

import numpy as np

from crowdcore.baselines.dawid_skene import e_step
from crowdcore.baselines.ddkr import ddkr_skills
from crowdcore.baselines.kos import kos
from crowdcore.baselines.opt_dawid_skene import opt_dawid_skene
from crowdcore.baselines.triangle import triangle_skills
from crowdcore.edges import EdgeCounts
from crowdcore.experiments import graphs
from crowdcore.experiments.trials import (
    ErrorTable,
    Run,
    Trials,
    draw_trials,
    in_rows,
    only_pairs,
    pgd_skills,
    share_out,
    shuffled_grid,
)
from crowdcore.labels import Ints
from crowdcore.weights import Floats

N_WORKERS, LOWEST, HIGHEST = 11, -0.3, 0.8
N_TASKS = (10, 30, 60, 100, 150, 200, 300)
KNOWN = "skills known"
METHODS = ("PGD", "MV", "KOS", "Opt-D&S", "DDKR", "triangle", KNOWN)
CLIQUE, STAR_A, STAR_B = "clique", "star (a)", "star (b)"
SETTINGS = (CLIQUE, *(f"{star}, {hub} hub" for star in (STAR_A, STAR_B) for hub in ("random", "strong")))
# The caption's standard deviations, at 10 and at 300 tasks. The curves themselves are a picture only.
PAPER_STD = {
    CLIQUE: {
        "10": {"PGD": 0.1647, "MV": 0.1524, "KOS": 0.2163, "Opt-D&S": 0.2514},
        "300": {"PGD": 0.0120, "MV": 0.0172, "KOS": 0.0172, "Opt-D&S": 0.0168},
    },
    "star": {
        "10": {"PGD": 0.2144, "MV": 0.0815, "KOS": 0.1058, "Opt-D&S": 0.2565},
        "300": {"PGD": 0.0181, "MV": 0.0210, "KOS": 0.0184, "Opt-D&S": 0.0304},
    },
}
_KOS_ROUNDS = 20
# Who labels: everyone, or as reading (a) has it.
_EVERYONE = "everyone"


def draw_figure(
    n_trials: int, rng: np.random.Generator, run: Run = map, *, n_tasks: tuple[int, ...] = N_TASKS
) -> dict[str, ErrorTable]:
    """The errors in each setting, a row for each number of tasks and a column for each method."""
    kinds = (_EVERYONE, *(name for name in SETTINGS if name.startswith(STAR_A)))
    cases = [(kind, number) for kind in kinds for number in n_tasks]
    found = share_out(_try_case, cases, n_trials, rng, run)
    errors = {}
    for (_, number), pieces in zip(cases, found, strict=True):
        for setting in pieces[0]:
            errors[setting, number] = np.concatenate([piece[setting] for piece in pieces], axis=1)
    rows = tuple(map(str, n_tasks))
    return {
        setting: ErrorTable(rows, METHODS, np.stack([errors[setting, number] for number in n_tasks]))
        for setting in SETTINGS
    }


def _try_case(piece: tuple[tuple[str, int], int, np.random.Generator]) -> dict[str, Floats]:
    """(methods, trials) errors, by setting."""
    (kind, n_tasks), n_trials, rng = piece
    shape = (n_trials, N_WORKERS)
    if kind == _EVERYONE:
        skills = shuffled_grid(LOWEST, HIGHEST, shape, rng)
        trials = draw_trials(np.ones((n_trials, n_tasks, N_WORKERS), bool), skills, rng)
        by_label = label_errors(trials, rng)
        found = {CLIQUE: _with_pairs(trials, trials.edges, by_label)}
        hubs = {"random": np.zeros(n_trials, np.int64), "strong": np.argmax(skills, axis=1)}
        for name, hub in hubs.items():
            edges = only_pairs(trials.edges, star_around(hub, N_WORKERS))
            by_star = {"Opt-D&S": star_errors(trials, hub, rng)}
            found[f"{STAR_B}, {name} hub"] = _with_pairs(trials, edges, by_label | by_star)
        return found
    skills = shuffled_grid(LOWEST, HIGHEST, shape, rng, strong_hub="strong" in kind)
    trials = draw_trials(one_edge_a_task(n_trials, n_tasks, rng), skills, rng)
    return {kind: _with_pairs(trials, trials.edges, label_errors(trials, rng))}


def one_edge_a_task(n_trials: int, n_tasks: int, rng: np.random.Generator) -> graphs.Flags:
    """(trials, tasks, workers) reading (a): hub 0 and one of the leaves 3 to 10, or workers 0, 1 and 2."""
    group = rng.integers(2, N_WORKERS, (n_trials, n_tasks))
    assigned: graphs.Flags = group[:, :, None] == np.arange(N_WORKERS)
    assigned[:, :, 0] = True
    assigned[:, :, 1] = assigned[:, :, 2]
    return assigned


def star_around(hub: Ints, n_workers: int) -> graphs.Flags:
    """(trials, workers, workers) the star with a triangle around the hub of each trial, (trials,).

    >>> star_around(np.array([2]), 4)[0].astype(int)
    array([[0, 1, 1, 0],
           [1, 0, 1, 0],
           [1, 1, 0, 1],
           [0, 0, 1, 0]])
    """
    place = _places(hub, n_workers)
    around: graphs.Flags = graphs.star_with_triangle(n_workers)[place[:, :, None], place[:, None, :]]
    return around


def _places(hub: Ints, n_workers: int) -> Ints:
    """(trials, workers) the place of each worker on the star: 0 for the hub, the others in their order."""
    place = np.tile(np.arange(n_workers), (len(hub), 1))
    place = np.where(place < hub[:, None], place + 1, place)
    place[np.arange(len(hub)), hub] = 0
    return place


def star_errors(trials: Trials, hub: Ints, rng: np.random.Generator) -> Floats:
    """(trials,) errors of Opt-D&S in reading (b): matrices from the labels of the star, answers from all labels.

    Args:
        trials: in which everyone labels everything.
        hub: (trials,) who it is.
        rng: for who counts on which task, and for the groups.
    """
    by_place = one_edge_a_task(trials.n_trials, trials.n_tasks, rng)
    seen = trials.only(np.take_along_axis(by_place, _places(hub, trials.n_workers)[:, None, :], axis=2))
    answers = []
    for number in range(trials.n_trials):
        found = opt_dawid_skene(seen.crowd(number), rng=rng)
        answers.append(np.argmax(e_step(trials.crowd(number), np.asarray(found.confusion), found.prior), axis=1))
    return trials.errors(np.concatenate(answers))


def label_errors(trials: Trials, rng: np.random.Generator) -> dict[str, Floats]:
    """(trials,) errors of the methods that work on labels, not on pairs."""
    passed = kos(trials.labels, rng=rng, n_rounds=_KOS_ROUNDS)
    spectral = [opt_dawid_skene(trials.crowd(number), rng=rng).answer for number in range(trials.n_trials)]
    return {
        "MV": trials.majority_errors(),
        "KOS": trials.errors(passed.answer),
        "Opt-D&S": trials.errors(np.concatenate(spectral)),
        KNOWN: trials.errors(trials.answers(trials.skills)),
    }


def _with_pairs(trials: Trials, edges: EdgeCounts, errors: dict[str, Floats]) -> Floats:
    """(methods, trials) `errors`, and those of the methods that find skills from pairs."""
    skills = {
        "PGD": pgd_skills(trials, edges),
        "DDKR": in_rows(trials, edges, ddkr_skills(edges, n_classes=2)),
        "triangle": in_rows(trials, edges, triangle_skills(edges, n_classes=2)),
    }
    voted = {name: trials.errors(trials.answers(found)) for name, found in skills.items()}
    both = {**errors, **voted}
    return np.stack([both[name] for name in METHODS])
