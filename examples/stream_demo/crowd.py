"""A made-up crowd whose truth is known, and what is sent: labels, corrections, withdrawals, broken messages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.simulate import simulate_crowd

CLASSES = ("bird", "cat", "dog")
SPAMMER_SHARE = 1 / 3
_HONEST = (0.45, 0.95)
_LABELS_PER_TASK = 8
_CORRECTED, _WITHDRAWN = 0.02, 0.01
_LATER = (500, 6000)
_LEAST_TASKS = 100
LABEL, DELETE = 0, 1

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Script:
    """What is sent, in order, and the truth behind it.

    Attributes:
        task, worker, label, op: (events,) codes; op is `LABEL` or `DELETE`.
        truth: (tasks,) class codes.
        skills: (workers,) skills that the labels were drawn with; a spammer's is 0.
    """

    task: Ints
    worker: Ints
    label: Ints
    op: Ints
    truth: Ints
    skills: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.task)

    @property
    def spammers(self) -> set[str]:
        """Their ids."""
        return {worker_name(code) for code in np.flatnonzero(self.skills == 0).tolist()}


def write_script(n_events: int, n_workers: int, rng: np.random.Generator) -> Script:
    """Labels of all tasks in any order; some are corrected or withdrawn a little later."""
    n_first = max(int(n_events / (1 + _CORRECTED + _WITHDRAWN)), _LEAST_TASKS)
    n_spammers = round(n_workers * SPAMMER_SHARE)
    skills = np.append(np.zeros(n_spammers), rng.uniform(*_HONEST, n_workers - n_spammers))
    crowd = simulate_crowd(
        n_tasks=max(n_first // _LABELS_PER_TASK, _LEAST_TASKS),
        n_workers=n_workers,
        labels_per_task=_LABELS_PER_TASK,
        n_classes=len(CLASSES),
        skills=rng.permutation(skills),
        rng=rng,
    )
    order = rng.permutation(len(crowd.task))[:n_first]
    first = np.stack([crowd.task, crowd.worker, crowd.label, np.full(len(crowd.task), LABEL)])[:, order]
    corrected = rng.choice(len(order), round(len(order) * _CORRECTED), replace=False)
    withdrawn = rng.choice(len(order), round(len(order) * _WITHDRAWN), replace=False)
    corrections, withdrawals = first[:, corrected].copy(), first[:, withdrawn].copy()
    corrections[2] = crowd.truth[corrections[0]]
    withdrawals[3] = DELETE
    place = np.concatenate(
        [np.arange(len(order)), corrected + _later(rng, corrected), withdrawn + _later(rng, withdrawn)]
    )
    events = np.concatenate([first, corrections, withdrawals], axis=1)[:, np.argsort(place, kind="stable")]
    task, worker, label, op = events
    return Script(task, worker, label, op, crowd.truth, crowd.skills)


def _later(rng: np.random.Generator, events: Ints) -> Ints:
    return rng.integers(*_LATER, size=len(events))


class MajorityVote:
    """What a majority vote says of the events that the stream has read: the plain way, to compare with."""

    def __init__(self, script: Script) -> None:
        self._script, self._n_taken = script, 0
        self._held: dict[tuple[int, int], int] = {}
        self._votes = np.zeros((len(script.truth), len(CLASSES)), np.int64)

    def take(self, n_events: int) -> None:
        """Takes the script's first events, as many as these; those taken before are not taken again."""
        part = slice(self._n_taken, n_events)
        columns = (getattr(self._script, name)[part].tolist() for name in ("task", "worker", "label", "op"))
        for task, worker, label, op in zip(*columns, strict=True):
            before = self._held.pop((task, worker), None)
            if before is not None:
                self._votes[task, before] -= 1
            if op == LABEL:
                self._held[task, worker] = label
                self._votes[task, label] += 1
        self._n_taken = max(self._n_taken, n_events)

    def answers(self) -> Ints:
        """(tasks,) the class with most votes, of several the one that sorts first; -1 where nobody voted."""
        return np.where(self._votes.any(axis=1), self._votes.argmax(axis=1), -1)


def task_name(code: int) -> str:
    """A task's id."""
    return f"t{code:05d}"


def worker_name(code: int) -> str:
    """A worker's id."""
    return f"w{code:03d}"


def message_of(task: int, worker: int, label: int, op: int, time_us: int) -> dict[str, Any]:
    """An event as it is sent."""
    event: dict[str, Any] = {"task": task_name(task), "worker": worker_name(worker), "submitted_at_us": time_us}
    return {**event, **({"op": "delete"} if op == DELETE else {"label": CLASSES[label]})}


def broken_messages(time_us: int) -> list[bytes]:
    """Messages that are no labels, each for a reason of its own."""
    hours_ahead = time_us + 7 * 3_600_000_000
    return [
        b'{"task": "t00001", "worker": "w0',
        b'{"task": "t00002", "label": "cat"}',
        b'{"task": "t00003", "worker": "w003", "label": "cat", "op": "undo"}',
        b'{"task": "t00004", "worker": "w004", "label": "dog", "submitted_at_us": %d}' % hours_ahead,
        b'{"task": "t00005", "worker": "w005", "label": "dog", "time": "yesterday"}',
    ]
