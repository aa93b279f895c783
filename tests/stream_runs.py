"""A stream as users run it: the command, a real broker, real sinks; and what must be in the sinks at the end."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa

import schemas
from crowdcore.edges import EdgeCounts
from pipelines.blocks import LabelBlock
from pipelines.grouped import group_blocks
from pipelines.scoring import score_shard
from pipelines.settings import AggregateSettings
from pipelines.sinks.kafka import latest_rows
from pipelines.solving import solve
from pipelines.streaming.control import Control

SCORE = schemas.arrow_schema("score").names
COMMAND = Path(sys.executable).parent / "crowdbeam"
START_US = 1_700_000_000_000_000


@dataclass(frozen=True)
class Events:
    """Columns of events, in the order in which they are sent."""

    task: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    time_us: np.ndarray
    deleted: np.ndarray

    def __len__(self):
        return len(self.task)

    def part(self, chosen):
        return Events(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def split(self, n_first):
        """The first events, and the others."""
        return self.part(slice(n_first)), self.part(slice(n_first, None))

    def messages(self):
        """Keys and JSON values."""
        for task, worker, label, at, gone in zip(
            self.task.tolist(),
            self.worker.tolist(),
            self.label.tolist(),
            self.time_us.tolist(),
            self.deleted.tolist(),
            strict=True,
        ):
            event = {"task": f"t{task}", "worker": f"w{worker}é", "submitted_at_us": at}
            yield f"t{task}", json.dumps({**event, **({"op": "delete"} if gone else {"label": f"c{label}"})})

    def avro_messages(self):
        """Keys and values by schemas/label.avsc."""
        for key, value in self.messages():
            body = io.BytesIO()
            fastavro.schemaless_writer(body, schemas.avro_versions("label")[0], {"label": "", **json.loads(value)})
            yield key, body.getvalue()


def make_events(n_events, seed=0, *, n_workers=200, n_classes=3):
    """Labels of a simulated crowd, with 5 % repeats, 5 % corrections and 2 % withdrawals, shuffled a little."""
    rng = np.random.default_rng(seed)
    n_first = int(n_events * 0.88)
    n_tasks = n_first // 5
    task = np.repeat(np.arange(n_tasks), 5)[:n_first]
    worker = (rng.integers(n_workers, size=n_tasks)[task] + np.arange(n_first) % 5 * 7) % n_workers
    truth, accuracy = rng.integers(n_classes, size=n_tasks), rng.uniform(0.4, 0.98, size=n_workers)
    right = rng.random(n_first) < accuracy[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, size=n_first)) % n_classes)
    order = rng.permutation(n_first)
    first = Events(
        task[order], worker[order], label[order], START_US + np.arange(n_first) * 1000, np.zeros(n_first, bool)
    )
    again, corrected, gone = (rng.integers(n_first, size=int(n_events * share)) for share in (0.05, 0.05, 0.02))
    repeats = first.part(again)
    other = first.part(corrected)
    corrections = Events(
        other.task, other.worker, (other.label + 1) % n_classes, other.time_us + 500_000, other.deleted
    )
    left = first.part(gone)
    withdrawals = Events(left.task, left.worker, left.label, left.time_us + 700_000, np.ones(len(left), bool))
    parts = [first, repeats, corrections, withdrawals]
    place = np.concatenate([np.arange(n_first), again + 3000, corrected + 1000, gone + 500]) + rng.normal(
        0, 200, size=sum(map(len, parts))
    )
    together = Events(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Events.__dataclass_fields__)
    )
    return together.part(np.argsort(place))


def surviving(events):
    """The rows that hold, by the rule of the docs."""
    order = np.lexsort([events.label, events.deleted, events.time_us, events.worker, events.task])
    last = np.append((np.diff(events.task[order]) != 0) | (np.diff(events.worker[order]) != 0), True)
    kept = order[last]
    return events.part(kept[~events.deleted[kept]])


def batch_of(events):
    """What the batch says of the labels that hold: edges, skills by worker, rows of scores by task."""
    held = surviving(events)
    n_workers, n_classes = int(held.worker.max()) + 1, int(held.label.max()) + 1
    block = LabelBlock(
        0,
        0,
        pa.array([f"t{task}" for task in held.task], pa.large_string()),
        held.worker,
        pa.array([f"w{n}é" for n in range(n_workers)], pa.large_string()),
        held.label,
        pa.array([f"c{n}" for n in range(n_classes)], pa.large_string()),
    )
    shard = group_blocks(0, [block], "last").shard
    edges = EdgeCounts.of(shard.labels, shard.workers.to_pylist(), shard.classes.to_pylist())
    solved = solve(edges, AggregateSettings())
    table, _ = score_shard(shard, solved.model, AggregateSettings())
    skills = {row["worker"]: row for row in solved.skill_table().to_pylist()}
    return edges, skills, {row["task"]: row for row in table.to_pylist()}


def produce(bootstrap, topic, events, rate=0.0):
    """Sends events, at most `rate` a second."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    began = time.monotonic()
    for number, (key, value) in enumerate(events.messages()):
        producer.produce(topic, value, key)
        if number % 500 == 0:
            producer.poll(0)
            if rate:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
    assert producer.flush(60) == 0


@dataclass
class StreamRun:
    """The command `crowdbeam stream`, running in a process group of its own, from the folder `cwd`."""

    words: list
    control: Path
    env: dict = field(default_factory=dict)
    cwd: Path = Path()
    process: subprocess.Popen = None

    def __enter__(self):
        folder = self.cwd / self.control
        folder.mkdir(parents=True, exist_ok=True)
        self.errors, self.output = folder / "stderr.log", folder / "stdout.log"
        words = [str(COMMAND), "stream", *map(str, self.words), "--control", str(self.control)]
        with self.errors.open("wb") as errors, self.output.open("wb") as output:
            self.process = subprocess.Popen(
                words,
                stdout=output,
                stderr=errors,
                env={**os.environ, **self.env},
                cwd=self.cwd,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def status(self):
        return Control(str(self.cwd / self.control)).status() or {}

    def wait(self, condition, what, seconds=240.0):
        """Waits until `condition(status)` holds."""
        until = time.monotonic() + seconds
        while True:
            status = self.status()
            if status and condition(status):
                return status
            code = self.process.poll()
            assert code is None, f"the stream ended with {code} before {what}: {self.errors.read_text('utf-8')}"
            assert time.monotonic() < until, f"no {what} within {seconds} s: {status}"
            time.sleep(0.1)

    def settle(self, n_events, seconds=240.0):
        """Waits until so many events are read, each once, and the model rests on all of them."""
        return self.wait(
            lambda status: status["events"] >= n_events and status["settled"], f"a settled model of {n_events}", seconds
        )

    def drain(self, seconds=120.0):
        """Asks the stream to end, as a service manager does; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


def wait_for_answers(read, scores, seconds=60.0):
    """Reads the sink until its rows are those of the batch, or time is up; returns what was there last."""
    until = time.monotonic() + seconds
    while True:
        rows = read()
        if matches(rows, scores) or time.monotonic() > until:
            return rows
        time.sleep(0.5)


def matches(rows, scores):
    held = {task: row for task, row in rows.items() if row["status"] != "no-labels"}
    return held.keys() == scores.keys() and all(
        all(held[task][name] == row[name] for name in SCORE) for task, row in scores.items()
    )


def assert_equal_answers(rows, scores):
    """Every task has the batch's answer, every number the same, and no other task has one."""
    held = {task: {name: row[name] for name in SCORE} for task, row in rows.items() if row["status"] != "no-labels"}
    assert len(held) == len(scores)
    differing = [task for task, row in scores.items() if held.get(task) != row]
    assert not differing, (len(differing), held.get(differing[0]), scores[differing[0]])


def topic_rows(bootstrap, prefix, name):
    return latest_rows(bootstrap, f"{prefix}.{name}")
