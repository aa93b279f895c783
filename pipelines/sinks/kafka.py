"""Rows to Kafka: one topic a table, one message a row, the id as its key.

The topics PREFIX.scores, PREFIX.skills and PREFIX.graph are compacted: Kafka keeps the last message of each id for
ever. The last is nearly always the one with the highest revision, but after a crash an older row may be sent again
behind a newer one: readers compare (`latest_rows` does). PREFIX.rejects is an ordinary topic.
"""

import json
import logging
import operator
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.kafka_client import kafka_library, properties_of, refuse_settings
from pipelines.sinks import KEYS
from pipelines.sinks.json_rows import json_rows, key_texts
from pipelines.sinks.kafka_topics import make_topics
from pipelines.waits import WAITS

PATIENCE_S = 600.0
COMPACTED = ("scores", "skills", "graph")
_ANY_PARTITION = -1
_ANSWER_S = 10.0
_WARN_EVERY_S, _TELL_AFTER_S = 30.0, 5.0
_STEP_S = 0.2
_ROWS = 20_000
_RECENT_S = 60.0
_CUT = {"record": 150_000, "detail": 5_000}  # of rejects: a message is at most 1 MB, and escapes make texts longer
_OURS = ("bootstrap.servers", "acks", "request.required.acks", "enable.idempotence", "message.timeout.ms")
_CLIENT = {
    "linger.ms": 20,
    "compression.type": "lz4",
    "enable.idempotence": True,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 << 10,
    "message.timeout.ms": 0,  # a message never gives up by itself: our patience decides
    "delivery.report.only.error": True,
    "partitioner": "murmur2_random",  # as Java's producers: an id is in the partition where they look for it
    "reconnect.backoff.max.ms": 2_000,
    "log_level": 2,  # a broker that is away is told of once, in a sentence
}


@dataclass(frozen=True)
class KafkaTarget:
    """Topics of a Kafka cluster.

    Attributes:
        bootstrap: HOST:PORT of one or more brokers, with commas between them.
        prefix: what the topics' names begin with.
        config: settings of the client, by librdkafka's names, such as ("security.protocol", "SASL_SSL").
        config_file: a file with more of them, one NAME=VALUE a line; read on every worker, so that secrets stay there.
        partitions: of topics that are made.
        patience_s: how long a broker that is away is waited for.
    """

    bootstrap: str
    prefix: str
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    config_file: str = ""
    partitions: int = 4
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuses a prefix that Kafka would."""
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", self.prefix):
            raise InvalidSettingError(
                f"The prefix of the Kafka topics is {self.prefix!r}; use letters, digits, '.', '_' and '-'."
            )

    def topic(self, name: str) -> str:
        """The topic of the table `name`."""
        return f"{self.prefix}.{name}"

    def client(self) -> dict[str, Any]:
        """The settings that every client of this target needs."""
        given = {**dict(properties_of(self.config_file) if self.config_file else ()), **dict(self.config)}
        refuse_settings(given, _OURS)
        return {**given, "bootstrap.servers": self.bootstrap}

    def check(self) -> None:
        """Makes the topics that are missing; raises when the cluster does not answer or a topic is not compacted."""
        policies = {self.topic(name): "compact" if name in COMPACTED else "delete" for name in KEYS}
        make_topics(self.client(), policies, self.partitions, _ANSWER_S)

    def open(self) -> "KafkaSink":
        """A producer."""
        return KafkaSink(self)


class _Recent:
    """Revisions of the last minutes: a row that another thread has overtaken must not be the topic's last of its id.

    A timer forgets them, for of a stream that has gone quiet nothing more comes: neither rows nor flushes.
    """

    def __init__(self) -> None:
        self._now: dict[tuple[str, bytes], int] = {}
        self._before: dict[tuple[str, bytes], int] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def newer(
        self, name: str, keys: list[bytes], values: list[bytes], revisions: list[int]
    ) -> tuple[list[bytes], list[bytes]]:
        """Those rows that no higher revision of their id went before."""
        with self._lock:
            self._begin_timer()
            return self._newer(name, keys, values, revisions)

    def _newer(
        self, name: str, keys: list[bytes], values: list[bytes], revisions: list[int]
    ) -> tuple[list[bytes], list[bytes]]:
        ids = list(zip(repeat(name), keys))
        known = [max(self._now.get(one, 0), self._before.get(one, 0)) for one in ids]
        if any(map(operator.gt, known, revisions)):
            stays = [place for place, revision in enumerate(revisions) if known[place] <= revision]
            ids, revisions = [ids[place] for place in stays], [revisions[place] for place in stays]
            keys, values = [keys[place] for place in stays], [values[place] for place in stays]
        self._now.update(zip(ids, revisions, strict=True))
        return keys, values

    def _begin_timer(self) -> None:
        if self._timer is None:
            timer = threading.Timer(_RECENT_S, self._turn_over)
            timer.daemon = True
            timer.start()
            self._timer = timer

    def _turn_over(self) -> None:
        with self._lock:
            self._before, self._now, self._timer = self._now, {}, None
            if self._before:
                self._begin_timer()

    def close(self) -> None:
        """Ends the timer."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()


class KafkaSink:
    """An open producer; several threads may share it. After a failure it stays failed: what it held must be sent again.

    Attributes:
        retries: how often it looked while it waited, and nothing had gone out.
    """

    def __init__(self, target: KafkaTarget) -> None:
        self.retries = 0
        self._target = target
        self._failure = ""
        self._turn, self._recent = threading.Lock(), _Recent()
        self._producer = kafka_library().Producer({**_CLIENT, **target.client()})

    def write(self, name: str, table: pa.Table) -> None:
        """Hands rows to the producer, which sends them in the background."""
        if name == "rejects":
            table = _shortened(table)
        for batch in table.to_batches(max_chunksize=_ROWS):
            rows = pa.Table.from_batches([batch])
            keys, values = key_texts(rows, KEYS[name]), json_rows(rows)
            with self._turn:
                if name in COMPACTED:
                    keys, values = self._recent.newer(name, keys, values, rows["revision"].to_pylist())
                self._produce(self._target.topic(name), keys, values)
        self._raise_if_failed()

    def _produce(self, topic: str, keys: list[bytes], values: list[bytes]) -> None:
        """Gives every message to the producer: in one `map`, since a loop of Python's costs more than Kafka."""
        produce, report = self._producer.produce, self._delivered
        while keys:
            left = iter(keys)
            try:
                deque(map(produce, repeat(topic), values, left, repeat(_ANY_PARTITION), repeat(report)), maxlen=0)
                break
            except BufferError:  # the key that `left` gave last was not taken
                done = len(keys) - operator.length_hint(left) - 1
                keys, values = keys[done:], values[done:]
                self._wait(len(self._producer) - 1)
            except kafka_library().KafkaException as error:
                raise self._failed(f"Kafka refused a row for {topic}: {error.args[0].str()}.") from error
        self._producer.poll(0)

    def flush(self) -> None:
        """Returns when every row has been confirmed by the brokers."""
        self._wait(0)

    def close(self) -> None:
        """Forgets what has not been sent."""
        self._recent.close()
        self._producer.purge()
        self._producer.flush(1.0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and not self._failure:
            self._failure = f"Kafka did not take a row for {message.topic()}: {error.str()}."

    def _wait(self, most: int) -> None:
        """Serves the producer until at most `most` messages wait; gives up when its patience ends without progress."""
        wait = object()
        try:
            self._wait_told(most, wait)
        finally:
            WAITS.over(wait)

    def _wait_told(self, most: int, wait: object) -> None:
        waiting, since = len(self._producer), time.monotonic()
        warned = since
        while len(self._producer) > most or self._failure:
            self._producer.flush(_STEP_S)  # returns early when all is delivered; holds no lock of the interpreter's
            self._raise_if_failed()
            now = time.monotonic()
            if len(self._producer) < waiting:
                waiting, since = len(self._producer), now
                WAITS.over(wait)
                continue
            self.retries += 1
            if now - since > self._target.patience_s:
                raise self._failed(
                    f"Kafka at {self._target.bootstrap} took no row for {now - since:.0f} s; {waiting} rows wait. "
                    "See that its brokers run, then start again."
                )
            if now - since > _TELL_AFTER_S:
                WAITS.lasts(wait, f"Kafka at {self._target.bootstrap} takes no rows: {waiting:,} wait")
            if now - max(warned, since) > _WARN_EVERY_S:
                warned = now
                logging.getLogger(__name__).warning(
                    "Kafka at %s does not answer; %d rows wait.", self._target.bootstrap, waiting
                )

    def _failed(self, sentence: str) -> RunError:
        self._failure = self._failure or sentence
        return RunError(self._failure)

    def _raise_if_failed(self) -> None:
        if self._failure:
            raise RunError(self._failure)


def latest_rows(bootstrap: str, topic: str, config: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """What holds now: for each key of `topic` the row with the highest revision, of all that are there at this time.

    Of a topic `PREFIX.graph` only the rows that have the highest revision of all.

    Raises `InputError` when the topic cannot be read.
    """
    kafka = kafka_library()
    own = {"group.id": "crowdbeam-latest", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 2}
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, **own, **(config or {})})
    found: dict[str, dict[str, Any]] = {}
    try:
        known = consumer.list_topics(topic, _ANSWER_S).topics[topic]
        if known.error is not None:
            raise InputError(f"Topic {topic} of Kafka at {bootstrap} cannot be read: {known.error.str()}.")
        open_ends = set(known.partitions)
        consumer.assign([kafka.TopicPartition(topic, one, kafka.OFFSET_BEGINNING) for one in open_ends])
        while open_ends:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    _keep_latest(found, message.key(), message.value())
                elif error.code() == kafka.KafkaError._PARTITION_EOF:
                    open_ends.discard(message.partition())
                else:
                    raise InputError(f"Topic {topic} of Kafka at {bootstrap} cannot be read: {error.str()}.")
    except kafka.KafkaException as error:
        raise InputError(f"Kafka at {bootstrap} does not answer: {error.args[0].str()}.") from error
    finally:
        consumer.close()
    if topic.endswith(".graph"):
        newest = max((row["revision"] for row in found.values()), default=0)
        return {key: row for key, row in found.items() if row["revision"] == newest}
    return found


def _keep_latest(found: dict[str, dict[str, Any]], key: bytes, value: bytes | None) -> None:
    if value is None:  # somebody deleted the id
        found.pop(key.decode(), None)
        return
    row = json.loads(value)
    before = found.get(key.decode())
    if before is None or row.get("revision", 0) >= before.get("revision", 0):
        found[key.decode()] = row


def _shortened(rejects: pa.Table) -> pa.Table:
    """The rejects with their texts cut, so that each fits into a message."""
    for name, length in _CUT.items():
        cut = pc.utf8_slice_codeunits(rejects.column(name), 0, length)
        rejects = rejects.set_column(rejects.column_names.index(name), name, cut)
    return rejects
