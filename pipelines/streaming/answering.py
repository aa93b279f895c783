"""Answering: the labels of one shard and the latest skills in; answers that have changed out."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import schemas
from crowdcore.labels import Ints
from crowdcore.scores import TaskScores
from pipelines.answers import Answers, answer_table, blank_rows
from pipelines.blocks import LabelBlock, hash_texts, joined
from pipelines.model import Model
from pipelines.scoring import Votes, answer_tasks
from pipelines.settings import AggregateSettings
from pipelines.streaming.codes import Column
from pipelines.streaming.envelopes import Skills
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.rhythm import BACKLOG_EVERY_S, FRESH_S
from pipelines.streaming.rows import revised

_UNKNOWN, _NONE = -1, -2
_US = 1_000_000


@dataclass(frozen=True)
class AnswerRules:
    """Which answers are given again.

    Attributes:
        aggregate: how labels become answers.
        emit_if: an answer is given again when its label or the number of its workers changes, or its probability by
            more than this.
        fresh_s: labels that arrived longer ago are a backlog; their tasks are answered with the next model.
        backlog_every_s: while there is a backlog, how long between two rounds of answers.
        looks_per_s: how many answers are looked at again a second, at most, because skills have changed: where tasks
            are many not every model is a reason to look.
    """

    aggregate: AggregateSettings = field(default_factory=AggregateSettings)
    emit_if: float = 0.01
    fresh_s: float = FRESH_S
    backlog_every_s: float = BACKLOG_EVERY_S
    looks_per_s: float = 5_000.0


class AnswerBoard:
    """The open tasks of one shard with the answers that were given last.

    What was given is not part of the state: after a rebuild every answer is given again, and a task without labels is
    told of, for the sink may hold rows of a time that was rolled back, or of an earlier stream.
    """

    def __init__(self, rules: AnswerRules) -> None:
        self._rules = rules
        self.revision = 0
        self.version = 0
        self._begin(LabelTable())
        self._model = _no_model(rules.aggregate)
        self._votes: tuple[tuple[int, int, int], Votes] | None = None
        self._backlog_at = self._looked_at = 0.0
        self._queue: list[LabelBlock] = []
        self._sent, self._settled = 0, False

    @classmethod
    def of(cls, rules: AnswerRules, blocks: Iterable[LabelBlock], revision: int) -> "AnswerBoard":
        """A board made anew from its labels."""
        board = cls(rules)
        for block in blocks:
            board.table.apply(block)
        board.revision = revision
        board._grow()
        return board

    def _begin(self, table: LabelTable) -> None:
        self._table = table
        self._label, self._status = Column(np.int32, _UNKNOWN), Column(np.uint8)
        self._probability, self._score, self._n_workers = Column(np.float64), Column(np.float64), Column(np.int64)
        self._signature, self._waiting = Column(np.float64), Column(bool)

    def take(self, block: LabelBlock, now_s: float, number: int = 0) -> pa.Table | None:
        """Takes labels; gives the answers to their tasks that have changed, at once or with the next model.

        A block whose `number` a settled model rests on has come late: no other model need follow, so it is answered at
        once.
        """
        fresh = bool(self.version) and block.arrived_us >= (now_s - self._rules.fresh_s) * _US
        last = self._settled and 0 < number <= self._sent
        if not fresh and not last:
            self.wait(block)
            return None
        tasks = self.table.apply(block).tasks
        self._grow()
        waiting = np.flatnonzero(self._waiting.values)
        if fresh:
            self._backlog_at = 0.0
        tasks = np.union1d(tasks, waiting) if len(waiting) else tasks
        return self._given(tasks, now_s, exact=last)

    @property
    def table(self) -> LabelTable:
        """The labels; blocks of a backlog wait until somebody asks, and are then taken together."""
        self.gather()
        return self._table

    def gather(self) -> None:
        """Takes the blocks of a backlog that wait."""
        if self._queue:
            queue, self._queue = self._queue, []
            applied = self._table.apply(joined(queue))
            self._grow()
            self._waiting.values[applied.tasks] = True

    def learn(self, skills: Skills, now_s: float) -> pa.Table | None:
        """Takes a model; gives every answer that it changes. One that is older than the last changes nothing."""
        if skills.version <= self.version:
            return None
        self.know(skills)
        return self.answer_all(now_s)

    def answer_all(self, now_s: float) -> pa.Table | None:
        """Gives every answer that the model changes; of many tasks, or while there is a backlog, not with every one."""
        if not self._settled:
            behind = bool(self._queue) or bool(self._waiting.values.any())
            if behind and now_s - self._backlog_at < self._rules.backlog_every_s:
                return None
            if not behind and abs(now_s - self._looked_at) < len(self._label) / self._rules.looks_per_s - 1:
                return None
            self._backlog_at = now_s if behind else self._backlog_at
        self._looked_at = now_s
        tasks = np.arange(len(self.table.tasks))
        self._grow()
        return self._given(tasks, now_s, exact=self._settled)

    def wait(self, block: LabelBlock) -> None:
        """Takes labels that are answered with the next round."""
        self._queue.append(block)

    def know(self, skills: Skills) -> None:
        """Takes a model and gives nothing."""
        self._model, self.version, self._votes = Model.from_bytes(skills.frame), skills.version, None
        self._sent, self._settled = skills.sent, skills.settled

    def close(self, names: pa.LargeStringArray, now_s: float) -> pa.Table | None:
        """Gives the last answers to some tasks and forgets them."""
        tasks = self.table.tasks.find(names)
        tasks = np.sort(tasks[tasks >= 0])
        self._grow()
        if not len(tasks):
            return None
        rows = self._rows(tasks, *self._answers(tasks), now_s, closed=True)
        stays = np.ones(len(self.table.tasks), bool)
        stays[tasks] = False
        self._forget(stays)
        return rows

    def _forget(self, stays: NDArray[np.bool_]) -> None:
        """Keeps the tasks in the mask `stays`, and what was answered to them."""
        earlier, given = self.table, {name: column.values for name, column in self._columns().items()}
        block = earlier.block(stays)
        self._begin(LabelTable())
        self.table.apply(block)
        self._grow()
        old = earlier.tasks.find(self.table.tasks.names(np.arange(len(self.table.tasks))))
        for name, column in self._columns().items():
            column.values[:] = given[name][old]
        if len(given["label"]):
            codes = self.table.classes.of(earlier.classes.names(np.arange(len(earlier.classes))))
            known = self._label.values >= 0
            self._label.values[known] = codes[self._label.values[known]]
        self._votes = None

    def _columns(self) -> dict[str, Column]:
        return {
            "label": self._label,
            "status": self._status,
            "probability": self._probability,
            "score": self._score,
            "n_workers": self._n_workers,
            "signature": self._signature,
            "waiting": self._waiting,
        }

    def _grow(self) -> None:
        for column in self._columns().values():
            column.grow(len(self._table.tasks))

    def _given(self, tasks: Ints, now_s: float, exact: bool) -> pa.Table | None:
        """The answers to `tasks` that differ from those given last."""
        if not len(tasks):
            return None
        answers, label, model = self._answers(tasks)
        self._waiting.values[tasks] = False
        changed = (label != self._label.values[tasks]) | (answers.n_workers != self._n_workers.values[tasks])
        found = answers.scores
        if exact:
            changed |= found.probability != self._probability.values[tasks]
            changed |= found.score != self._score.values[tasks]
            changed |= answers.status != self._status.values[tasks]
            changed |= _signatures(found, model) != self._signature.values[tasks]
        else:
            changed |= np.abs(found.probability - self._probability.values[tasks]) > self._rules.emit_if
        chosen = np.flatnonzero(changed)
        if not len(chosen):
            return None
        return self._rows(tasks[chosen], _some(answers, chosen), label[chosen], model, now_s, closed=False)

    def _answers(self, tasks: Ints) -> tuple[Answers, Ints, Model]:
        """The answers to `tasks`, their class codes in the table, and the model, with the classes it does not know."""
        everything = len(tasks) == len(self.table.tasks)
        _, labels = self.table.labels_of(None if everything else tasks)
        votes, model = self._votes_now(), self._model
        strange = np.unique(labels.label[votes.classes[labels.label] < 0])
        if len(strange):
            model = _with_classes(model, self.table.classes.names(strange))
            votes = replace(votes, classes=model.class_places(self._class_names()))
        answers = answer_tasks(labels, votes, model, self._rules.aggregate)
        code = self.table.classes.of(model.classes)
        label = code[np.minimum(answers.scores.answer, len(code) - 1)] if len(code) else np.zeros(len(tasks), np.int64)
        return answers, np.where(answers.n_workers > 0, label, _NONE), model

    def _votes_now(self) -> Votes:
        table = self.table
        state = (self.version, len(table.workers), len(table.classes))
        if self._votes is None or self._votes[0] != state:
            workers = table.workers.names(np.arange(len(table.workers)))
            self._votes = state, Votes.of(self._model, workers, self._class_names())
        return self._votes[1]

    def _class_names(self) -> pa.LargeStringArray:
        return self.table.classes.names(np.arange(len(self.table.classes)))

    def _rows(self, tasks: Ints, answers: Answers, label: Ints, model: Model, now_s: float, closed: bool) -> pa.Table:
        self._label.values[tasks], self._status.values[tasks] = label, answers.status
        self._probability.values[tasks], self._score.values[tasks] = answers.scores.probability, answers.scores.score
        self._n_workers.values[tasks] = answers.n_workers
        self._signature.values[tasks] = _signatures(answers.scores, model)
        self.revision = max(self.revision + 1, int(now_s * _US))
        names = self.table.tasks.names(tasks)
        table = answer_table(names, answers.n_workers, answers, model).cast(schemas.arrow_schema("score"))
        empty = answers.n_workers == 0
        if empty.any():
            blank = blank_rows(names.filter(pa.array(empty)), model.name)
            table = pa.concat_tables([table.filter(pa.array(~empty)), blank])
        return revised(table, self.version, self.revision, closed)


def _some(answers: Answers, chosen: Ints) -> Answers:
    found = answers.scores
    scores = replace(
        found,
        answer=found.answer[chosen],
        probability=found.probability[chosen],
        margin=found.margin[chosen],
        score=found.score[chosen],
        tied=found.tied[chosen],
        with_majority=found.with_majority[chosen],
        probabilities=None if found.probabilities is None else found.probabilities[chosen],
    )
    return Answers(scores, answers.n_workers[chosen], answers.status[chosen])


def _signatures(scores: TaskScores, model: Model) -> NDArray[np.float64]:
    """(tasks,) a number that changes when the probability of any class does; 0 when only the answer's is given."""
    if scores.probabilities is None:
        return np.zeros(len(scores.answer))
    marks = hash_texts(model.classes).astype(np.float64) / 2.0**64
    marked: NDArray[np.float64] = scores.probabilities[:, : len(marks)] @ marks
    return marked


def _no_model(settings: AggregateSettings) -> Model:
    """What is known before anything was solved."""
    none = pa.array([], pa.large_string())
    classes = pa.array(sorted(settings.classes), pa.large_string())
    prior = dict(settings.class_prior)
    shares = np.array([prior[name] for name in classes.to_pylist()] if prior else [], np.float64)
    return Model(none, np.empty(0), np.empty(0, np.uint8), classes, max(2, len(classes)), shares, settings.model)


def _with_classes(model: Model, strange: pa.LargeStringArray) -> Model:
    """The model with classes that it does not know yet; until it does, their frequency is that of no other."""
    together = pa.concat_arrays([model.classes, strange])
    order = pc.sort_indices(together)
    return replace(
        model, classes=together.take(order), n_classes=max(2, len(together)), class_prior=np.empty(0, np.float64)
    )
