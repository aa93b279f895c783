"""Kafka: the partitions of a topic, shared out among readers; offsets are kept by the stream, not by the group.

A reader is assigned its partitions and never subscribes, so that no rebalance moves them. The group's offsets are
committed for those who watch the lag; nothing is read from them.
"""

import difflib
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from pipelines.errors import InputError, InvalidSettingError
from pipelines.events import EventSettings
from pipelines.kafka_client import kafka_library, properties_of, refuse_settings
from pipelines.sources.kafka_reader import KafkaReader
from pipelines.sources.unbounded import refuse_readers, refuse_start

CHECK_S = 10.0
_OURS = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
_DEFAULTS = {
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 20,
    "queued.min.messages": 200_000,
    "reconnect.backoff.max.ms": 2000,
    "log_level": 2,
}


@dataclass(frozen=True)
class KafkaSource:
    """A topic of label events.

    Attributes:
        bootstrap: HOST:PORT, or several with commas.
        topic: the topic's name.
        events: what the messages look like.
        group: whose offsets are committed.
        start: where a stream without a position begins: "earliest" or "latest".
        readers: how many readers share the partitions: reader r has the partitions p with p mod readers = r.
        client: settings of the Kafka client, from a file of properties; they may hold secrets.
    """

    bootstrap: str
    topic: str
    events: EventSettings = field(default_factory=EventSettings)
    group: str = "crowdbeam"
    start: str = "earliest"
    readers: int = 1
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        refuse_start(self.start)
        refuse_readers(self.readers)
        refuse_settings(dict(self.client), ("bootstrap.servers", "group.id", *_OURS))

    @property
    def n_readers(self) -> int:
        """How many readers share the partitions."""
        return self.readers

    def reader(self, number: int) -> KafkaReader:
        """Reader `number`; it connects with its first poll."""
        return KafkaReader(self, number)

    def configuration(self) -> dict[str, Any]:
        """What the Kafka client is told."""
        ours = {"bootstrap.servers": self.bootstrap, "group.id": self.group, **_OURS}
        return {**_DEFAULTS, **dict(self.client), **ours}

    def check(self) -> None:
        """Raises `InputError` when the brokers do not answer within ten seconds, or have no such topic."""
        kafka = kafka_library()
        try:
            consumer = kafka.Consumer(self.configuration())
        except kafka.KafkaException as error:
            raise InvalidSettingError(f"The Kafka properties cannot be used: {error.args[0].str()}.") from error
        try:
            topics = consumer.list_topics(timeout=CHECK_S).topics
        except kafka.KafkaException as error:
            why = error.args[0].str()
            raise InputError(
                f"Kafka at {self.bootstrap} does not answer ({why}). Check host and port, and that the broker runs."
            ) from error
        finally:
            consumer.close()
        found = topics.get(self.topic)
        if found is None:
            raise InputError(_no_such_topic(self, [name for name in topics if not name.startswith("__")]))
        if found.error is not None:
            raise InputError(
                f"The topic {self.topic!r} of Kafka at {self.bootstrap} cannot be read: {found.error.str()}."
            )


def _no_such_topic(source: KafkaSource, names: list[str]) -> str:
    sentence = f"Kafka at {source.bootstrap} has no topic {source.topic!r}"
    near = difflib.get_close_matches(source.topic, names, 3, 0.6)
    if near:
        return f"{sentence}; did you mean {' or '.join(map(repr, near))}?"
    return f"{sentence}. Create it, or check its name."


def kafka_source_of(
    url: str,
    events: EventSettings | None = None,
    *,
    group: str = "crowdbeam",
    start: str = "earliest",
    readers: int = 1,
    properties: str = "",
) -> KafkaSource:
    """The source of a URL such as kafka://HOST:PORT/TOPIC; `properties` is a file with settings of the client.

    >>> kafka_source_of("kafka://a:9092,b:9092/labels").bootstrap
    'a:9092,b:9092'
    """
    bootstrap, topic = _parts_of(url)
    client_settings = properties_of(properties) if properties else ()
    source = KafkaSource(bootstrap, topic, events or EventSettings(), client=client_settings)
    return replace(source, group=group, start=start, readers=readers)


def _parts_of(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    hosts, _, topic = rest.partition("/")
    if "@" in hosts:
        raise InvalidSettingError(
            "The Kafka URL holds a user or password; a command line is no place for secrets. "
            "Write them into a file of properties (sasl.username=..., sasl.password=...) and name that file."
        )
    if "?" in url:
        raise InvalidSettingError(
            "The Kafka URL holds a ?; a source takes kafka://HOST:PORT/TOPIC. Write settings of the client, and "
            "passwords above all, into a file, one NAME=VALUE a line, and give the file: --kafka-properties FILE."
        )
    named = hosts and all(_is_address(host) for host in hosts.split(","))
    if scheme != "kafka" or not named or not topic or "/" in topic:
        raise InvalidSettingError(f"{url!r} is no Kafka URL; write kafka://HOST:PORT/TOPIC.")
    return hosts, unquote(topic)


def _is_address(host: str) -> bool:
    name, colon, port = host.rpartition(":")
    return bool(name and colon and port.isdecimal())
