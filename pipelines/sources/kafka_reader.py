"""Reading Kafka: one consumer for a share of a topic's partitions, polled from wherever the stream stands."""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import RunError
from pipelines.events import MAX_OFFSET, parse_events
from pipelines.kafka_client import kafka_library
from pipelines.records import Origin, Parsed
from pipelines.sources import LOST_OFFSETS, BadRecord, Chunk
from pipelines.sources.messages import parse_messages
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN, Polled

if TYPE_CHECKING:
    from pipelines.sources.kafka import KafkaSource

# Every block costs the same few milliseconds in each stage and shard: at 5,000 events a second, blocks of a tenth of a
# second kept a core busy and answers were 5 s old; with blocks of 0.3 s they are 1.1 s old, with these 0.8 s.
GATHER_S = 0.2
_BACKLOG_S = 0.5
LOOK_S, LOOK_WHILE_AWAY_S = 30.0, 5.0
GONE_S = 10.0
_ASK_S = 5.0
_MOST_AT_ONCE = 100_000
_LAST_MS = 1 << 52
_log = logging.getLogger(__name__)


class KafkaReader:
    """The partitions p of a topic with p mod readers = number."""

    def __init__(self, source: "KafkaSource", number: int) -> None:
        self._source, self._number = source, number
        self._kafka = kafka_library()
        self._consumer = self._kafka.Consumer({**source.configuration(), "error_cb": self._hear})
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._latest_us: dict[int, int] = {}
        self._partitions: list[int] = []
        self._looked_at = self._gone_since = -np.inf
        self._stuck, self._away = False, ""
        self._refused: Any = None

    def poll(self, position: bytes, max_events: int, timeout_s: float) -> Polled:
        """What stands after `position`; returns soon after the first event when there are few."""
        offsets = self._offsets(position)
        if offsets is None:
            self._hear_out(timeout_s)
            return Polled((), position, away=self._away)
        if self._stuck or offsets != self._next:
            self._assign(offsets)
        messages = self._consume(max_events, timeout_s)
        what = self._kafka.Message
        wrong = list(map(what.error, messages))  # methods of the class: no Python code runs for a message
        errors = []
        if any(error is not None for error in set(wrong)):
            errors = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        parsed = [*self._parse(messages), *self._handle(errors)]
        if messages:
            self._note_back()
        lag = self._lag()
        counts: Counter[str] = Counter()
        for one in parsed:
            counts.update(one.counts)
        return Polled(
            tuple(one.block for one in parsed if one.block is not None),
            _packed(self._next),
            tuple(one.rejects for one in parsed if one.rejects is not None),
            dict(counts),
            len(messages) >= max_events or any(lag.values()),
            lag,
            self._watermark_us(lag),
            self._away,
        )

    def confirm(self, position: bytes) -> None:
        """Commits the group's offsets in the background; what goes wrong there does no harm."""
        topic = self._source.topic
        offsets = [self._kafka.TopicPartition(topic, *pair) for pair in _unpacked(position).items()]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except (self._kafka.KafkaException, RuntimeError) as error:
            _log.debug("offsets not committed: %s", error)

    def close(self) -> None:
        """Lets go of the connections."""
        self._consumer.close()

    def _consume(self, max_events: int, timeout_s: float) -> list[Any]:
        """At least one event if any comes in time; then those of GATHER_S at most, or more of a backlog."""
        messages: list[Any] = self._consumer.consume(1, timeout_s)
        begun = time.monotonic()
        waiting = True
        while messages and waiting and len(messages) < max_events:
            wanted = min(max_events - len(messages), _MOST_AT_ONCE)
            found = self._consumer.consume(wanted, min(GATHER_S, timeout_s))
            messages += found
            backlog = sum(self._lag().values()) > len(messages)
            waiting = bool(found) and backlog and time.monotonic() < begun + _BACKLOG_S
        if self._refused is not None:
            raise RunError(self._sentence(f"refuses the client: {self._refused.str()}"))
        return messages

    def _parse(self, messages: list[Any]) -> Iterator[Parsed]:
        """The events, partition by partition."""
        n = len(messages)
        what = self._kafka.Message
        partitions = np.fromiter(map(what.partition, messages), np.int64, n)
        offsets = np.fromiter(map(what.offset, messages), np.int64, n)
        stamps_ms = np.fromiter(map(itemgetter(1), map(what.timestamp, messages)), np.int64, n)
        arrived_us = np.where(stamps_ms > 0, np.minimum(stamps_ms, _LAST_MS) * 1000, time.time_ns() // 1000)
        values = list(map(what.value, messages))
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            for part in _near(rows, offsets):
                chosen = values if len(part) == n else [values[row] for row in part.tolist()]
                origin = self._origin(partition)
                parsed = parse_messages(chosen, offsets[part], arrived_us[part], origin, self._source.events)
                if parsed.block is not None and parsed.block.time is not None:
                    latest = int(parsed.block.time.max())
                    self._latest_us[partition] = max(latest, self._latest_us.get(partition, latest))
                yield parsed
            self._next[partition] = int(offsets[rows[-1]]) + 1

    def _handle(self, errors: list[Any]) -> Iterator[Parsed]:
        """Ends of partitions, lost offsets and what never heals; the rest is waited for."""
        codes = self._kafka.KafkaError
        for message in errors:
            error, partition = message.error(), message.partition()
            match error.code():
                case codes._PARTITION_EOF:
                    self._note_back()
                    if message.offset() >= self._next.get(partition, 0):
                        self._next[partition] = message.offset()
                        self._ends[partition] = max(message.offset(), self._high(partition))
                case codes._AUTO_OFFSET_RESET | codes.OFFSET_OUT_OF_RANGE:
                    yield from self._jump(partition)
                case codes.UNKNOWN_TOPIC_OR_PART | codes._UNKNOWN_TOPIC | codes._UNKNOWN_PARTITION:
                    self._looked_at = -np.inf
                case codes.TOPIC_AUTHORIZATION_FAILED | codes.GROUP_AUTHORIZATION_FAILED:
                    raise RunError(self._sentence(f"does not let this client read: {error.str()}"))
                case _:
                    self._note_away(error)

    def _jump(self, partition: int) -> Iterator[Parsed]:
        """Goes on at the first offset there is, and tells of those that are lost."""
        wanted = self._next[partition]
        try:
            low, high = self._bounds(partition)
        except self._kafka.KafkaException as error:
            self._note_away(error.args[0])
            self._stuck = True
            return
        if low <= wanted <= high:
            self._stuck = True
            return
        if wanted < low:
            detail = (
                f"Offsets {wanted} to {low - 1} are no longer in the topic: they were deleted before they were read."
            )
        else:
            detail = (
                f"Offset {wanted} was next, but the topic ends at {high}: it was made anew. It is read from {low} on."
            )
        lost = Chunk(wanted, {}, (BadRecord(wanted, "", LOST_OFFSETS, detail),))
        parsed = parse_events(lost, self._origin(partition), np.empty(0, np.int64), self._source.events)
        self._assign({**self._next, partition: low})
        yield Parsed(parsed.block, parsed.rejects, {**parsed.counts, "events_lost": max(low - wanted, 0)})

    def _offsets(self, position: bytes) -> dict[int, int] | None:
        """The next offset of each partition; None when the brokers do not tell where a partition begins."""
        offsets = _unpacked(position)
        try:
            self._look()
            for partition in self._partitions:
                if partition not in offsets:
                    low, high = self._bounds(partition)
                    offsets[partition] = high if self._source.start == "latest" and not position else low
        except self._kafka.KafkaException as error:
            self._note_away(error.args[0])
            known = bool(offsets) and offsets.keys() >= set(self._partitions)
            return offsets if known else None
        return offsets if position or self._gone_since < 0 else None

    def _look(self) -> None:
        """Looks for new partitions now and then; raises `RunError` when the topic is gone for good."""
        now = time.monotonic()
        if now < self._looked_at + (LOOK_WHILE_AWAY_S if self._away else LOOK_S):
            return
        if self._partitions:
            self._looked_at = now
        topic = self._consumer.list_topics(self._source.topic, timeout=_ASK_S).topics[self._source.topic]
        if topic.error is not None:
            if self._gone_since < 0:
                self._gone_since = now
            if now >= self._gone_since + GONE_S:
                raise RunError(self._sentence(f"no longer has it: {topic.error.str()}"))
            self._looked_at = now + 1 - LOOK_S
            return
        self._looked_at, self._gone_since = now, -np.inf
        self._note_back()
        self._partitions = sorted(p for p in topic.partitions if p % self._source.readers == self._number)

    def _assign(self, offsets: dict[int, int]) -> None:
        topic = self._source.topic
        self._consumer.assign([self._kafka.TopicPartition(topic, *pair) for pair in offsets.items()])
        self._next, self._ends, self._stuck = dict(offsets), {}, False

    def _bounds(self, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last, asked of the broker."""
        place = self._kafka.TopicPartition(self._source.topic, partition)
        low, high = self._consumer.get_watermark_offsets(place, timeout=_ASK_S)
        return int(low), int(high)

    def _high(self, partition: int) -> int:
        """The offset after the last, as far as it is known without asking; negative when it is not."""
        place = self._kafka.TopicPartition(self._source.topic, partition)
        return int(self._consumer.get_watermark_offsets(place, cached=True)[1])

    def _lag(self) -> dict[str, int]:
        """Events waiting, by partition; partitions of which nothing is known yet are left out."""
        highs = {partition: self._high(partition) for partition in self._next}
        return {
            f"{self._source.topic}-{p}": 0 if high <= self._ends.get(p, -1) else max(high - self._next[p], 0)
            for p, high in highs.items()
            if high >= 0
        }

    def _watermark_us(self, lag: dict[str, int]) -> int:
        behind = [p for p in self._next if lag.get(f"{self._source.topic}-{p}", 1)]
        return min((self._latest_us.get(p, NOT_KNOWN) for p in behind), default=CAUGHT_UP)

    def _origin(self, partition: int) -> Origin:
        return Origin(partition, f"kafka://{self._source.bootstrap}/{self._source.topic}/{partition}")

    def _hear(self, error: Any) -> None:
        """Called by the client with errors that concern no partition."""
        codes = self._kafka.KafkaError
        if error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED):
            self._refused = error
        elif error.code() == codes._ALL_BROKERS_DOWN:
            self._note_away(error)

    def _hear_out(self, timeout_s: float) -> None:
        """Waits, so that the client may tell what is wrong."""
        self._consumer.consume(1, timeout_s)
        if self._refused is not None:
            raise RunError(self._sentence(f"refuses the client: {self._refused.str()}"))

    def _note_away(self, error: Any) -> None:
        sentence = self._sentence(f"is away: {error.str()}")
        if not self._away:
            _log.warning("%s; waiting for it", sentence)
        self._away = sentence

    def _note_back(self) -> None:
        if self._away:
            _log.warning("Kafka at %s is back", self._source.bootstrap)
        self._away = ""

    def _sentence(self, what: str) -> str:
        return f"Kafka at {self._source.bootstrap}, asked for the topic {self._source.topic!r}, {what}"


def _near(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> Iterable[NDArray[np.int64]]:
    """`rows` in parts whose offsets lie less than 2³² apart."""
    turns = (offsets[rows] - offsets[rows[0]]) // MAX_OFFSET
    return np.split(rows, np.flatnonzero(np.diff(turns)) + 1) if turns[-1] else [rows]


def _packed(offsets: dict[int, int]) -> bytes:
    return json.dumps({str(partition): offsets[partition] for partition in sorted(offsets)}).encode()


def _unpacked(position: bytes) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(position or b"{}").items()}
