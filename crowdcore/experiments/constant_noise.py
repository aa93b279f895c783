"""Skills from products of skills with noise of a given size, many crowds at once.

Two of the paper's tables fix the noise: C_ij = s_i s_j + ξ_ij for the pairs of a graph, ξ uniform in [−a, a].

>>> skills = np.array([[0.9, 0.8, 0.7, 0.6]])
>>> skills_from_products(products(skills, 0.0, np.random.default_rng(0)), graphs.clique(4), n_tasks=10**6).round(4)
array([[0.9, 0.8, 0.7, 0.6]])
"""

from typing import Any

import numpy as np

from crowdcore.experiments import graphs
from crowdcore.experiments.trials import upright
from crowdcore.problem import AgreementProblem
from crowdcore.solution import solve
from crowdcore.weights import Floats

# As in `fit_skills`: a worker below 0 costs as much as the noise of six pairs when starts are compared.
_DOUBT = 6.0


def products(skills: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """(trials, workers, workers) s_i s_j + ξ_ij, symmetric; ξ is uniform in [−noise, noise]."""
    n_trials, n_workers = skills.shape
    drawn = np.triu(rng.uniform(-noise, noise, (n_trials, n_workers, n_workers)), 1)
    noisy: Floats = skills[:, :, None] * skills[:, None, :] + drawn + drawn.transpose(0, 2, 1)
    return noisy


def skills_from_products(
    product: Floats, joined: graphs.Flags, *, n_tasks: float, noise: float = 0.0, **options: Any
) -> Floats:
    """(trials, workers) the skills that explain the products of the pairs that `joined` names; their sum is above 0.

    Args:
        product: (trials, workers, workers).
        joined: (workers, workers) the graph.
        n_tasks: of each worker: skills stay within 1 − 1 / √n_tasks of 0.
        noise: a, how far products may be from those of the skills.
        options: of `solve`: start, solver, rounds.
    """
    n_trials, n_workers = product.shape[:2]
    first, second = np.nonzero(np.triu(joined))
    shift = np.arange(n_trials)[:, None] * n_workers
    problem = AgreementProblem.of(
        (shift + first).ravel(), (shift + second).ravel(),
        weight=np.ones(n_trials * len(first)), target=product[:, first, second].ravel(),
        bounds=np.full(n_trials * n_workers, 1 - n_tasks**-0.5),
    )  # fmt: skip
    penalty = _DOUBT * noise**2 / 3
    found = solve(problem, importance=np.ones(problem.n_workers), penalty=penalty, **options)
    return upright(found.x.reshape(n_trials, n_workers))
