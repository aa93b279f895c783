"""Records: of any type in, label blocks out; what is no label becomes a reject, with a reason."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines import tables, texts, times
from pipelines.blocks import GOLD, NO_TIME, UNORDERED, LabelBlock, pruned
from pipelines.sources import MALFORMED_RECORD, UNREADABLE_BLOCK, UNREADABLE_REST, Chunk

Details = Mapping[tuple[str, int], tuple[str, str]]
_NOT_A_CLASS = 16
_LABEL, _DELETE, _UNKNOWN = range(3)
_OPS = {"": _LABEL, "label": _LABEL, "delete": _DELETE}
DETAILS: Details = {
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
    ("op", _UNKNOWN): ("unknown-op", "The op is neither 'label' nor 'delete'."),
}
REASONS = frozenset(reason for reason, _ in DETAILS.values()) | {
    MALFORMED_RECORD,
    UNREADABLE_BLOCK,
    UNREADABLE_REST,
    "contradicting-repeat",
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


def parse_chunk(
    chunk: Chunk,
    origin: Origin,
    classes: Sequence[str] = (),
    scale: times.Scale | None = None,
    with_places: bool = False,
) -> Parsed:
    """Parses the records of `chunk`; labels outside `classes`, if any are given, are rejected; withdrawals are marked.

    Times become ranks, or what `scale` makes of them; the labels' places in the source are kept on request.
    """
    block, wrong = label_block(chunk, origin, classes, scale or times.RANKS) if size_of(chunk) else (None, {})
    if block is not None and with_places:
        block = replace(block, offset=offsets_of(chunk))
    parsed = parsed_of(chunk, origin, block, wrong, DETAILS, "gold" if origin.role == "gold" else "labels")
    if parsed.block is None or parsed.block.deleted is None:
        return parsed
    return replace(parsed, block=pruned(parsed.block))


def size_of(chunk: Chunk) -> int:
    """How many records could be read."""
    return len(chunk.columns["task"]) if chunk.columns else 0


def offsets_of(chunk: Chunk) -> NDArray[np.uint32]:
    """(records,) places counted from the chunk's first."""
    if chunk.positions is None:
        return np.arange(size_of(chunk), dtype=np.uint32)
    return (np.asarray(chunk.positions, np.int64) - chunk.first).astype(np.uint32)


def parsed_of(
    chunk: Chunk,
    origin: Origin,
    block: LabelBlock | None,
    wrong: Mapping[str, texts.Flags],
    details: Details,
    counted: str,
) -> Parsed:
    """The rows of `block` in which nothing is wrong, the others as rejects, and the counts of what is `counted`.

    Args:
        chunk: the records.
        origin: where they come from.
        block: all that could be read, row by row as in `chunk`; None when nothing could.
        wrong: flags by field, 0 where nothing is wrong.
        details: reason and sentence of each field and flag.
        counted: what the counts' names begin with.
    """
    n_records = size_of(chunk)
    bad = np.zeros(n_records, bool)
    for flags in wrong.values():
        bad |= flags > 0
    rejected = np.flatnonzero(bad)
    if block is not None and len(rejected):
        block = block.rows(~bad) if len(rejected) < n_records else None
    reasons: Counter[str] = Counter()
    rejects = None
    if len(rejected) or chunk.bad:
        columns = _rejects_of(chunk, rejected, _why(rejected, wrong, details), origin)
        reasons.update(columns["reason"])
        rejects = tables.to_bytes(tables.table_of("reject", {name: pa.array(columns[name]) for name in columns}))
    counts = {f"{counted}_read": n_records + len(chunk.bad), f"{counted}_rejected": reasons.total()}
    return Parsed(block, rejects, counts | {f"{counted}_rejected.{reason}": n for reason, n in reasons.items()})


def label_block(
    chunk: Chunk, origin: Origin, classes: Sequence[str], scale: times.Scale = times.RANKS
) -> tuple[LabelBlock, dict[str, texts.Flags]]:
    """All records of `chunk` as a block, row by row, and what is wrong with each field of each; gold has no op."""
    wrong: dict[str, texts.Flags] = {}
    task, wrong["task"] = texts.texts_of(chunk.columns["task"])
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
        time, wrong["time"] = times.times_of(chunk.columns["time"], scale)
        time = None if bool((time == NO_TIME).all()) else time
    deleted = None
    if "op" in chunk.columns and origin.role != "gold":
        deleted, wrong["op"] = _withdrawals(chunk.columns["op"])
    if deleted is not None:
        wrong["label"] = np.where(deleted, texts.OK, wrong["label"]).astype(np.uint8)
    block = LabelBlock(origin.source, chunk.first, task, worker, workers, label, names, time, origin.path, deleted)
    return block, wrong


def _withdrawals(column: Any) -> tuple[NDArray[np.bool_] | None, texts.Flags]:
    """(records,) which withdraw a label, None when none does; and which ops are unknown."""
    if column.null_count == len(column):
        return None, np.zeros(len(column), np.uint8)
    codes, names, flags = texts.codes_of(column)
    kinds = np.array([_OPS.get(name, _UNKNOWN) for name in names.to_pylist()], np.uint8)[codes]
    kinds = np.where(flags == texts.MISSING, _LABEL, np.where(flags == texts.OK, kinds, _UNKNOWN))
    deleted = kinds == _DELETE
    return deleted if deleted.any() else None, np.where(kinds == _UNKNOWN, _UNKNOWN, texts.OK).astype(np.uint8)


def _rejects_of(
    chunk: Chunk, rejected: NDArray[np.int64], why: list[tuple[str, str]], origin: Origin
) -> dict[str, list[Any]]:
    """The columns of the rejects: records that could not be read, then those of `rejected`."""
    why = [(bad.reason, bad.detail) for bad in chunk.bad] + why
    places = chunk.first + rejected if chunk.positions is None else np.asarray(chunk.positions, np.int64)[rejected]
    positions = [bad.position for bad in chunk.bad] + places.tolist()
    return {
        "record": [bad.record for bad in chunk.bad] + _shown(chunk, rejected),
        "reason": [reason for reason, _ in why],
        "detail": [detail for _, detail in why],
        "source": [origin.path] * len(why),
        "position": [-1] * len(why) if origin.source == UNORDERED else positions,
    }


def _why(rejected: NDArray[np.int64], wrong: Mapping[str, texts.Flags], details: Details) -> list[tuple[str, str]]:
    """(rejected,) reason and detail: those of the first field that is wrong."""
    codes = np.zeros(len(rejected), np.int64)
    keys, sentences = list(details), list(details.values())
    for field in reversed(list(wrong)):
        flags = wrong[field][rejected]
        for flag in np.unique(flags[flags > 0]).tolist():
            codes[flags == flag] = keys.index((field, flag))
    return [sentences[code] for code in codes.tolist()]


def _shown(chunk: Chunk, rows: NDArray[np.int64]) -> list[str]:
    """(rows,) records as JSON, with the values they had."""
    taken = {name: _values(column, pa.array(rows)) for name, column in chunk.columns.items()}
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return [encode(dict(zip(taken, record, strict=True))) for record in zip(*taken.values(), strict=True)]


def _values(column: pa.Array, rows: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return list(column.take(rows).to_pylist())
    if pa.types.is_floating(kind):
        values = column.take(rows).to_pylist()
        return [value if value is None or isfinite(value) else str(value) for value in values]
    given = texts.as_bytes(column).take(rows).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in given]
