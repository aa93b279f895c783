"""A finished run against the truth: error beside majority vote's, calibration, classes, skills."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.baselines.majority import majority_vote
from crowdcore.metrics import Calibration, ClassTable, calibration, error_rate, log_loss, per_class
from pipelines.errors import InputError
from pipelines.grouped import TaskShard, group_blocks
from pipelines.inputs import checksum_of
from pipelines.label_files import read_blocks
from pipelines.run_tables import read_table
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.sources.warehouse_addresses import is_address

N_BINS = 10
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class AnswerTable:
    """The answers of a run whose truth is known, those that gold gave left out.

    Attributes:
        task: (tasks,) ids.
        truth: (tasks,) the true classes.
        answer_code, truth_code: (tasks,) classes as codes into `classes`.
        probability: (tasks,) of the answer.
        probability_of_truth: (tasks,) of the true class; None when the run holds no probabilities.
        classes: all classes, of the run and of the truth, sorted.
        n_gold: tasks left out because gold gave the answer.
        n_without_truth: tasks of the run without a truth.
        n_without_task: tasks of the truth that are not in the run.
    """

    task: pa.StringArray
    truth: pa.StringArray
    answer_code: NDArray[np.int64]
    truth_code: NDArray[np.int64]
    probability: NDArray[np.float64]
    probability_of_truth: NDArray[np.float64] | None
    classes: list[str]
    n_gold: int
    n_without_truth: int
    n_without_task: int


@dataclass(frozen=True)
class Evaluation:
    """How good the answers are; `log_loss` is over the classes when the run holds their probabilities."""

    answers: AnswerTable
    error: float
    log_loss: float
    calibration: Calibration
    per_class: ClassTable


@dataclass(frozen=True)
class SkillEvaluation:
    """How good the skills are, of workers whose skills are determined and whose true skills are known."""

    n_workers: int
    mean_absolute_error: float
    coverage: float
    confidence: float


def evaluate_answers(answers: AnswerTable) -> Evaluation:
    """The measures of `crowdcore.metrics` for the answers of a run."""
    correct = answers.answer_code == answers.truth_code
    over_classes = answers.probability_of_truth is not None
    claimed = answers.probability_of_truth if over_classes else answers.probability
    return Evaluation(
        answers,
        error_rate(answers.answer_code, answers.truth_code),
        log_loss(np.clip(claimed, 0, 1), np.ones_like(correct) if over_classes else correct),  # type: ignore[arg-type]
        calibration(np.clip(answers.probability, 0, 1), correct, N_BINS),
        per_class(answers.answer_code, answers.truth_code, len(answers.classes)),
    )


def match_answers(run: str, manifest: Mapping[str, Any], truth: pa.Table) -> AnswerTable:
    """The answers of the run beside the truth; raises `InputError` when they have no task, or no class, in common."""
    with_all = json.loads(manifest["settings"]["probabilities"])
    columns = ["task", "label", "probability", "status", *(["probabilities"] if with_all else [])]
    scores = read_table(run, "scores", columns)
    tasks = scores.column("task").combine_chunks().cast(pa.large_string())
    place = pc.index_in(tasks, value_set=truth.column("task").combine_chunks())
    by_gold = pc.equal(scores.column("status"), "gold").combine_chunks()
    matched = pc.and_(place.is_valid(), pc.invert(by_gold))
    n_matched = pc.sum(place.is_valid()).as_py() or 0
    n_compared = pc.sum(matched).as_py() or 0
    if not n_compared:
        raise InputError(
            f"--truth has none of the {len(tasks):,} tasks of the run {run}"
            + (f", those answered by gold left out ({n_matched:,})." if n_matched else ". Check the ids.")
        )
    scores = scores.filter(matched)
    label = truth.column("label").combine_chunks().take(place.filter(matched)).cast(pa.string())
    named = label.unique().to_pylist()
    if not {*manifest["classes"]} & {*named}:
        raise InputError(
            f"The classes of --truth and of the run {run} have nothing in common: the truth has {_some(named)}, "
            f"the run has {_some(manifest['classes'])}. Check the names, and --columns."
        )
    classes = sorted({*manifest["classes"], *named})
    return AnswerTable(
        scores.column("task").combine_chunks(),
        label,
        _codes(scores.column("label"), classes),
        _codes(label, classes),
        scores.column("probability").to_numpy(),
        _probability_of(label, scores.column("probabilities")) if with_all else None,
        classes,
        n_matched - n_compared,
        len(tasks) - n_matched,
        truth.num_rows - n_matched,
    )


def _some(names: list[str]) -> str:
    """A few of some names.

    >>> _some(["d", "b", "a", "c"])
    "'a', 'b', 'c' and 1 more"
    """
    shown = ", ".join(repr(name) for name in sorted(names)[:_NAMES_SHOWN])
    return f"{shown} and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else shown or "none"


def _codes(labels: Any, classes: list[str]) -> NDArray[np.int64]:
    return np.asarray(pc.index_in(labels, value_set=pa.array(classes, pa.string())).to_numpy(), np.int64)


def _probability_of(label: pa.StringArray, maps: pa.ChunkedArray) -> NDArray[np.float64]:
    """(tasks,) the probability of each task's true class; 0 for a class that the run does not know."""
    flat = maps.combine_chunks()
    flat = flat.chunk(0) if isinstance(flat, pa.ChunkedArray) else flat
    owner = np.repeat(np.arange(len(flat)), np.diff(flat.offsets.to_numpy()))
    first, last = flat.offsets[0].as_py(), flat.offsets[len(flat)].as_py()
    keys, values = flat.keys.slice(first, last - first), flat.items.slice(first, last - first)
    same = pc.equal(keys, label.take(pa.array(owner))).to_numpy(zero_copy_only=False)
    found = np.zeros(len(flat))
    found[owner[same]] = values.to_numpy(zero_copy_only=False)[same]
    return found


def evaluate_skills(run: str, manifest: Mapping[str, Any], true_skills: pa.Table) -> SkillEvaluation:
    """Compares the skills of the run with the true ones."""
    skills = read_table(run, "skills", ["worker", "skill", "skill_low", "skill_high", "status"])
    workers = skills.column("worker").combine_chunks().cast(pa.large_string())
    place = pc.index_in(workers, value_set=true_skills.column("worker").combine_chunks())
    known = pc.and_(place.is_valid(), pc.is_in(skills.column("status"), value_set=pa.array(["ok", "saturated"])))
    skills = skills.filter(known)
    if not skills.num_rows:
        raise InputError(
            f"--skills has none of the {len(workers):,} workers of the run {run} whose skill is determined."
        )
    true = true_skills.column("skill").take(place.filter(known.combine_chunks())).to_numpy()
    found, low, high = (skills.column(name).to_numpy() for name in ("skill", "skill_low", "skill_high"))
    return SkillEvaluation(
        len(true),
        float(np.mean(np.abs(found - true))),
        float(np.mean((low <= true) & (true <= high))),
        float(manifest["settings"]["confidence"]),
    )


def missing_inputs(manifest: Mapping[str, Any]) -> str:
    """Why the labels of the run cannot be read again, in a sentence; empty when they can."""
    if not any(file["role"] == "labels" for file in manifest["inputs"]):
        return "The run names no files that it read: it was written from a ledger, or is the snapshot of a stream."
    for file in manifest["inputs"]:
        if file["role"] != "labels":
            continue
        if is_address(file["path"]):
            return f"The run read {file['path']}, which is in a warehouse and may have changed since."
        try:
            same = checksum_of(file["path"]) == file["checksum"]
        except OSError:
            return f"{file['path']}, which the run read, is gone."
        if not same:
            return f"{file['path']} has changed since the run read it."
    return ""


def majority_error(manifest: Mapping[str, Any], answers: AnswerTable) -> float:
    """Expected error of majority vote on the same labels and tasks, each tie broken uniformly at random."""
    n_wrong = n_tasks = 0.0
    for shard in _label_shards(manifest):
        place = pc.index_in(shard.task, value_set=answers.task.cast(pa.large_string()))
        truth = answers.truth.take(place).cast(pa.large_string())
        code = pc.index_in(truth, value_set=shard.classes).fill_null(len(shard.classes)).to_numpy()
        known = place.is_valid().to_numpy(zero_copy_only=False) & (shard.labels.sizes > 0)
        if known.any():
            n_wrong += majority_vote(shard.labels).expected_error(np.where(known, code, -1)) * known.sum()
            n_tasks += known.sum()
    return float(n_wrong / n_tasks)


def _label_shards(manifest: Mapping[str, Any]) -> Iterator[TaskShard]:
    """The labels that the run read, by the run's rules: its columns, classes and repeats; gold left out."""
    told = manifest["settings"]
    settings = BatchSettings(
        inputs=tuple(file["path"] for file in manifest["inputs"] if file["role"] == "labels"),
        output="",
        aggregate=AggregateSettings(classes=tuple(json.loads(told["classes"])), shards=json.loads(told["shards"])),
        columns=tuple((name, column) for name, column in json.loads(told["columns"])),
        input_format=told["input_format"],
    )
    blocks = read_blocks(settings).by_shard
    for number in sorted(blocks):
        yield group_blocks(number, blocks.pop(number), told["repeats"]).shard
