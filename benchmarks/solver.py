"""The solver alone: skills and intervals of a random graph, timed apart.

    python -m benchmarks.solver N_WORKERS

Each worker meets about 100 others, drawn at random: 50 edges a worker. Prints the seconds as JSON.
"""

import json
import sys
import time

import numpy as np
from numpy.typing import NDArray

from crowdcore.edges import EdgeCounts
from crowdcore.pgd import fit_skills
from crowdcore.uncertainty import skill_intervals

EDGES_PER_WORKER = 50
LABELS_PER_TASK = 5
MEAN_COMMON = 4


def make_edges(n_workers: int, rng: np.random.Generator) -> tuple[EdgeCounts, NDArray[np.float64]]:
    """Counts of a crowd with two classes and five labels a task, and the skills behind them."""
    n_edges = n_workers * EDGES_PER_WORKER
    pair = np.sort(rng.integers(0, n_workers**2, 2 * n_edges + n_edges // 2))
    pair = pair[np.append(True, pair[1:] != pair[:-1])]  # np.unique takes half a minute for so many
    first, second = pair // n_workers, pair % n_workers
    chosen = np.sort(rng.permutation(np.flatnonzero(first < second))[:n_edges])
    first, second = first[chosen], second[chosen]
    skills = rng.uniform(0.1, 0.9, n_workers)
    n_common = 1 + rng.poisson(MEAN_COMMON - 1, n_edges)
    n_agree = rng.binomial(n_common, (1 + skills[first] * skills[second]) / 2)
    met = np.bincount(np.concatenate([first, second]), np.tile(n_common, 2), minlength=n_workers)
    n_labels = np.ceil(met / (LABELS_PER_TASK - 1)).astype(np.int64)
    n_triples = n_labels * (LABELS_PER_TASK - 1) * (LABELS_PER_TASK - 2)
    workers = np.array([f"w{number:07d}" for number in range(n_workers)], object)
    return EdgeCounts(workers, n_labels, n_triples, first, second, n_common, n_agree, ("0", "1")), skills


def main(n_workers: int) -> None:
    """Times both steps once."""
    edges, skills = make_edges(n_workers, np.random.default_rng(1))
    start = time.perf_counter()
    fit = fit_skills(edges)
    solved = time.perf_counter()
    skill_intervals(edges, fit, confidence=0.9)
    ended = time.perf_counter()
    error = float(np.sqrt(np.mean((fit.skills - skills) ** 2)))
    result = {
        "n_workers": edges.n_workers,
        "n_edges": edges.n_edges,
        "fit_s": solved - start,
        "intervals_s": ended - solved,
        "rms_error": error,
        "converged": bool(fit.converged),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]))
