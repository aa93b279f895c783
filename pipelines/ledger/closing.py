"""Closing: before which time the tasks of a ledger are closed, by each ttl that a night had."""

import json
from collections.abc import Mapping
from typing import Any

from pipelines.blocks import NO_TIME
from pipelines.ledger.version import Version

_CLOSINGS = "closings"  # the setting of a version that holds them


def closings_of(version: Version | None) -> dict[int, int]:
    """{ttl: before which time it has closed tasks}; of a version that does not tell, one that fits."""
    if version is None or version.closed_before_us == NO_TIME:
        return {}
    told = version.settings.get(_CLOSINGS)
    if told is None:
        return {version.clock_us - version.closed_before_us: version.closed_before_us}
    return {int(ttl): int(before) for ttl, before in json.loads(told).items()}


def closed_by_night(last: Version | None, ttl_us: int, clock_us: int) -> dict[int, int]:
    """The closings after a night; what is closed stays closed, also when the ttl is another, or none."""
    closings = closings_of(last)
    if ttl_us and clock_us != NO_TIME:
        closings[ttl_us] = max(closings.get(ttl_us, NO_TIME), clock_us - ttl_us)
    return closings


def closed_with_clock(version: Version, clock_us: int) -> dict[int, int]:
    """The closings of a version with an earlier clock: each no later than it was, nor than its ttl before the clock."""
    if clock_us == NO_TIME:
        return {}
    return {ttl_us: min(before, clock_us - ttl_us) for ttl_us, before in closings_of(version).items()}


def as_fields(closings: Mapping[int, int], settings: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a version that hold the closings, in place of others that may be in the settings."""
    others = {name: text for name, text in settings.items() if name != _CLOSINGS}
    told = {_CLOSINGS: json.dumps({str(ttl_us): before for ttl_us, before in closings.items()})} if closings else {}
    return {"settings": others | told, "closed_before_us": max(closings.values(), default=NO_TIME)}
