"""Events: label acts as they arrive, with a time each; corrections are later labels, withdrawals have an op."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines import texts, times
from pipelines.blocks import NO_TIME, LabelBlock
from pipelines.errors import InvalidSettingError
from pipelines.records import DETAILS, REASONS, Origin, Parsed, label_block, parsed_of, size_of
from pipelines.settings import INPUT_FORMATS, MESSAGE_FORMATS, TIME_UNITS
from pipelines.sources import EMPTY_MESSAGE, FILE_CHANGED, LOST_OFFSETS, MALFORMED_MESSAGE, UNKNOWN_SCHEMA, Chunk

FIELDS = ("task", "worker", "label", "time", "op")
HOUR_US = 3_600_000_000
MAX_OFFSET = int(np.iinfo(np.uint32).max)
_LABEL, _DELETE, _UNKNOWN = range(3)
_OPS = {"": _LABEL, "label": _LABEL, "delete": _DELETE}
_IN_FUTURE = 16
_DETAILS = {
    **DETAILS,
    ("time", _IN_FUTURE): ("time-in-the-future", "The time is too far after the event's arrival: see --max-ahead."),
    ("op", _UNKNOWN): ("unknown-op", "The op is neither 'label' nor 'delete'."),
}
EVENT_REASONS = (
    REASONS
    | {reason for reason, _ in _DETAILS.values()}
    | {MALFORMED_MESSAGE, EMPTY_MESSAGE, UNKNOWN_SCHEMA, LOST_OFFSETS, FILE_CHANGED}
)


@dataclass(frozen=True)
class EventSettings:
    """What the events of a source look like.

    Attributes:
        format: of messages: "json", or "avro" by schemas/label.avsc.
        columns: what the fields task, worker, label, time and op are called, where they differ.
        classes: the classes, if known; labels outside them are rejected.
        time_unit: of times that are numbers: "us", "ms" or "s".
        max_ahead_us: how much later than its arrival an event's time may be.
        input_format: of files; "auto": by the file's name.
    """

    format: str = "json"
    columns: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    time_unit: str = "us"
    max_ahead_us: int = HOUR_US
    input_format: str = "auto"

    def __post_init__(self) -> None:
        if self.format not in MESSAGE_FORMATS:
            raise InvalidSettingError(f"--message-format is {self.format!r}; it takes {', '.join(MESSAGE_FORMATS)}.")
        if self.time_unit not in TIME_UNITS:
            raise InvalidSettingError(f"--time-unit is {self.time_unit!r}; it takes {', '.join(TIME_UNITS)}.")
        if self.max_ahead_us < 0:
            raise InvalidSettingError(f"--max-ahead is {self.max_ahead_us / 1e6:g} s; it takes 0 or more.")
        for name, column in self.columns:
            if name not in FIELDS or not column:
                raise InvalidSettingError(f"--columns holds {name}={column}; it takes {', '.join(FIELDS)}, each =NAME.")
        if len(dict(self.columns)) != len(self.columns):
            raise InvalidSettingError("--columns names a field twice; name each once.")
        if self.input_format not in INPUT_FORMATS:
            known = ", ".join(INPUT_FORMATS)
            raise InvalidSettingError(f"--input-format is {self.input_format!r}; it takes {known}.")

    def column(self, name: str) -> str:
        """What the field `name` is called."""
        return dict(self.columns).get(name, name)


def parse_events(
    chunk: Chunk,
    origin: Origin,
    arrived_us: NDArray[np.int64],
    settings: EventSettings,
) -> Parsed:
    """Parses the events of `chunk`: times become microseconds since 1970, withdrawals are marked.

    Args:
        chunk: the records; the places of one chunk lie less than 2³² apart.
        origin: the partition's number, and what it is called.
        arrived_us: (records,) when each record arrived; the time of a record without one.
        settings: what the events look like.
    """
    if not size_of(chunk):
        return parsed_of(chunk, origin, None, {}, _DETAILS, "events")
    block, wrong = label_block(chunk, origin, settings.classes, times.microseconds(settings.time_unit))
    time, wrong["time"] = _times(block, wrong, arrived_us, settings.max_ahead_us)
    deleted = None
    if "op" in chunk.columns:
        deleted, wrong["op"] = _withdrawals(chunk.columns["op"])
    if deleted is not None:
        wrong["label"] = np.where(deleted, texts.OK, wrong["label"]).astype(np.uint8)
    block = replace(
        block, time=time, deleted=deleted, offset=_offsets(chunk), arrived_us=int(arrived_us.min()), path=origin.path
    )
    parsed = parsed_of(chunk, origin, block, wrong, _DETAILS, "events")
    if parsed.block is None or (parsed.rejects is None and deleted is None):
        return parsed
    return replace(parsed, block=_pruned(parsed.block))


def _pruned(block: LabelBlock) -> LabelBlock:
    """The block without workers that do nothing in it and classes that nobody chooses; there may be no class left."""
    deleted = block.deleted if block.deleted is not None and block.deleted.any() else None
    worker, workers = _used(block.worker, block.workers)
    chosen = block.label if deleted is None else block.label[~deleted]
    codes, classes = _used(chosen, block.classes)
    label = codes
    if deleted is not None:
        label = np.zeros(len(block), codes.dtype)
        label[~deleted] = codes
    return replace(block, worker=worker, workers=workers, label=label, classes=classes, deleted=deleted)


def _used(codes: NDArray[Any], names: Any) -> tuple[NDArray[Any], Any]:
    """The same codes over the names that occur."""
    present, places = np.unique(codes, return_inverse=True)
    return (codes, names) if len(present) == len(names) else (places, names.take(pa.array(present)))


def _times(
    block: LabelBlock, wrong: dict[str, texts.Flags], arrived_us: NDArray[np.int64], max_ahead_us: int
) -> tuple[NDArray[np.int64], texts.Flags]:
    """(events,) times, and what is wrong with them."""
    flags = wrong.get("time", np.zeros(len(block), np.uint8))
    if block.time is None:
        return arrived_us, flags
    time = np.where(block.time == NO_TIME, arrived_us, block.time)
    ahead = (time - max_ahead_us > arrived_us) & (flags == texts.OK)
    return time, np.where(ahead, _IN_FUTURE, flags).astype(np.uint8)


def _withdrawals(column: Any) -> tuple[NDArray[np.bool_] | None, texts.Flags]:
    """(events,) which withdraw a label, None when none does; and which ops are unknown."""
    if column.null_count == len(column):
        return None, np.zeros(len(column), np.uint8)
    codes, names, flags = texts.codes_of(column)
    kinds = np.array([_OPS.get(name, _UNKNOWN) for name in names.to_pylist()], np.uint8)[codes]
    kinds = np.where(flags == texts.MISSING, _LABEL, np.where(flags == texts.OK, kinds, _UNKNOWN))
    deleted = kinds == _DELETE
    return deleted if deleted.any() else None, np.where(kinds == _UNKNOWN, _UNKNOWN, texts.OK).astype(np.uint8)


def _offsets(chunk: Chunk) -> NDArray[np.uint32]:
    """(events,) places counted from the chunk's first."""
    if chunk.positions is None:
        return np.arange(size_of(chunk), dtype=np.uint32)
    return (np.asarray(chunk.positions, np.int64) - chunk.first).astype(np.uint32)
