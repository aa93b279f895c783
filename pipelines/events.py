"""Events: label acts as they arrive, with a time each; corrections are later labels, withdrawals have an op."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines import texts, times
from pipelines.blocks import NO_TIME, LabelBlock, pruned
from pipelines.errors import InvalidSettingError
from pipelines.records import DETAILS, Origin, Parsed, label_block, offsets_of, parsed_of, size_of
from pipelines.settings import FIELDS, INPUT_FORMATS, MESSAGE_FORMATS, TIME_UNITS
from pipelines.sources import Chunk

HOUR_US = 3_600_000_000
MAX_OFFSET = int(np.iinfo(np.uint32).max)
_IN_FUTURE = 16
_DETAILS = {
    **DETAILS,
    ("time", _IN_FUTURE): ("time-in-the-future", "The time is too far after the event's arrival: see --max-ahead."),
}


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
    block = replace(block, time=time, offset=offsets_of(chunk), arrived_us=int(arrived_us.min()), path=origin.path)
    parsed = parsed_of(chunk, origin, block, wrong, _DETAILS, "events")
    if parsed.block is None or (parsed.rejects is None and block.deleted is None):
        return parsed
    return replace(parsed, block=pruned(parsed.block))


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
