"""One method on one crowd, in a process of its own: `python -m pipelines.method_process CROWD METHOD SEED`.

It reads what `write_crowd` wrote and prints one JSON object. Time is that of the method alone. Memory is the peak of
the process: the interpreter, numpy and the labels are in it; `start_memory_bytes` says how much they take. This module
imports as little as it can, for the same reason.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.majority import majority_vote
from crowdcore.errors import CrowdcoreError
from crowdcore.labels import Ints, TaskLabels
from crowdcore.methods import METHODS
from crowdcore.metrics import error_rate, log_loss

FAILED = 1
_STATUS = Path("/proc/self/status")


def write_crowd(path: str, labels: TaskLabels, truth: Ints) -> None:
    """Writes labels, and (tasks,) true class codes: -1 where unknown, `n_classes` for a class that nobody chose."""
    sizes = np.array([labels.n_workers, labels.n_classes])
    np.savez(path, starts=labels.starts, worker=labels.worker, label=labels.label, sizes=sizes, truth=truth)


def read_crowd(path: str) -> tuple[TaskLabels, Ints]:
    """What `write_crowd` wrote."""
    with np.load(path) as found:
        n_workers, n_classes = found["sizes"].tolist()
        labels = TaskLabels(
            found["starts"].astype(np.int64),
            found["worker"].astype(np.int64),
            found["label"].astype(np.int64),
            n_workers,
            n_classes,
        )
        return labels, found["truth"]


def measure(name: str, labels: TaskLabels, truth: Ints, seed: int) -> dict[str, Any]:
    """Error, log loss, seconds and memory of the method called `name`.

    The error of majority vote is the exact expectation over its ties. Log loss is over the classes; a true class with
    no probability counts as one of 1e-15.
    """
    before = peak_memory()
    began = time.perf_counter()
    found = METHODS[name](labels, rng=np.random.default_rng(seed))
    seconds = time.perf_counter() - began
    memory = peak_memory()
    vote = name == "majority"
    return {
        "error": majority_vote(labels).expected_error(truth) if vote else error_rate(found.answer, truth),
        "log_loss": truth_loss(found, truth),
        "seconds": seconds,
        "peak_memory_bytes": memory,
        "start_memory_bytes": before,
    }


def truth_loss(found: Aggregation, truth: Ints) -> float:
    """Mean of −log of the probability of the true class, over the tasks with a known truth, in nats.

    >>> round(truth_loss(Aggregation.of(np.array([[0.5, 0.5], [1.0, 0.0]]), np.zeros(0)), np.array([1, -1])), 6)
    0.693147
    """
    task = np.flatnonzero(truth >= 0)
    with_stranger = np.column_stack([found.probabilities, np.zeros(len(truth))])
    return log_loss(np.clip(with_stranger[task, truth[task]], 0, 1), np.ones(len(task)))


def peak_memory() -> int:
    """The most bytes that this process has had in memory.

    What `getrusage` gives on Linux has the memory of the process that started this one in it.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(argv: list[str]) -> int:
    """Measures the method that the arguments name."""
    path, name, seed = argv
    try:
        found = measure(name, *read_crowd(path), int(seed))
    except (CrowdcoreError, MemoryError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return FAILED
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
