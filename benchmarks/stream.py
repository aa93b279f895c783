"""Benchmarks of the stream on real engines: ``python -m benchmarks.stream [backlog|sustained|slow] ...``.

Everything runs on this machine: broker, producer, engine and sink share its cores. Each figure is printed as it is
measured, and all of them are written to docs/stream-benchmarks.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.stream_jobs import (
    WARM_UP,
    Bench,
    Job,
    cpu_s,
    engine_of,
    load,
    memory_mb,
    messages_of,
    python_pids,
    row_times,
    start,
    warm_up,
)
from engines.kafka import Kafka

PAGE = ROOT / "docs" / "stream-benchmarks.md"
BACKLOG, CROWD = 1_000_000, 100_000


def backlog(bench: Bench, name: str, n_events: int) -> None:
    """A topic full of events, read from its beginning to the last answer."""
    case = f"backlog-{name}-{n_events}"
    bench.kafka.create_topic(f"labels-{case}", 4)
    load(bench, f"labels-{case}", n_events, 0)
    floor = measure_floor(bench, f"labels-{case}", case)
    with engine_of(name, bench.folder / f"{name}-{case}") as engine:
        job = start(bench, engine, case)
        try:
            job.wait(lambda s: s["first_read_at_s"] > 0, 120)
            started, ours = cpu_s(engine.pids()), cpu_s(python_pids(name, engine, job))
            status = job.wait(lambda s: s["events"] >= n_events and s["settled"], 300)
            python = cpu_s(python_pids(name, engine, job)) - ours
            state = state_bytes(engine, name)
            runner = cpu_s(engine.pids()) - started
        finally:
            job.end()
    last_s = max(at for _, _, at in row_times(bench, job.prefix)) / 1000
    read = n_events / (status["last_change_at_s"] - status["first_read_at_s"])
    answered = n_events / (last_s - status["first_read_at_s"])
    bench.say(
        f"| {name} | {n_events:,} | {read:,.0f} | {answered:,.0f} | {python * 1e6 / n_events:.1f} "
        f"| {runner * 1e6 / n_events:.1f} | {floor['cpu_s'] * 1e6 / n_events:.1f} "
        f"| {python / floor['cpu_s']:.2f} | {f'{state / n_events:.0f}' if state else '-'} |"
    )


def state_bytes(engine: Any, name: str) -> int:
    """The size of a checkpoint that holds everything; Prism makes none."""
    if name != "flink":
        return 0
    (job_id,) = [one["jid"] for one in engine.rest.jobs() if one["state"] == "RUNNING"]
    before = engine.rest.checkpoint(job_id)
    while (latest := engine.rest.checkpoint(job_id)) is None or latest == before:
        time.sleep(0.5)
    return int(latest.size_bytes)


def measure_floor(bench: Bench, topic: str, case: str) -> dict[str, float]:
    """The same functions without Beam."""
    command = [sys.executable, "-m", "benchmarks.stream_floor", bench.kafka.bootstrap, topic, f"floor-{case}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def sustained(bench: Bench, name: str, rate: int, seconds: float) -> None:
    """A steady rate: is the lag steady, and how old are answers?"""
    case = f"sustained-{name}"
    bench.kafka.create_topic(f"labels-{case}", 4)
    n_events = int(rate * seconds)
    lags = []
    with engine_of(name, bench.folder / f"{name}-{case}") as engine:
        job = start(bench, engine, case)
        try:
            words = [bench.kafka.bootstrap, f"labels-{case}", str(n_events), str(rate)]
            warm_up(bench, job)
            producer = subprocess.Popen([sys.executable, "-m", "benchmarks.stream_load", *words], cwd=ROOT)
            before = cpu_s(python_pids(name, engine, job))
            while producer.poll() is None:
                time.sleep(1)
                lags.append(sum(job.status().get("lag", {}).values()))
            cpu = cpu_s(python_pids(name, engine, job)) - before
            job.wait(lambda s: s["events"] >= n_events + WARM_UP and s["settled"], 120)
        finally:
            job.end()
    ages = answer_ages(bench, job)
    third = len(lags) // 3
    bench.say(
        f"| {name} | {rate:,} | {seconds:.0f} | {np.percentile(ages, 50):.2f} | {np.percentile(ages, 95):.2f} "
        f"| {np.mean(lags[third : 2 * third]):,.0f} → {np.mean(lags[2 * third :]):,.0f} | {cpu * 1e6 / n_events:.1f} |"
    )


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


def slow(bench: Bench, seconds: float, rate: int = 10) -> None:
    """A low rate for long, of a crowd that is known: what grows?"""
    case = "slow"
    bench.kafka.create_topic(f"labels-{case}", 4)
    load(bench, f"labels-{case}", CROWD, 0)
    with engine_of("flink", bench.folder / "flink-slow") as engine:
        job = start(bench, engine, case)
        try:
            job.wait(lambda s: s["events"] >= CROWD and s["settled"], 180)
            (job_id,) = [one["jid"] for one in engine.rest.jobs() if one["state"] == "RUNNING"]
            words = [bench.kafka.bootstrap, f"labels-{case}", str(int(rate * seconds)), str(rate)]
            producer = subprocess.Popen([sys.executable, "-m", "benchmarks.stream_load", *words], cwd=ROOT)
            marks = []
            while producer.poll() is None:
                time.sleep(10)
                checkpoint = engine.rest.checkpoint(job_id)
                size = checkpoint.size_bytes if checkpoint else 0
                marks.append((time.monotonic(), size, memory_mb(engine.workers()), job.status().get("events", 0)))
        finally:
            job.end()
    marks = [mark for mark in marks if mark[1]]
    half = marks[len(marks) // 4 :]
    at, size, memory, events = (np.array(column, float) for column in zip(*half, strict=True))
    slope = np.polyfit(at, size, 1)[0]
    per_label = slope / max(np.polyfit(at, events, 1)[0], 1e-9)
    grown = f"{slope / 1000:.2f} | {per_label:.0f} | {memory[0]:.0f} → {memory[-1]:.0f}"
    bench.say(f"| flink | {rate} | {seconds:.0f} | {grown} |")


HEADS = {
    "backlog": (
        "## Backlog\n\nA topic that is full when the stream starts; engine, broker and stream share the cores.\n\n"
        "| engine | events | read/s | to the last answer, events/s | Python CPU, µs/event | engine CPU, µs/event "
        "| floor CPU, µs/event | Python / floor | checkpoint, bytes/event |\n|---|---|---|---|---|---|---|---|---|"
    ),
    "sustained": (
        "\n## Steady rate\n\nFrom the sending of a label, of every label, to the first row of its task in the sink's "
        "topic that counts it.\n\n"
        "| engine | events/s | for, s | p50, s | p95, s | mean lag, second → last third | Python CPU, µs/event |\n"
        "|---|---|---|---|---|---|---|"
    ),
    "slow": (
        "\n## Low rate\n\nAfter 100,000 events, from a crowd that is known by then: what a checkpoint grows by, labels "
        "included.\n\n"
        "| engine | events/s | for, s | checkpoint growth, KB/s | a label, bytes | memory of the workers, MB |\n"
        "|---|---|---|---|---|---|"
    ),
}


def main(argv: list[str]) -> None:
    """Runs the cases that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream")
    parser.add_argument("cases", nargs="*", choices=[*HEADS, []])
    parser.add_argument("--engines", default="prism,flink")
    parser.add_argument("--events", type=int, default=BACKLOG)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--slow-seconds", type=float, default=600)
    args = parser.parse_args(argv)
    engines = args.engines.split(",")
    rates = {"prism": 5_000, "flink": 20_000}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kafka = stack.enter_context(Kafka(Path(folder) / "kafka"))
        bench = Bench(kafka, Path(folder), ["# The stream, measured\n"])
        for case in args.cases or HEADS:
            bench.say(HEADS[case])
            if case == "slow":
                slow(bench, args.slow_seconds)
                continue
            for name in engines:
                if case == "backlog":
                    backlog(bench, name, args.events)
                    backlog(bench, name, 3 * args.events)
                else:
                    sustained(bench, name, rates[name], args.seconds)
        PAGE.write_text("\n".join(bench.lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
