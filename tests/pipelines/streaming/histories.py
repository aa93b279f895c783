"""Random histories of label events, and what is left of them by the plain rule."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.blocks import LabelBlock


@dataclass(frozen=True)
class Event:
    task: str
    worker: str
    label: str
    time: int
    deleted: bool = False


def surviving(events):
    """The labels that hold, by the rule of the docs, one event at a time."""
    latest = {}
    for event in events:
        key = (event.task, event.worker)
        known = latest.get(key)
        if known is None or (event.time, event.deleted, event.label) > (known.time, known.deleted, known.label):
            latest[key] = event
    return [event for event in latest.values() if not event.deleted]


def random_events(rng, n_events, *, n_tasks=12, n_workers=6, classes=("no", "perhaps", "yes"), n_times=50):
    """Labels, corrections, withdrawals and repeats, in any order."""
    events = [
        Event(
            f"t{'é' * int(rng.integers(3))}{rng.integers(n_tasks)}",
            f"w{rng.integers(n_workers)}",
            str(rng.choice(classes)),
            int(rng.integers(n_times)),
            bool(rng.random() < 0.15),
        )
        for _ in range(n_events)
    ]
    repeated = [events[i] for i in rng.integers(len(events), size=len(events) // 10)] if events else []
    together = events + repeated
    return [together[i] for i in rng.permutation(len(together))]


def block_of(events, arrived_us=0):
    """The events as one block."""
    worker, label = (
        pa.array([getattr(e, name) for e in events], pa.large_string()).dictionary_encode()
        for name in ("worker", "label")
    )
    deleted = np.array([e.deleted for e in events], bool)
    return LabelBlock(
        0,
        0,
        pa.array([e.task for e in events], pa.large_string()),
        worker.indices.to_numpy(),
        worker.dictionary,
        label.indices.to_numpy(),
        label.dictionary,
        np.array([e.time for e in events], np.int64),
        path="test://",
        deleted=deleted if deleted.any() else None,
        offset=np.arange(len(events), dtype=np.uint32),
        arrived_us=arrived_us,
    )


def cut(rng, events, n_cuts):
    """The events in pieces."""
    ends = np.sort(rng.integers(0, len(events) + 1, size=n_cuts)).tolist()
    starts = [0, *ends]
    return [events[a:b] for a, b in zip(starts, [*ends, len(events)], strict=True) if b > a]
