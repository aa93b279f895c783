"""The nights of the nightly benchmark: new labels for a ledger that holds a crowd of `benchmarks.data`.

Four fifths of a night's labels are on new tasks, five each. The others are on tasks of the ledger: labels of any
worker, corrections of labels that are there, and withdrawals of some.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import CACHE
from benchmarks.data import LABELS_PER_TASK, TASK_AFFIXES, WORKER_AFFIXES, Crowd, make_ids

NEW, ADDED, CORRECTED, WITHDRAWN = 0.8, 0.14, 0.05, 0.01
_SEED = 11


@dataclass(frozen=True)
class Night:
    """So many new labels on top of a crowd's."""

    crowd: Crowd
    n_labels: int

    def __str__(self) -> str:
        """As it is told on a terminal."""
        return f"{self.crowd.n_labels:,} + {self.n_labels:,} labels, {self.crowd.n_workers:,} workers"

    @property
    def file(self) -> Path:
        """The new labels."""
        return self.crowd.folder / f"night-{self.n_labels}.parquet"


def make_night(night: Night) -> None:
    """Makes the file of a night; the crowd's files must be there."""
    rng = np.random.default_rng([_SEED, night.n_labels])
    crowd, n = night.crowd, night.n_labels
    n_added, n_corrected, n_withdrawn = (round(share * n) for share in (ADDED, CORRECTED, WITHDRAWN))
    n_new = n - n_added - n_corrected - n_withdrawn
    new_tasks = make_ids(TASK_AFFIXES, crowd.n_tasks + -(-n_new // LABELS_PER_TASK)).slice(crowd.n_tasks)
    workers = make_ids(WORKER_AFFIXES, crowd.n_workers)
    known = pq.read_table(crowd.files("parquet")[0])
    some = known.take(pa.array(rng.choice(len(known), n_added + n_corrected + n_withdrawn, replace=False)))
    parts = [
        _labels(new_tasks.take(pa.array(np.arange(n_new) // LABELS_PER_TASK)), workers, rng),
        _labels(some["task"].slice(0, n_added).combine_chunks(), workers, rng),
        _of_known(some.slice(n_added, n_corrected), ""),
        _of_known(some.slice(n_added + n_corrected), "delete"),
    ]
    pq.write_table(pa.concat_tables(parts).take(pa.array(rng.permutation(n))), night.file)


def _labels(tasks: pa.Array, workers: pa.Array, rng: np.random.Generator) -> pa.Table:
    """A label by any worker on each of some tasks."""
    n = len(tasks)
    who = workers.take(pa.array(rng.integers(0, len(workers), n)))
    return pa.table({"task": tasks, "worker": who, "label": rng.integers(0, 2, n), "op": pa.array([""] * n)})


def _of_known(labels: pa.Table, op: str) -> pa.Table:
    """The other label of known ones, or withdrawals of them."""
    other = 1 - labels["label"].to_numpy()
    return labels.set_column(2, "label", pa.array(other)).append_column("op", pa.array([op] * len(labels)))


def copy_of_ledger(ledger: Path, to: Path) -> Path:
    """The same ledger once more, without writing its files anew: no file of a ledger is ever changed."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ledger, to, copy_function=lambda one, other: Path(other).hardlink_to(one))
    return to


def ledger_of(crowd: Crowd) -> Path:
    """Where the benchmark keeps the ledger of a crowd."""
    return CACHE / "nightly" / f"ledger-{crowd.n_labels}-{crowd.n_workers}"
