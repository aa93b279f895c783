"""From a frame of labels to integer codes: which rows count, and what each code stands for.

A row without task, worker or label is left out and counted by its reason. Of several labels by one worker on one task
one counts, as in `crowdcore.labels`; the place in the frame stands for time.

>>> coded = code_labels([("t2", "ann", "yes"), ("t1", "bob", "no"), ("t1", "ann", None)])
>>> coded.frames.values(coded.tasks), coded.labels.label, dict(coded.rejects)
(['t1', 't2'], array([0, 1]), {'missing label': 1})
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.errors import InvalidLabelsError
from crowdcore.frames.kinds import COLUMNS, Codes, Frames, Opened, open_frame
from crowdcore.labels import GroupedLabels, Ints, TaskLabels, group_labels, order_by

CONTRADICTION = "contradiction"


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Labels as codes, and the ids of the codes in the caller's own kind of array.

    Attributes:
        labels: one label per (task, worker).
        tasks, workers, classes: ids of the codes, sorted; each has at least one label.
        frames: what to do with such ids.
        rejects: how many rows were left out, by reason.
        n_repeated: rows left out because another label of the same worker on the same task counts.
    """

    labels: TaskLabels
    tasks: Any
    workers: Any
    classes: Any
    frames: Frames
    rejects: Mapping[str, int]
    n_repeated: int


def code_labels(data: Any, repeats: str = "last") -> CodedLabels:
    """Codes the columns task, worker and label of `data`; other columns, their order and the index play no part.

    Args:
        data: a frame of pandas, polars or Arrow, a dict of columns, or a list of (task, worker, label).
        repeats: "last", "first" or "error": rows that contradict each other are left out.
    """
    opened = open_frame(data)
    _check_columns(opened)
    columns = {name: _encoded(opened, name) for name in COLUMNS}
    if len({len(column.codes) for column in columns.values()}) > 1:
        raise InvalidLabelsError("the columns task, worker and label must be of one length")
    rejects, keep = _missing_rows(columns)
    columns = {name: column.kept(opened.frames, keep) for name, column in columns.items()}
    grouped = _grouped(columns, repeats)
    if len(grouped.contradictions):
        rejects[CONTRADICTION] = len(grouped.contradictions)
        keep = np.ones(len(columns["task"].codes), bool)
        keep[grouped.contradictions] = False
        columns = {name: column.kept(opened.frames, keep) for name, column in columns.items()}
        grouped = _grouped(columns, repeats)
    task, worker, label = (columns[name].ids for name in COLUMNS)
    del columns  # narrow codes for grouping; wide ones, which products of codes do not overflow, from here on
    wide = {name: getattr(grouped.labels, name).astype(np.int64, copy=False) for name in ("worker", "label")}
    return CodedLabels(replace(grouped.labels, **wide), task, worker, label, opened.frames, rejects, grouped.n_repeated)


def in_codes_of(old: CodedLabels, new: CodedLabels) -> tuple[Any, TaskLabels]:
    """New labels in the worker and class codes of old ones, and the ids of their tasks.

    A worker that is not among the old ones gets the code behind the last. A label that is not among the old ones is
    left out, and so is a task of which nothing remains.
    """
    if type(old.frames) is not type(new.frames):
        raise InvalidLabelsError("the frames to fit and to predict must be of one library")
    labels, n_workers = new.labels, len(old.workers)
    worker = _places(new.frames, new.workers, old.workers, otherwise=n_workers)
    label = _places(new.frames, new.classes, old.classes, otherwise=-1)
    said = label[labels.label]
    stays = said >= 0
    sizes = np.bincount(labels.task[stays], minlength=labels.n_tasks)
    asked = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[asked])])
    by = worker[labels.worker[stays]]
    order = order_by(by, np.repeat(np.arange(len(asked)), sizes[asked]), limits=(n_workers + 1, max(len(asked), 1)))
    tasks = new.frames.take(new.tasks, asked)
    return tasks, TaskLabels(starts, by[order], said[stays][order], n_workers + 1, len(old.classes))


def _places(frames: Frames, ids: Any, among: Any, otherwise: int) -> Ints:
    """(ids,) where each id is `among` others."""
    place = {value: code for code, value in enumerate(frames.values(among))}
    return np.array([place.get(value, otherwise) for value in frames.values(ids)], np.int64)


@dataclass(frozen=True, eq=False)
class _Column:
    """(rows,) codes and the ids they stand for."""

    codes: Codes
    ids: Any

    def kept(self, frames: Frames, keep: NDArray[np.bool_]) -> "_Column":
        """The rows to keep, and the ids that are in them."""
        codes = self.codes if keep.all() else self.codes[keep]
        there = np.bincount(codes, minlength=len(self.ids)) > 0
        if there.all():
            return _Column(codes, self.ids)
        return _Column((np.cumsum(there, dtype=np.int32) - 1)[codes], frames.take(self.ids, np.flatnonzero(there)))


def _encoded(opened: Opened, name: str) -> _Column:
    try:
        return _Column(*opened.frames.encode(opened.data, name))
    except TypeError as error:
        raise InvalidLabelsError(f"the column {name!r} has values that cannot be told apart: {error}") from error


def _check_columns(opened: Opened) -> None:
    names = opened.frames.names(opened.data)
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        there = f"they have {', '.join(names)}" if names else "they have none"
        raise InvalidLabelsError(
            f"the labels lack the column {' and '.join(missing)}; they take task, worker and label, and {there}"
        )
    twice = [name for name in COLUMNS if names.count(name) > 1]
    if twice:
        raise InvalidLabelsError(f"the labels have several columns called {twice[0]}; they take one")


def _missing_rows(columns: Mapping[str, _Column]) -> tuple[dict[str, int], NDArray[np.bool_]]:
    """How many rows lack something, by the first thing they lack, and which rows lack nothing."""
    keep = np.ones(len(columns["task"].codes), bool)
    rejects: dict[str, int] = {}
    for name in COLUMNS:
        lacks = keep & (columns[name].codes < 0)
        if lacks.any():
            rejects[f"missing {name}"] = int(lacks.sum())
            keep &= ~lacks
    return rejects, keep


def _grouped(columns: Mapping[str, _Column], repeats: str) -> GroupedLabels:
    task, worker, label = (columns[name] for name in COLUMNS)
    sizes = {"n_tasks": len(task.ids), "n_workers": len(worker.ids), "n_classes": len(label.ids)}
    return group_labels(task.codes, worker.codes, label.codes, **sizes, repeats=repeats)
