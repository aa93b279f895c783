"""Every reason for which an event of a stream may be rejected, but for its being late."""

from pipelines import events, sources
from pipelines.records import REASONS

EVENT_REASONS = (
    REASONS
    | {reason for reason, _ in events._DETAILS.values()}
    | {sources.MALFORMED_MESSAGE, sources.EMPTY_MESSAGE, sources.UNKNOWN_SCHEMA}
    | {sources.LOST_OFFSETS, sources.FILE_CHANGED}
)
