"""What a run is told: checked before anything runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from crowdcore.options import REPEATS, RULES, SOLVERS, STARTS, WEIGHTS
from pipelines.errors import InvalidSettingError
from pipelines.gates import Gate, parse_gates, refuse_gates

METHODS = ("pgd", "majority", "dawid-skene")
MODELS = ("one-coin",)
MULTICLASS = RULES
INPUT_FORMATS = ("auto", "parquet", "avro", "csv", "jsonl")
OUTPUT_FORMATS = ("parquet", "avro", "csv", "jsonl")
MESSAGE_FORMATS = ("json", "avro")
TIME_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # in microseconds
LATE_RULES = ("reject", "reopen")
FIELDS = ("task", "worker", "label", "time", "op")
DEFAULT_PASSES, MOST_PASSES = 10, 100
_MOST = 1e12
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NEAR_ENOUGH = 1e-6
_OF_PGD = ("model", "weights", "saturation", "solver", "start", "seed", "multiclass", "prior_strength", "confidence")
_UNUSED = {"pgd": ("passes",), "majority": (*_OF_PGD, "class_prior", "passes"), "dawid-skene": _OF_PGD}


@dataclass(frozen=True)
class AggregateSettings:
    """How labels become skills and answers.

    Attributes:
        method: "pgd"; "majority", the class with the most labels; "dawid-skene", EM with a confusion matrix a worker.
            What a method does not use must be left as it is.
        passes: of dawid-skene: how many rounds of EM, each a pass over the labels; 0: 10.
        model: "one-coin": one skill a worker.
        weights: how much a pair of workers with N common tasks counts: identity N, binary 1, squared N²,
            saturating N / (1 + N / saturation).
        saturation: n0 of the saturating weights.
        solver: "newton" (fast) or "paper" (the paper's update, worker by worker).
        start: "half" (all skills at 0.5), "spectral", "tree", "random", or "auto": several, the lowest loss wins, where
            each worker worse than guessing counts against a start; beyond a million edges it is "half".
        seed: of the spectral and random starts.
        multiclass: "one-coin" (log of the likelihood ratio) or "one-vs-rest" (the paper's).
        classes: the classes, if known; labels outside them are rejected. Empty: the labels seen.
        class_prior: (class, frequency) pairs for all of `classes`; empty: all alike.
        prior_strength: how much a skill known from an earlier run counts: common tasks' worth of evidence.
        repeats: which of several labels by one worker on one task counts, of those that were not withdrawn.
        min_labels: tasks with fewer workers get the status too-few-labels.
        confidence: of the intervals of the skills.
        probabilities: whether each score row holds the probability of every class.
        shards: how many parts the tasks are split into; 0: chosen from the size of the input files, 16 for rows.
    """

    method: str = "pgd"
    passes: int = 0
    model: str = "one-coin"
    weights: str = "identity"
    saturation: float = 10.0
    solver: str = "newton"
    start: str = "auto"
    seed: int = 0
    multiclass: str = "one-coin"
    classes: tuple[str, ...] = ()
    class_prior: tuple[tuple[str, float], ...] = ()
    prior_strength: float = 10.0
    repeats: str = "last"
    min_labels: int = 1
    confidence: float = 0.9
    probabilities: bool = False
    shards: int = 0

    def __post_init__(self) -> None:
        _one_of("method", self.method, METHODS)
        _between("passes", self.passes, 0, MOST_PASSES)
        _one_of("model", self.model, MODELS)
        _one_of("weights", self.weights, WEIGHTS)
        _one_of("solver", self.solver, SOLVERS)
        _one_of("start", self.start, STARTS)
        _one_of("multiclass", self.multiclass, MULTICLASS)
        _one_of("repeats", self.repeats, REPEATS)
        _between("saturation", self.saturation, 1e-9, _MOST)
        _at_least("min-labels", self.min_labels, 1)
        _at_least("seed", self.seed, 0)
        _between("shards", self.shards, 0, 65_535)
        if not 0 < self.confidence < 1:
            raise InvalidSettingError(f"--confidence is {self.confidence}; it takes a number between 0 and 1.")
        if len(set(self.classes)) != len(self.classes):
            raise InvalidSettingError("--classes names a class twice; name each once.")
        if len(self.classes) == 1:
            raise InvalidSettingError(f"--classes names {self.classes[0]!r} alone; name at least two classes.")
        _between("prior-strength", self.prior_strength, 0, _MOST)
        if self.class_prior and sorted(name for name, _ in self.class_prior) != sorted(self.classes):
            raise InvalidSettingError("--class-prior must name the classes of --classes, each once.")
        if self.class_prior and not all(0 < share < 1 for _, share in self.class_prior):
            raise InvalidSettingError("--class-prior takes frequencies between 0 and 1, for example yes=0.2,no=0.8.")
        if self.class_prior and abs(sum(share for _, share in self.class_prior) - 1) > _NEAR_ENOUGH:
            raise InvalidSettingError("--class-prior takes frequencies that add up to 1, for example yes=0.2,no=0.8.")
        for one in fields(self):
            if one.name in _UNUSED[self.method] and getattr(self, one.name) != one.default:
                refuse_unused(one.name.replace("_", "-"), self.method)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "AggregateSettings":
        """The settings that `dataclasses.asdict` and JSON made a mapping of."""
        prior = tuple((name, share) for name, share in found["class_prior"])
        return cls(**{**found, "classes": tuple(found["classes"]), "class_prior": prior})

    @property
    def n_passes(self) -> int:
        """How many rounds of EM."""
        return self.passes or DEFAULT_PASSES


@dataclass(frozen=True)
class BatchSettings:
    """One run of `crowdbeam aggregate`.

    Attributes:
        inputs: files, folders or globs with labels.
        output: the run folder.
        aggregate: how labels become skills and answers.
        columns: what the fields task, worker, label, time and op are called in the inputs, where they differ.
        gold: files with known answers (columns task and label).
        prior_skills: a finished run, or a file with the columns worker and skill: what is known of the workers.
        input_format: "auto": by the file's name.
        output_format: of the tables in the run folder.
        overwrite: whether a finished run in `output` may be replaced.
        fail_if: gates, as `pipelines.gates` writes them.
        lineage: a file for the OpenLineage event of the run; empty: none.
    """

    inputs: tuple[str, ...]
    output: str
    aggregate: AggregateSettings = field(default_factory=AggregateSettings)
    columns: tuple[tuple[str, str], ...] = ()
    gold: tuple[str, ...] = ()
    prior_skills: str = ""
    input_format: str = "auto"
    output_format: str = "parquet"
    overwrite: bool = False
    fail_if: tuple[str, ...] = ()
    lineage: str = ""

    def __post_init__(self) -> None:
        _one_of("input-format", self.input_format, INPUT_FORMATS)
        _one_of("output-format", self.output_format, OUTPUT_FORMATS)
        for name, column in self.columns:
            _one_of("columns", name, FIELDS)
            if not column:
                raise InvalidSettingError(f"--columns gives {name} no column; write {name}=NAME.")
        if len({name for name, _ in self.columns}) != len(self.columns):
            raise InvalidSettingError("--columns names a field twice; name each once.")
        for name in ("gold", "prior_skills"):
            if getattr(self, name) and self.aggregate.method != "pgd":
                refuse_unused(name.replace("_", "-"), self.aggregate.method)
        if not self.prior_skills:
            refuse_gates(self.gates, {"skill-drift": "there is no earlier run; give one with --prior-skills."})

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates of `fail_if`."""
        return parse_gates(self.fail_if)

    def column(self, name: str) -> str:
        """What the field `name` is called in the inputs."""
        return dict(self.columns).get(name, name)


def refuse_unused(option: str, method: str) -> NoReturn:
    """Says that `method` makes no use of `option`."""
    raise InvalidSettingError(f"--{option} has no part in --method {method}; leave it out, or take another method.")


def parse_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Reads ``task=item_id,worker=annotator_id``.

    >>> parse_columns("task=item_id,label=answer")
    (('task', 'item_id'), ('label', 'answer'))
    """
    pairs = []
    for part in filter(None, text.split(",")):
        name, equals, column = part.partition("=")
        if not equals:
            raise InvalidSettingError(f"--columns holds {part!r}; write FIELD=COLUMN, for example task=item_id.")
        pairs.append((name.strip(), column.strip()))
    return tuple(pairs)


def seconds_of(text: str, option: str) -> float:
    """Reads ``30s``, ``15m``, ``12h``, ``7d`` or ``0``; another number says nothing without its unit.

    >>> seconds_of("7d", "--task-ttl"), seconds_of("1.5s", "--task-ttl"), seconds_of("0", "--task-ttl")
    (604800.0, 1.5, 0.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smhd]?)\s*", text)
    if found is None:
        raise InvalidSettingError(f"{option} is {text!r}; it takes a time such as 30s, 15m, 12h or 7d.")
    number = float(found[1])
    if number and not found[2]:
        units = ", ".join(found[1] + unit for unit in _SECONDS)
        raise InvalidSettingError(f"{option} is {text!r}, which has no unit; write one of {units}.")
    return number * _SECONDS[found[2] or "s"]


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidSettingError(f"--{name} is {value!r}; it takes {', '.join(choices)}.")


def _at_least(name: str, value: float, low: float) -> None:
    if not value >= low:
        raise InvalidSettingError(f"--{name} is {value}; it takes a number of at least {low:g}.")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidSettingError(f"--{name} is {value}; it takes a number from {low:g} to {high:g}.")
