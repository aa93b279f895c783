"""Label events for the benchmarks of the stream: a backlog at once, or a steady rate.

``python -m benchmarks.stream_load BOOTSTRAP TOPIC EVENTS RATE`` sends events, RATE a second, 0 for as fast as it goes.
The time in an event is when it was sent, so that the age of an answer can be told.
"""

import sys
import time

import numpy as np

LABELS_PER_TASK, N_WORKERS = 5, 2_000
_TICK_S = 0.02
_SPREAD = 20_000
_CLASSES = ("no", "yes")


def labels(n_events: int, seed: int = 0) -> tuple[list[int], list[int], list[int]]:
    """Tasks, workers and classes of a simulated crowd, in the order in which they are sent."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(-(-n_events // LABELS_PER_TASK)), LABELS_PER_TASK)[:n_events]
    worker = rng.integers(0, N_WORKERS, n_events)
    truth = rng.integers(0, 2, int(task.max(initial=0)) + 1)
    right = rng.random(n_events) < rng.uniform(0.5, 0.95, N_WORKERS)[worker]
    label = np.where(right, truth[task], 1 - truth[task])
    order = np.argsort(np.arange(n_events) + rng.uniform(0, _SPREAD * LABELS_PER_TASK, n_events))
    return task[order].tolist(), worker[order].tolist(), label[order].tolist()


def send(bootstrap: str, topic: str, n_events: int, rate: float) -> None:
    """Sends the events."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000, "acks": "1"}
    )
    task, worker, label = labels(n_events)
    produce = producer.produce
    begun, sent = time.monotonic(), 0
    while sent < n_events:
        due = n_events if not rate else min(n_events, int((time.monotonic() - begun) * rate) + 1)
        due = min(due, sent + 20_000)
        now_us = time.time_ns() // 1000
        for t, w, k in zip(task[sent:due], worker[sent:due], label[sent:due], strict=True):
            ids = f'"task":"task-{t:07d}","worker":"w{w:05d}"'
            produce(topic, f'{{{ids},"label":"{_CLASSES[k]}","submitted_at_us":{now_us}}}', f"{t}")
        sent = due
        producer.poll(0)
        if rate:
            time.sleep(max(0.0, begun + sent / rate - time.monotonic(), _TICK_S if sent < n_events else 0.0))
    left = producer.flush(120)
    if left:
        raise SystemExit(f"{left} of {n_events} events were not sent")


if __name__ == "__main__":
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
