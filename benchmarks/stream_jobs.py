"""What the benchmarks of the stream share: a broker, the command on an engine, and what it costs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from engines.flink import Flink
from engines.kafka import Kafka
from engines.prism import Prism
from pipelines.streaming.control import Control

WARM_UP = 1_000
TICK = os.sysconf("SC_CLK_TCK")
_TOPIC = {"message_timestamp_type": "LogAppendTime"}


@dataclass
class Bench:
    """A broker, and a folder for what runs make."""

    kafka: Kafka
    folder: Path


@dataclass
class Job:
    """A running `crowdbeam stream`."""

    process: subprocess.Popen[bytes]
    control: Control
    topic: str
    prefix: str

    def status(self) -> dict[str, Any]:
        return self.control.status() or {}

    def wait(self, holds: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while True:
            status = self.status()
            if status and holds(status):
                return status
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the stream did not get there: {status}")
            time.sleep(0.1)


@contextmanager
def ended(job: Job) -> Iterator[Job]:
    """The job, which is asked to end in the end, and must do so in order."""
    try:
        yield job
        job.process.send_signal(signal.SIGTERM)
        code = job.process.wait(180)
        if code:
            raise SystemExit(f"the stream ended with {code}")
    finally:
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait()


def cpu_s(pids: list[int]) -> float:
    """Processor time of processes and of their children that have ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICK


def memory_mb(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))
    return total


@contextmanager
def engine_of(name: str, folder: Path) -> Iterator[Any]:
    """Prism or Flink."""
    kinds: dict[str, Callable[[], Any]] = {"prism": lambda: Prism(folder), "flink": lambda: Flink(folder)}
    with kinds[name]() as running:
        yield running


def python_pids(name: str, engine: Any, job: Job) -> list[int]:
    """The processes that run our functions."""
    return [job.process.pid] if name == "prism" else engine.workers()


def start(bench: Bench, engine: Any, case: str, topic: str = "") -> Job:
    """Starts the command; it writes to topics of its own, whose rows carry the broker's time."""
    topic, prefix = topic or f"labels-{case}", f"out-{case}"
    for name in ("scores", "skills", "graph"):
        bench.kafka.create_topic(f"{prefix}.{name}", 4, cleanup_policy="compact", **_TOPIC)
    control = bench.folder / f"control-{case}"
    command = [
        str(Path(sys.executable).parent / "crowdbeam"), "stream",
        "--source", f"kafka://{bench.kafka.bootstrap}/{topic}",
        "--sink", f"kafka://{bench.kafka.bootstrap}/{prefix}",
        "--control", str(control), "--quiet", *engine.beam_args(streaming=True),
    ]  # fmt: skip
    return Job(subprocess.Popen(command), Control(str(control)), topic, prefix)


def messages_of(bench: Bench, topic: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Every message of a topic as it is now, and the broker's time of it in ms."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bench.kafka.bootstrap, "group.id": "bench"})
    parts = [TopicPartition(topic, p, 0) for p in range(4)]
    ends = {part.partition: consumer.get_watermark_offsets(part)[1] for part in parts}
    left = sum(ends.values())
    consumer.assign(parts)
    while left:
        for message in consumer.consume(min(left, 10_000), 1.0):
            if message.error() is None:
                left -= 1
                yield json.loads(message.value() or b"{}"), message.timestamp()[1]
    consumer.close()


def row_times(bench: Bench, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Task, labels counted and broker's time in ms of every row of scores, in order of arrival."""
    for row, at_ms in messages_of(bench, f"{prefix}.scores"):
        yield row["task"], row["n_workers"], at_ms


@contextmanager
def loading(bench: Bench, topic: str, n_events: int, rate: float) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that sends events; it must have sent all of them in the end."""
    words = [bench.kafka.bootstrap, topic, str(n_events), str(rate)]
    producer = subprocess.Popen([sys.executable, "-m", "benchmarks.stream_load", *words], cwd=ROOT)
    try:
        yield producer
        code = producer.wait()
        if code:
            raise SystemExit(f"the producer ended with {code}")
    finally:
        producer.kill()
        producer.wait()


def load(bench: Bench, topic: str, n_events: int, rate: float) -> None:
    """Sends events, and returns when they are sent."""
    with loading(bench, topic, n_events, rate):
        pass


def warm_up(bench: Bench, job: Job) -> None:
    """Waits until the stream reads."""
    load(bench, job.topic, WARM_UP, 0)
    job.wait(lambda s: s["events"] >= WARM_UP, 180)
