"""Benchmarks of the stream on real engines: ``python -m benchmarks.stream [backlog|sustained|slow] ...``.

Everything runs on this machine: broker, producer, engine and sink share its cores. Each row is printed as it is
measured; the section of a case in docs/stream-benchmarks.md is written anew when the case is through.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.stream_jobs import (
    WARM_UP,
    Bench,
    Job,
    cpu_s,
    ended,
    engine_of,
    load,
    loading,
    memory_mb,
    messages_of,
    python_pids,
    row_times,
    start,
    warm_up,
)
from benchmarks.stream_page import SECTIONS, put
from engines.kafka import Kafka

BACKLOG, CROWD = 1_000_000, 100_000


@dataclass(frozen=True)
class Backlog:
    """What one run measured; processor times in seconds."""

    read: float
    answered: float
    python_s: float
    engine_s: float
    floor_s: float
    state: int


def backlog(bench: Bench, name: str, n_events: int, runs: int) -> str:
    """A topic full of events, read from its beginning to the last answer, again and again."""
    topic = f"labels-backlog-{name}-{n_events}"
    bench.kafka.create_topic(topic, 4)
    load(bench, topic, n_events, 0)
    found = [backlog_once(bench, name, n_events, topic, f"backlog-{name}-{n_events}-{run}") for run in range(runs)]

    def each(of: Callable[[Backlog], float]) -> str:
        return f"{np.median([of(one) for one in found]) * 1e6 / n_events:.1f}"

    state = int(np.median([one.state for one in found]))
    cells = (
        name, f"{n_events:,}", str(runs), spread([one.read for one in found]), spread([one.answered for one in found]),
        each(lambda one: one.python_s), each(lambda one: one.engine_s), each(lambda one: one.floor_s),
        f"{np.median([one.python_s / one.floor_s for one in found]):.2f}", f"{state / n_events:.0f}" if state else "-",
    )  # fmt: skip
    return row_of(*cells)


def backlog_once(bench: Bench, name: str, n_events: int, topic: str, case: str) -> Backlog:
    """One run, and the floor beside it."""
    floor = measure_floor(bench, topic, case, n_events)
    with engine_of(name, bench.folder / f"{name}-{case}") as engine:
        job = start(bench, engine, case, topic)
        with ended(job):
            job.wait(lambda s: s["first_read_at_s"] > 0, 120)
            started, ours = cpu_s(engine.pids()), cpu_s(python_pids(name, engine, job))
            status = job.wait(lambda s: s["events"] >= n_events and s["settled"], 300)
            python = cpu_s(python_pids(name, engine, job)) - ours
            state = state_bytes(engine, name)
            runner = cpu_s(engine.pids()) - started
    last_s = max(at for _, _, at in row_times(bench, job.prefix)) / 1000
    return Backlog(
        n_events / (status["last_change_at_s"] - status["first_read_at_s"]),
        n_events / (last_s - status["first_read_at_s"]),
        python, runner, floor, state,
    )  # fmt: skip


def spread(rates: Sequence[float]) -> str:
    """The median; of several also the lowest and the highest.

    >>> spread([1000.0, 3000.0, 2000.0])
    '2,000 (1,000 to 3,000)'
    """
    middle = f"{np.median(rates):,.0f}"
    return middle if len(rates) == 1 else f"{middle} ({min(rates):,.0f} to {max(rates):,.0f})"


def row_of(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def state_bytes(engine: Any, name: str) -> int:
    """The size of a checkpoint that holds everything; Prism makes none."""
    if name != "flink":
        return 0
    (job_id,) = [one["jid"] for one in engine.rest.jobs() if one["state"] == "RUNNING"]
    before = engine.rest.checkpoint(job_id)
    while (latest := engine.rest.checkpoint(job_id)) is None or latest == before:
        time.sleep(0.5)
    return int(latest.size_bytes)


def measure_floor(bench: Bench, topic: str, case: str, n_events: int) -> float:
    """Processor seconds of the same functions without Beam."""
    command = [sys.executable, "-m", "benchmarks.stream_floor", bench.kafka.bootstrap, topic, f"floor-{case}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found = json.loads(done.stdout.splitlines()[-1])
    if found["events"] != n_events:
        raise SystemExit(f"the floor has read {found['events']} of {n_events} events")
    return float(found["cpu_s"])


def sustained(bench: Bench, name: str, rate: int, seconds: float) -> str:
    """A steady rate: is the lag steady, and how old are answers?"""
    case = f"sustained-{name}"
    bench.kafka.create_topic(f"labels-{case}", 4)
    n_events = int(rate * seconds)
    lags = []
    with engine_of(name, bench.folder / f"{name}-{case}") as engine:
        job = start(bench, engine, case)
        with ended(job):
            warm_up(bench, job)
            before = cpu_s(python_pids(name, engine, job))
            with loading(bench, job.topic, n_events, rate) as producer:
                while producer.poll() is None:
                    time.sleep(1)
                    lags.append(sum(job.status().get("lag", {}).values()))
            cpu = cpu_s(python_pids(name, engine, job)) - before
            job.wait(lambda s: s["events"] >= n_events + WARM_UP and s["settled"], 120)
    ages = answer_ages(bench, job)
    middle, last = thirds(lags)
    half, most = np.percentile(ages, [50, 95])
    lag = f"{np.mean(middle):,.0f} → {np.mean(last):,.0f}"
    cost = f"{cpu * 1e6 / n_events:.1f}"
    return row_of(name, f"{rate:,}", f"{seconds:.0f}", f"{half:.2f}", f"{most:.2f}", lag, cost)


def thirds(values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The second third and the last one; the first holds the start."""
    third = len(values) // 3
    return values[third : 2 * third], values[2 * third :]


def answer_ages(bench: Bench, job: Job) -> list[float]:
    """Seconds from the sending of each label to the first row of its task that counts it, in order of the rows."""
    sent: dict[str, dict[str, int]] = {}
    for event, _ in messages_of(bench, job.topic):
        workers = sent.setdefault(event["task"], {})
        workers[event["worker"]] = min(event["submitted_at_us"], workers.get(event["worker"], event["submitted_at_us"]))
    in_turn = {task: sorted(workers.values()) for task, workers in sent.items()}
    counted = dict.fromkeys(in_turn, 0)
    ages = []
    for task, n_workers, at_ms in row_times(bench, job.prefix):
        ages += [at_ms / 1000 - at_us / 1e6 for at_us in in_turn[task][counted[task] : n_workers]]
        counted[task] = max(counted[task], n_workers)
    if counted != {task: len(times) for task, times in in_turn.items()}:
        raise SystemExit("some labels have no row: the stream lost them, or the sink did")
    return ages


def slow(bench: Bench, seconds: float, rate: int = 10) -> str:
    """A low rate for long, of a crowd that is known: what grows?"""
    case = "slow"
    bench.kafka.create_topic(f"labels-{case}", 4)
    load(bench, f"labels-{case}", CROWD, 0)
    marks = []
    with engine_of("flink", bench.folder / "flink-slow") as engine:
        job = start(bench, engine, case)
        with ended(job):
            job.wait(lambda s: s["events"] >= CROWD and s["settled"], 180)
            (job_id,) = [one["jid"] for one in engine.rest.jobs() if one["state"] == "RUNNING"]
            with loading(bench, job.topic, int(rate * seconds), rate) as producer:
                while producer.poll() is None:
                    time.sleep(3)
                    checkpoint = engine.rest.checkpoint(job_id)
                    if checkpoint:
                        marks.append((time.monotonic(), checkpoint.size_bytes, memory_mb(engine.workers())))
            job.wait(lambda s: s["events"] >= CROWD + int(rate * seconds), 120)
    at, size, memory = zip(*marks, strict=True)
    (middle, last), (before, after) = thirds(size), thirds(at)
    apart_s = after[int(np.argmax(last))] - before[int(np.argmax(middle))]
    growth = f"{(max(last) - max(middle)) / apart_s / 1000:.2f}"
    (then, now), mb = thirds(memory), f"{min(size) / 1e6:.2f}, {max(size) / 1e6:.2f}"
    return row_of("flink", str(rate), f"{seconds:.0f}", mb, growth, f"{min(then):.0f} → {min(now):.0f}")


RATES = {"prism": 5_000, "flink": 20_000}


def rows_of(case: str, bench: Bench, args: argparse.Namespace) -> Iterator[str]:
    """Measures a case, a row of its table after the other."""
    if case == "slow":
        yield slow(bench, args.slow_seconds)
        return
    for name in args.engines.split(","):
        if case == "backlog":
            yield backlog(bench, name, args.events, args.runs)
            yield backlog(bench, name, 3 * args.events, 1)
        else:
            yield sustained(bench, name, RATES[name], args.seconds)


def main(argv: list[str]) -> None:
    """Runs the cases that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream")
    parser.add_argument("cases", nargs="*", choices=[*SECTIONS, []])
    parser.add_argument("--engines", default="prism,flink")
    parser.add_argument("--events", type=int, default=BACKLOG)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--slow-seconds", type=float, default=600)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, Kafka(Path(folder) / "kafka") as kafka:
        bench = Bench(kafka, Path(folder))
        for case in args.cases or SECTIONS:
            print(SECTIONS[case].text([]), end="", flush=True)
            rows = []
            for row in rows_of(case, bench, args):
                print(row, flush=True)
                rows.append(row)
            put(case, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
