"""Every method on one dataset whose truth is known: each in a process of its own, one after the other."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.labels import Ints, TaskLabels, group_labels
from pipelines.errors import InputError
from pipelines.grouped import TaskShard, group_blocks
from pipelines.inputs import checked_file, find_files
from pipelines.label_files import read_blocks
from pipelines.method_process import write_crowd
from pipelines.settings import BatchSettings
from pipelines.truth import read_truth

DONE, FAILED, TOO_SLOW = "done", "failed", "too slow"
_BAR_CELLS = 20


@dataclass(frozen=True)
class Crowd:
    """Labels and truth in codes that go by the order of the names.

    Attributes:
        labels: one label per (task, worker).
        truth: (tasks,) class codes; -1 where unknown, `n_classes` for a class that nobody chose.
        counts: labels read, used, repeated, rejected and withdrawn.
        n_without_task: tasks of the truth that have no label.
    """

    labels: TaskLabels
    truth: Ints
    counts: Mapping[str, int]
    n_without_task: int

    @property
    def n_compared(self) -> int:
        """Tasks with labels and a known truth."""
        return int((self.truth >= 0).sum())


@dataclass(frozen=True)
class MethodRow:
    """How one method did; what is not known, because it did not finish, is None.

    Attributes:
        method: its name.
        status: "done", "failed" or "too slow".
        detail: what went wrong, a sentence; empty when nothing did.
        error: share of wrong answers; of majority vote the expectation over its ties.
        log_loss: over the classes, in nats.
        seconds: of the method alone.
        peak_memory_bytes: of its process.
        start_memory_bytes: the same before it began.
    """

    method: str
    status: str = DONE
    detail: str = ""
    error: float | None = None
    log_loss: float | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    start_memory_bytes: int | None = None


def read_crowd(settings: BatchSettings, truth_path: str) -> Crowd | None:
    """The labels of `settings.inputs` and the truth; None when no label can be used, an error without common task."""
    truth = read_truth(truth_path, _truth_columns(settings, truth_path))
    files = read_blocks(settings)
    blocks = [block for number in sorted(files.by_shard) for block in files.by_shard[number]]
    if not blocks:
        return None
    grouping = group_blocks(0, blocks, settings.aggregate.repeats)
    if not grouping.counts["labels_used"]:
        return None
    labels, tasks, classes = _in_order(grouping.shard)
    place = pc.index_in(tasks, value_set=truth.column("task").combine_chunks())
    known = place.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        raise InputError(f"--truth {truth_path} has none of the {len(tasks):,} tasks with labels. Check the ids.")
    answer = truth.column("label").combine_chunks().take(place)
    code = pc.index_in(answer, value_set=classes).fill_null(len(classes)).to_numpy()
    files.counts.update(grouping.counts)
    return Crowd(labels, np.where(known, code, -1), files.counts, truth.num_rows - int(known.sum()))


def _truth_columns(settings: BatchSettings, path: str) -> dict[str, str]:
    """What task and label are called in the truth: as in the inputs, or task and label."""
    for file, size in find_files([path], "--truth"):
        checked = checked_file(settings, file, size, "gold") if size else None
        if checked is not None and checked.columns:
            return dict(checked.columns)
    return {}


def _in_order(shard: TaskShard) -> tuple[TaskLabels, pa.LargeStringArray, pa.LargeStringArray]:
    """The labels, tasks and classes of a shard; codes go by the order of the names, and names without labels go."""
    given = shard.labels
    task, tasks = _ranked(given.task, shard.task)
    worker, workers = _ranked(given.worker, shard.workers)
    label, classes = _ranked(given.label, shard.classes)
    grouped = group_labels(
        task, worker, label, n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes)
    )  # fmt: skip
    return grouped.labels, tasks, classes


def _ranked(codes: Ints, names: pa.LargeStringArray) -> tuple[Ints, pa.LargeStringArray]:
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    order = used[pc.sort_indices(names.take(pa.array(used))).to_numpy()]
    rank: NDArray[np.int64] = np.zeros(len(names), np.int64)
    rank[order] = np.arange(len(order))
    return rank[codes], names.take(pa.array(order))


class MethodsLine:
    """Says how many methods are done, which one runs, and for how long.

    >>> line = MethodsLine(4, clock=lambda: 0.0)
    >>> line.begin("kos")
    >>> line.begin("ghosh")
    >>> line.text()
    '█████░░░░░░░░░░░░░░░  1 of 4 methods  ghosh  0 s'
    """

    def __init__(self, n_methods: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._n_methods, self._clock = n_methods, clock
        self._n_done, self._method, self._began = -1, "", clock()

    def begin(self, method: str) -> None:
        """Tells that `method` runs now, and the one before has ended."""
        self._n_done, self._method, self._began = self._n_done + 1, method, self._clock()

    def text(self) -> str:
        """The line as it is now."""
        done = max(self._n_done, 0)
        full = _BAR_CELLS * done // self._n_methods
        bar = "█" * full + "░" * (_BAR_CELLS - full)
        elapsed = f"{self._clock() - self._began:.0f} s"
        return f"{bar}  {done} of {self._n_methods} methods  {self._method}  {elapsed}"


def compare_methods(
    crowd: Crowd, methods: Sequence[str], *, seed: int, limit: float, line: MethodsLine | None = None
) -> list[MethodRow]:
    """How each method does, the lowest error first; those that did not finish come last."""
    rows = list(_run_all(crowd, methods, seed, limit, line or MethodsLine(len(methods))))
    return sorted(rows, key=lambda row: (row.error is None, row.error, row.log_loss, row.method))


def _run_all(
    crowd: Crowd, methods: Sequence[str], seed: int, limit: float, line: MethodsLine
) -> Iterator[MethodRow]:  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="crowdbeam-compare-") as folder:
        path = os.path.join(folder, "crowd.npz")
        write_crowd(path, crowd.labels, crowd.truth)
        for method in methods:
            line.begin(method)
            yield run_method(path, method, seed, limit)


def run_method(path: str, method: str, seed: int, limit: float) -> MethodRow:
    """How `method` does on the crowd in `path`, in a process that is ended after `limit` seconds."""
    command = [sys.executable, "-m", "pipelines.method_process", path, method, str(seed)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return MethodRow(method, TOO_SLOW, f"It was ended after {limit:g} s; --limit gives it more.")
    if done.returncode < 0:
        return MethodRow(method, FAILED, f"Its process was ended by signal {-done.returncode}, perhaps out of memory.")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return MethodRow(method, FAILED, said[-1] if said else f"Its process ended with code {done.returncode}.")
    found: dict[str, Any] = json.loads(done.stdout)
    return MethodRow(method, **found)


def _environment() -> dict[str, str]:
    """This process's environment; the other process finds our packages where this one did."""
    ours = str(Path(__file__).resolve().parent.parent)
    paths = [ours, *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
