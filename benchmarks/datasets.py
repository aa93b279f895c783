"""The public datasets that are beside the repository, or in $CROWDBEAM_DATA."""

import csv
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import ROOT
from crowdcore.labels import TaskLabels, group_labels

DATA = Path(os.environ.get("CROWDBEAM_DATA", ROOT.parent / "shared" / "data"))


@cache
def load(name: str) -> tuple[TaskLabels, NDArray[np.int64]]:
    """Labels, of repeats the last, and the true class of each task, −1 where it is not known."""
    columns = _read(DATA / name / "labels.csv", ("task", "worker", "label"))
    (tasks, task), (workers, worker), (classes, label) = (np.unique(each, return_inverse=True) for each in columns)
    truth = dict(zip(*_read(DATA / name / "truth.csv", ("task", "label")), strict=True))
    code = {text: number for number, text in enumerate(classes.tolist())}
    known = np.array([code.get(truth.get(each), -1) for each in tasks.tolist()], np.int64)
    grouped = group_labels(
        task, worker, label, n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes)
    )  # fmt: skip
    return grouped.labels, known


def _read(path: Path, names: tuple[str, ...]) -> list[Any]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [tuple(row[name] for name in names) for row in csv.DictReader(file)]
    return [list(column) for column in zip(*rows, strict=True)]
