"""Answers as rows: what every method's scoring step ends with."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import schemas
from crowdcore.labels import TaskLabels
from crowdcore.scores import TaskScores
from pipelines.model import ISOLATED, UNIDENTIFIED
from pipelines.tables import table_of

STATUSES = ("ok", "single-label", "tie", "unidentified", "unknown-worker", "too-few-labels", "gold")
NO_LABELS = "no-labels"  # of a row that takes back an earlier answer, or a worker's skill
_OK, _SINGLE, _TIE, _UNIDENTIFIED, _UNKNOWN, _FEW, _GOLD = range(len(STATUSES))


class Answering(Protocol):
    """What must be known of a model to name its answers."""

    @property
    def classes(self) -> pa.LargeStringArray:
        """The classes, sorted."""

    @property
    def name(self) -> str:
        """What answers say they come from."""


@dataclass(frozen=True)
class Answers:
    """The answers to some tasks: scores, (tasks,) labels that count and (tasks,) codes of `STATUSES`."""

    scores: TaskScores
    n_workers: NDArray[np.int64]
    status: NDArray[np.uint8]


def status_of(
    labels: TaskLabels, found: TaskScores, n_workers: NDArray[np.int64], has_gold: Any, standing: Any, min_labels: int
) -> NDArray[np.uint8]:
    """(tasks,) codes of `STATUSES`; what is set later goes before what is set earlier."""
    status = np.full(labels.n_tasks, _OK, np.uint8)
    status[n_workers == 1] = _SINGLE
    status[found.tied] = _TIE
    if standing.any():
        worst = np.zeros(labels.n_tasks, np.uint8)
        np.maximum.at(worst, labels.task, standing[labels.worker])
        status[worst == UNIDENTIFIED] = _UNIDENTIFIED
        status[worst == ISOLATED] = _UNKNOWN
    status[n_workers < min_labels] = _FEW
    status[np.broadcast_to(has_gold, status.shape) > 0] = _GOLD
    return status


def answer_table(
    task: pa.LargeStringArray, n_received: NDArray[np.int64], answers: Answers, model: Answering
) -> pa.Table:
    """The answers as rows."""
    found = answers.scores
    classes = model.classes.cast(pa.string()) if len(model.classes) else pa.array([""])
    label = np.minimum(found.answer, max(len(classes) - 1, 0))
    columns = {
        "task": task,
        "label": pa.DictionaryArray.from_arrays(pa.array(label.astype(np.int32)), classes),
        "probability": pa.array(found.probability),
        "margin": pa.array(found.margin),
        "score": pa.array(found.score),
        "n_labels": pa.array(n_received),
        "n_workers": pa.array(answers.n_workers),
        "status": pa.DictionaryArray.from_arrays(pa.array(answers.status.astype(np.int32)), pa.array(STATUSES)),
        "model": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(label), np.int32)), pa.array([model.name])),
    }
    if found.probabilities is not None:
        columns["probabilities"] = _maps_of(classes, found.probabilities)
    return table_of("score", columns)


def counts_of(answers: Answers, answered: NDArray[np.bool_]) -> Counter[str]:
    """What the manifest counts of the answers to the tasks that are `answered`."""
    status = answers.status
    counts = {f"scores.{name}": int(((status == code) & answered).sum()) for code, name in enumerate(STATUSES)}
    counts["scores"] = int(answered.sum())
    counts["scores_against_majority"] = int((~answers.scores.with_majority & answered).sum())
    return Counter(counts)


def _maps_of(classes: pa.StringArray, probabilities: NDArray[np.float64]) -> pa.MapArray:
    """(tasks,) class → probability; a class that no label has is left out."""
    n_tasks, n_known = len(probabilities), len(classes)
    offsets = np.arange(0, n_tasks * n_known + 1, max(n_known, 1), dtype=np.int32)
    keys = classes.take(pa.array(np.tile(np.arange(n_known), n_tasks)))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(probabilities[:, :n_known].reshape(-1)))


def blank_rows(names: pa.LargeStringArray, model: str) -> pa.Table:
    """Rows of tasks that have lost all their labels."""
    n = len(names)
    zeros = pa.array(np.zeros(n))
    whole = pa.array(np.zeros(n, np.int64))
    columns: dict[str, Any] = {
        "task": names,
        "label": pa.repeat("", n),
        "probability": zeros,
        "margin": zeros,
        "score": zeros,
        "n_labels": whole,
        "n_workers": whole,
        "status": pa.repeat(NO_LABELS, n),
        "model": pa.repeat(model, n),
    }
    return table_of("score", columns).cast(schemas.arrow_schema("score"))
