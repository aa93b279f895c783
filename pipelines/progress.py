"""Progress of a run in this process: stages add to it, a terminal shows it."""

import threading
from collections import Counter

_lock = threading.Lock()
_done: Counter[str] = Counter()


def reset() -> None:
    """Begins a new run."""
    with _lock:
        _done.clear()


def add(stage: str, n_labels: int) -> None:
    """Tells that `stage` has done so many more labels."""
    with _lock:
        _done[stage] += n_labels


def done() -> dict[str, int]:
    """Labels done, by stage, in the order in which the stages began."""
    with _lock:
        return dict(_done)
