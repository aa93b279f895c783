"""Records: of any type in, label blocks out; what is no label becomes a reject, with a reason."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines import tables, texts
from pipelines.blocks import GOLD, NO_TIME, UNORDERED, LabelBlock
from pipelines.sources import BadRecord, Chunk

_NOT_A_CLASS = 16
_DETAILS = {
    (field, flag): (reason.format(field=field), detail.format(field=field))
    for field in ("task", "worker", "label")
    for flag, reason, detail in (
        (texts.MISSING, "missing-{field}", "The {field} is missing: empty, null or not a number."),
        (texts.TOO_LONG, "too-long-{field}", f"The {{field}} is longer than {texts.MAX_BYTES} bytes."),
        (texts.NOT_UTF8, "malformed-{field}", "The {field} is not valid UTF-8 text."),
    )
} | {
    ("label", _NOT_A_CLASS): ("label-not-in-classes", "The label is none of the classes given."),
    ("time", texts.BAD_TIME): ("malformed-time", "The time is neither a number nor an ISO 8601 date and time."),
}


@dataclass(frozen=True)
class Origin:
    """Where records come from.

    Attributes:
        source: number of the source; `UNORDERED` when its records have no order.
        path: the file; empty when there is none.
        role: "labels", or "gold" for known answers.
    """

    source: int = UNORDERED
    path: str = ""
    role: str = "labels"


@dataclass(frozen=True)
class Parsed:
    """What became of some records: a label block and a block of rejects, either may be None, and the counts."""

    block: LabelBlock | None
    rejects: bytes | None
    counts: Mapping[str, int]


def parse_chunk(chunk: Chunk, origin: Origin, classes: Sequence[str] = ()) -> Parsed:
    """Parses the records of `chunk`; labels outside `classes`, if any are given, are rejected."""
    n_records = len(chunk.columns["task"]) if chunk.columns else 0
    wrong: dict[str, texts.Flags] = {}
    block = None
    if n_records:
        block, wrong = _label_block(chunk, origin, classes)
    bad = np.zeros(n_records, bool)
    for flags in wrong.values():
        bad |= flags > 0
    rejected = np.flatnonzero(bad)
    if block is not None and len(rejected):
        block = _without(block, bad) if len(rejected) < n_records else None
    rows = [_reject_of(record, origin) for record in chunk.bad]
    rows += _rejects_of(chunk, rejected, wrong, origin)
    reasons = Counter(row["reason"] for row in rows)
    prefix = "gold" if origin.role == "gold" else "labels"
    counts = {f"{prefix}_read": n_records + len(chunk.bad), f"{prefix}_rejected": len(rows)}
    counts |= {f"{prefix}_rejected.{reason}": count for reason, count in reasons.items()}
    return Parsed(block, tables.to_bytes(tables.reject_table(rows)) if rows else None, counts)


def _label_block(chunk: Chunk, origin: Origin, classes: Sequence[str]) -> tuple[LabelBlock, dict[str, texts.Flags]]:
    wrong: dict[str, texts.Flags] = {}
    task, wrong["task"] = texts.texts_of(_plain(chunk.columns["task"]))
    if origin.role == "gold":
        worker, workers = np.zeros(len(task), np.uint8), pa.array([GOLD], pa.large_string())
    else:
        worker, workers, wrong["worker"] = texts.codes_of(chunk.columns["worker"])
    label, names, wrong["label"] = texts.codes_of(chunk.columns["label"])
    if classes:
        known = pc.is_in(names, value_set=pa.array(classes, pa.large_string())).to_numpy(zero_copy_only=False)
        strange = ~known[label] & (wrong["label"] == texts.OK)
        wrong["label"] = np.where(strange, _NOT_A_CLASS, wrong["label"]).astype(np.uint8)
    time = None
    if "time" in chunk.columns:
        time, wrong["time"] = texts.times_of(chunk.columns["time"])
        time = None if bool((time == NO_TIME).all()) else time
    block = LabelBlock(origin.source, chunk.first, task, worker, workers, label, names, time, origin.path)
    return block, wrong


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _without(block: LabelBlock, bad: NDArray[np.bool_]) -> LabelBlock:
    good = ~bad
    return LabelBlock(
        block.source,
        block.sequence,
        block.task.filter(pa.array(good)),
        block.worker[good],
        block.workers,
        block.label[good],
        block.classes,
        None if block.time is None else block.time[good],
        block.path,
    )


def _rejects_of(
    chunk: Chunk, rejected: NDArray[np.int64], wrong: Mapping[str, texts.Flags], origin: Origin
) -> Iterator[dict[str, Any]]:
    taken = {name: column.take(pa.array(rejected)).to_pylist() for name, column in chunk.columns.items()}
    for place, row in enumerate(rejected.tolist()):
        field = next(name for name in wrong if wrong[name][row])
        reason, detail = _DETAILS[field, int(wrong[field][row])]
        position = row + chunk.first if chunk.positions is None else int(chunk.positions[row])
        record = json.dumps({name: taken[name][place] for name in taken}, ensure_ascii=False, default=_shown)
        yield {
            "record": record.encode("utf-8", "replace").decode(),
            "reason": reason,
            "detail": detail,
            "source": origin.path,
            "position": -1 if origin.source == UNORDERED else position,
        }


def _reject_of(record: BadRecord, origin: Origin) -> dict[str, Any]:
    return {
        "record": record.record,
        "reason": record.reason,
        "detail": record.detail,
        "source": origin.path,
        "position": record.position,
    }


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
