"""Late labels: those of tasks that were closed before they came, as rejects; known answers may be late, too."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.blocks import GOLD, NO_TIME, LabelBlock
from pipelines.tables import reject_table

LATE = "late-label"


def late_rejects(block: LabelBlock, rows: NDArray[np.int64]) -> pa.Table:
    """The labels of `block` in some of its rows as rejects."""
    late = block.rows(rows)
    workers, classes = late.workers.to_pylist(), late.classes.to_pylist()
    offset = np.arange(len(block))[rows] if late.offset is None else late.offset
    time = np.full(len(late), NO_TIME) if late.time is None else late.time
    gone = np.zeros(len(late), bool) if late.deleted is None else late.deleted
    return reject_table(
        [
            {
                "record": _shown(task, workers[worker], None if withdrawn else classes[label], int(at)),
                "reason": LATE,
                "detail": f"The task was closed before this {_kind(workers[worker])} arrived: see --task-ttl.",
                "source": block.path,
                "position": block.sequence + int(place),
            }
            for task, worker, label, at, place, withdrawn in zip(
                late.task.to_pylist(), late.worker, late.label, time, offset, gone, strict=True
            )
        ]
    )


def _kind(worker: str) -> str:
    return "known answer" if worker == GOLD else "label"


def _shown(task: str, worker: str, label: str | None, time_us: int) -> str:
    """The event as JSON; one without a label withdraws one, one without a worker is a known answer."""
    record: dict[str, Any] = {"task": task} | ({} if worker == GOLD else {"worker": worker})
    record |= {"op": "delete"} if label is None else {"label": label}
    if time_us != NO_TIME:
        record["submitted_at_us"] = time_us
    return json.dumps(record, ensure_ascii=False)
