"""Findings: the sink's topics, read as any consumer would, and held against the truth."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from numpy.typing import NDArray

from examples.stream_demo.crowd import CLASSES, Script

SPAMMER_BELOW = 0.25
_TABLES = ("scores", "skills", "rejects")
_MOST = 20_000
_ANSWER_S = 15.0
_CODES = {name: code for code, name in enumerate(CLASSES)}


@dataclass(frozen=True)
class Verdicts:
    """Which workers were found to be spammers, rightly and wrongly, of how many."""

    right: int
    wrong: int
    n_spammers: int


class Findings:
    """What the stream has said so far: of each task and worker the row with the highest revision.

    Attributes:
        n_rows: how many messages were read, by table.
        rejects: the rows of rejects.
        skills: the latest row of each worker.
        model_version: the highest model that an answer rests on.
    """

    def __init__(self, bootstrap: str, prefix: str, script: Script) -> None:
        self._truth, self._spammers = script.truth, script.spammers
        self._answer = np.full(len(script.truth), -1)
        self._revision = np.full(len(script.truth), -1, np.int64)
        self.skills: dict[str, dict[str, Any]] = {}
        self.rejects: list[dict[str, Any]] = []
        self.n_rows = dict.fromkeys(_TABLES, 0)
        self.model_version = 0
        self._prefix = prefix
        own = {"group.id": "stream-demo", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 2}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **own})
        self._open_ends: set[tuple[str, int]] = set()

    def begin(self) -> None:
        """Finds the topics, which the stream makes before it begins; raises `KeyError` while they are missing."""
        topics = self._consumer.list_topics(timeout=_ANSWER_S).topics
        found = [(name, part) for table in _TABLES for name in [self._topic(table)] for part in topics[name].partitions]
        self._consumer.assign([TopicPartition(name, part, OFFSET_BEGINNING) for name, part in found])
        self._open_ends = set(found)

    def read(self, seconds: float) -> bool:
        """Takes what is there, waiting no longer than so; whether everything has been read."""
        messages: list[Any] = self._consumer.consume(_MOST, seconds)
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if error is None:
                self._open_ends.add(place)
                self._take(message.topic().rpartition(".")[2], json.loads(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._open_ends.discard(place)
        return not self._open_ends

    def close(self) -> None:
        """Lets go of the broker."""
        self._consumer.close()

    def error_of_answers(self) -> float:
        """The share of wrong answers among the tasks that have one; NaN when none has."""
        return _error(self._answer, self._answer, self._truth)

    def error_of(self, answers: NDArray[np.int64]) -> float:
        """The share of wrong ones among other `answers`, on the tasks that the stream has answered."""
        return _error(answers, np.minimum(answers, self._answer), self._truth)

    def n_answers(self) -> int:
        """How many tasks have an answer."""
        return int((self._answer >= 0).sum())

    def found_spammers(self) -> set[str]:
        """Workers whose skill is surely low."""
        return {worker for worker, row in self.skills.items() if _is_low(row)}

    def verdicts(self) -> Verdicts:
        """How far the spammers are found."""
        found = self.found_spammers()
        return Verdicts(len(found & self._spammers), len(found - self._spammers), len(self._spammers))

    def worst(self, n: int) -> list[dict[str, Any]]:
        """The rows of the workers of whom it is surest that they are no good."""
        rows = [row for row in self.skills.values() if row["status"] != "no-labels"]
        return sorted(rows, key=lambda row: (row["skill_high"], row["worker"]))[:n]

    def is_spammer(self, worker: str) -> bool:
        """The truth."""
        return worker in self._spammers

    def _topic(self, table: str) -> str:
        return f"{self._prefix}.{table}"

    def _take(self, table: str, row: dict[str, Any]) -> None:
        self.n_rows[table] += 1
        if table == "rejects":
            self.rejects.append(row)
        elif table == "skills":
            known = self.skills.get(row["worker"])
            if known is None or known["revision"] < row["revision"]:
                self.skills[row["worker"]] = row
        else:
            task = int(row["task"][1:])
            if self._revision[task] < row["revision"]:
                self._revision[task] = row["revision"]
                self._answer[task] = _CODES.get(row["label"], -1)
                self.model_version = max(self.model_version, row["model_version"])


def _is_low(row: dict[str, Any]) -> bool:
    return row["status"] in ("ok", "saturated") and row["skill_high"] < SPAMMER_BELOW


def _error(answers: NDArray[np.int64], known: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    chosen = known >= 0
    return float((answers[chosen] != truth[chosen]).mean()) if chosen.any() else float("nan")
