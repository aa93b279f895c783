"""What the tests of the Kafka source share: topics, messages, and reading until everything is there."""

import itertools
import json
import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pipelines.sources.kafka import kafka_source_of
from pipelines.tables import from_bytes

DEADLINE_S = 60
_numbers = itertools.count()


def message(number, **more):
    return json.dumps({"task": f"t{number}", "worker": "ann", "label": "x", "time": number, **more}).encode()


def new_topic(kafka, partitions=1):
    name = f"labels-{next(_numbers)}"
    kafka.create_topic(name, partitions)
    return name


def source_of(kafka, topic, events=None, **more):
    return kafka_source_of(f"kafka://{kafka.bootstrap}/{topic}", events, **more)


def produce(kafka, topic, values, partition=0):
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def transaction(kafka, topic, values, commit):
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"test-{next(_numbers)}"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(DEADLINE_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(DEADLINE_S)


def delete_records(kafka, topic, before):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(DEADLINE_S)


def events_of(polled):
    """{(path, offset): task} of what a poll brought."""
    return {
        (block.path, block.sequence + offset): task
        for block in polled.blocks
        for task, offset in zip(block.task.to_pylist(), block.offset.tolist(), strict=True)
    }


def rejects_of(polled):
    return [(row["position"], row["reason"]) for data in polled.rejects for row in from_bytes(data).to_pylist()]


class Gathered:
    """Everything that came, until nothing was missing."""

    def __init__(self, reader, position=b"", n_events=0, max_events=1000):
        self.position, self.events, self.rejects, self.polls = position, {}, [], []
        self.times_read = 0
        self._reader, self._max_events = reader, max_events
        self.go_on(n_events)

    def go_on(self, n_events):
        """Polls until so many events are there and the reader says that there are no more."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            polled = self._reader.poll(self.position, self._max_events, 0.5)
            self.polls.append(polled)
            self.position = polled.position
            self.events |= (found := events_of(polled))
            self.times_read += len(found)
            self.rejects += rejects_of(polled)
            if len(self.events) + len(self.rejects) >= n_events and not polled.more and position_is_known(polled):
                return self
            assert time.monotonic() < deadline, f"{len(self.events)} of {n_events} events, {self.rejects}"

    @property
    def tasks(self):
        return sorted(self.events.values(), key=lambda task: int(task[1:]))


def position_is_known(polled):
    return polled.position != b""
