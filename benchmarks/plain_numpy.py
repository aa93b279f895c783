"""Rival (a): the same job in one straightforward numpy program, two classes only.

    python -m benchmarks.plain_numpy OUTPUT FILES...

Reads all labels, encodes ids, sorts by task and worker (the last of a worker's labels on a task counts), counts pairs,
solves for the skills, scores the tasks, and writes scores, skills and edges as Parquet. No rejects, no intervals, no
look at the graph, no manifest.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from pipelines.lean import leave_out

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DENSE_WORKERS = 5_000
TOLERANCE = 1e-8
MAX_ROUNDS = 1_000


def encode(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Codes in the order of first appearance, and the names."""
    coded = column.combine_chunks().dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary


def encode_sorted(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Codes in the order of the sorted names, and the names."""
    codes, names = encode(column)
    order = pc.sort_indices(names).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[codes], names.take(pa.array(order))


def keep_last(task: Ints, worker: Ints, label: Ints, n_workers: int) -> tuple[Ints, Ints, Ints]:
    """The labels in the order of (task, worker), the last of equals only."""
    key = task * n_workers + worker
    order = np.argsort(key, kind="stable")
    key = key[order]
    order = order[np.append(key[1:] != key[:-1], True)]
    return task[order], worker[order], label[order]


def count_pairs(task: Ints, worker: Ints, label: Ints, n_workers: int) -> tuple[Ints, Ints, Ints, Ints]:
    """First worker, second worker, common tasks and agreements of every pair that has a common task."""
    pairs, agrees = [], []
    distance = 1
    while True:
        here = np.flatnonzero(task[distance:] == task[:-distance])
        if not len(here):
            break
        there = here + distance
        pairs.append(worker[here] * n_workers + worker[there])
        agrees.append(label[here] == label[there])
        distance += 1
    pair, agree = np.concatenate(pairs), np.concatenate(agrees)
    if n_workers <= DENSE_WORKERS:
        common = np.bincount(pair, minlength=n_workers**2)
        agreed = np.bincount(pair[agree], minlength=n_workers**2)
        found = np.flatnonzero(common)
        n_common, n_agree = common[found], agreed[found]
    else:
        found, where, n_common = np.unique(pair, return_inverse=True, return_counts=True)
        n_agree = np.bincount(where[agree], minlength=len(found))
    return found // n_workers, found % n_workers, n_common, n_agree


def solve(first: Ints, second: Ints, n_common: Ints, n_agree: Ints, n_labels: Ints) -> Floats:
    """Skills x that minimise Σ N (C − x_i x_j)²: half the exact step for all workers at once, clipped, until still."""
    n_workers = len(n_labels)
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    shape = (n_workers, n_workers)
    common = sp.csr_array((np.tile(n_common, 2).astype(float), (rows, columns)), shape=shape)
    moment = sp.csr_array((np.tile(2 * n_agree - n_common, 2).astype(float), (rows, columns)), shape=shape)
    bound = 1 - 1 / np.sqrt(n_labels)
    skills = np.full(n_workers, 0.5)
    for _ in range(MAX_ROUNDS):
        before = skills
        exact = (moment @ skills) / np.maximum(common @ skills**2, 1e-12)
        skills = np.clip((skills + exact) / 2, -bound, bound)
        if np.abs(skills - before).max() < TOLERANCE:
            break
    return skills if n_labels @ skills >= 0 else -skills


def main(output: Path, files: list[str]) -> None:
    """The whole job."""
    table = pa.concat_tables([pq.read_table(file, columns=["task", "worker", "label"]) for file in files])
    task, tasks = encode(table["task"])
    worker, workers = encode_sorted(table["worker"])
    label, classes = encode_sorted(table["label"].cast(pa.string()))
    assert len(classes) == 2, "this program knows two classes"
    task, worker, label = keep_last(task, worker, label, len(workers))

    first, second, n_common, n_agree = count_pairs(task, worker, label, len(workers))
    n_labels = np.bincount(worker, minlength=len(workers))
    skills = solve(first, second, n_common, n_agree, n_labels)

    weight = np.log((1 + skills) / (1 - skills))
    score = np.bincount(task, weights=weight[worker] * (2 * label - 1), minlength=len(tasks))
    scores = {
        "task": tasks,
        "label": classes.take(pa.array((score > 0).astype(np.int64))),
        "probability": 1 / (1 + np.exp(-np.abs(score))),
        "score": np.abs(score),
        "n_workers": np.bincount(task, minlength=len(tasks)),
    }
    edges = {
        "worker_a": workers.take(pa.array(first)),
        "worker_b": workers.take(pa.array(second)),
        "n_common": n_common,
        "n_agree": n_agree,
    }
    output.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(scores), output / "scores.parquet")
    pq.write_table(pa.table({"worker": workers, "skill": skills, "n_labels": n_labels}), output / "skills.parquet")
    pq.write_table(pa.table(edges), output / "edges.parquet")


if __name__ == "__main__":
    leave_out(["pandas"])  # Arrow would import it because it is installed, for a third of a second
    main(Path(sys.argv[1]), sys.argv[2:])
