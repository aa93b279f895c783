"""A stream that things happen to: events keep coming, rows go to two sinks, and at the end nothing may be missing."""

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from stream_runs import SCORE, StreamRun, assert_equal_answers, batch_of, produce, topic_rows, wait_for_answers

from pipelines.run_tables import read_table
from pipelines.streaming import snapshot
from pipelines.streaming.control import Control
from pipelines.streaming.flink_jobs import GONE
from pipelines.worker_tables import edge_tables

RATE = 4000.0


@dataclass
class Scene:
    """A topic, two sinks and a control folder, all with one name."""

    name: str
    kafka: object
    postgres: object
    folder: Path

    def __post_init__(self):
        self.kafka.create_topic(self.name, 4)

    @classmethod
    def of(cls, request, kafka, postgres, folder):
        """The scene of a test, by its name."""
        return cls(request.node.name.removeprefix("test_").replace("_", "-")[:60], kafka, postgres, folder)

    @property
    def words(self):
        """What `crowdbeam stream` takes for them."""
        sinks = [f"kafka://{self.kafka.bootstrap}/out-{self.name}", f"{self.postgres.dsn}?schema={self.name}"]
        source = f"kafka://{self.kafka.bootstrap}/{self.name}"
        return ["--source", source, *(word for sink in sinks for word in ("--sink", sink)), "--settle-after", "3s"]

    def stream(self, beam_args, life="first"):
        """The command, not yet running."""
        return StreamRun([*self.words, *beam_args], self.folder / life)

    def n_messages(self):
        """How many messages were sent to the topic."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": "count"})
        try:
            parts = consumer.list_topics(self.name, 10).topics[self.name].partitions
            return sum(consumer.get_watermark_offsets(TopicPartition(self.name, part), 10)[1] for part in parts)
        finally:
            consumer.close()

    def forget_messages(self):
        """Deletes all messages that were sent; their offsets stay used."""
        from confluent_kafka import OFFSET_END, TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        parts = [TopicPartition(self.name, part, OFFSET_END) for part in range(4)]
        for answer in admin.delete_records(parts).values():
            answer.result(30)

    def rows(self, table, columns, key):
        """The rows of a table in Postgres."""
        with psycopg.connect(self.postgres.dsn) as connection:
            found = connection.execute(f'SELECT {", ".join(columns)} FROM "{self.name}".{table}').fetchall()  # noqa: S608
        return {row[columns.index(key)]: dict(zip(columns, row, strict=True)) for row in found}

    def sent_rows(self):
        """Task and revision of every row in the topic of scores, partition by partition in their order."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        topic = f"out-{self.name}.scores"
        own = {"group.id": "all", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, **own})
        try:
            open_ends = set(consumer.list_topics(topic, 10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in open_ends])
            while open_ends:
                for message in consumer.consume(10_000, 0.2):
                    if message.error() is None:
                        yield message.key(), json.loads(message.value())["revision"]
                    else:
                        open_ends.discard(message.partition())
        finally:
            consumer.close()

    def scores(self):
        return self.rows("scores", SCORE, "task")

    def rejects(self):
        """The reasons in Postgres, by source and position."""
        with psycopg.connect(self.postgres.dsn) as connection:
            found = connection.execute(f'SELECT source, position, reason FROM "{self.name}".rejects').fetchall()  # noqa: S608
        return {(source, position): reason for source, position, reason in found}

    def send(self, values):
        """Sends messages; returns what rejects call the place of each: its partition's address, and its offset."""
        from confluent_kafka import Producer

        producer, places = Producer({"bootstrap.servers": self.kafka.bootstrap}), {}

        def delivered(value):
            def note(error, message):
                assert error is None
                source = f"kafka://{self.kafka.bootstrap}/{self.name}/{message.partition()}"
                places[value] = source, message.offset()

            return note

        for value in values:
            producer.produce(self.name, value, on_delivery=delivered(value))
        assert producer.flush(30) == 0
        return [places[value] for value in values]


class Load(threading.Thread):
    """Sends events from a thread, each exactly once even when the broker goes away."""

    def __init__(self, scene, events, avro=False):
        super().__init__(daemon=True)
        self._scene, self._messages = scene, events.avro_messages() if avro else events.messages()
        self.left = 1
        self.sent = 0
        self.start()

    def run(self):
        from confluent_kafka import Producer

        own = {"linger.ms": 20, "enable.idempotence": True, "message.timeout.ms": 240_000}
        producer = Producer({"bootstrap.servers": self._scene.kafka.bootstrap, "log_level": 2, **own})
        began = time.monotonic()
        for key, value in self._messages:
            producer.produce(self._scene.name, value, key)
            self.sent += 1
            if self.sent % 200 == 0:
                producer.poll(max(0.0, began + self.sent / RATE - time.monotonic()))
        self.left = producer.flush(120)

    def wait(self, n_events, seconds=60.0):
        """Returns when so many events are sent."""
        until = time.monotonic() + seconds
        while self.sent < n_events and self.is_alive():
            assert time.monotonic() < until, f"{self.sent} events sent in {seconds} s"
            self.join(0.05)

    def finish(self):
        """Returns when everything is sent."""
        self.join(240)
        assert self.left == 0


@dataclass
class Watched:
    """Looks at the revisions in Postgres again and again: none may ever become smaller."""

    scene: Scene
    fallen: list = field(default_factory=list)
    looks: int = 0

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)

    def _look(self):
        known = {}
        while not self._stop.wait(1.0):
            try:
                rows = self.scene.rows("scores", ["task", "revision"], "task")
            except psycopg.Error:  # not made yet, or away
                continue
            now = {task: row["revision"] for task, row in rows.items()}
            self.fallen += [task for task, revision in known.items() if now.get(task, -1) < revision]
            self.looks += 1
            known = now


def begin(scene, flink, run, events):
    """Waits until the stream has read some events, and has a checkpoint of them; returns its job."""
    produce(scene.kafka.bootstrap, scene.name, events)
    run.wait(lambda status: status["events"] == len(events), "first events")
    job = running_job(flink)
    n_before = flink.rest.checkpoint(job).count if flink.rest.checkpoint(job) else 0
    wait_for("checkpoint", lambda: (found := flink.rest.checkpoint(job)) and found.count > n_before)
    return job


def running_job(flink, seconds=60.0):
    """The id of the job that runs, once all of it does."""
    until = time.monotonic() + seconds
    while True:
        jobs = [job["jid"] for job in flink.rest.jobs() if job["state"] not in GONE]
        if jobs and flink.rest.is_running(jobs[0]):
            return jobs[0]
        assert time.monotonic() < until, flink.rest.jobs()
        time.sleep(0.2)


def restored(flink, job):
    """What the job started again from, once it has."""
    return wait_for("restore", lambda: flink.rest.restored(job))


def wait_for(what, found, seconds=90.0):
    """Asks until `found` gives something."""
    until = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < until, f"no {what} within {seconds} s"
        time.sleep(0.2)
    return result


def assert_exact(scene, run, events, n_rejected=0):
    """Every event counted once, and both sinks and a snapshot hold the batch's numbers."""
    edges, skills, scores = batch_of(events)
    n_events = scene.n_messages() - n_rejected
    status = run.settle(n_events)
    assert status["events"] == n_events == len(events)
    for read in (lambda: topic_rows(scene.kafka.bootstrap, f"out-{scene.name}", "scores"), scene.scores):
        assert_equal_answers(wait_for_answers(read, scores), scores)
    expected = pytest.approx({worker: row["skill"] for worker, row in skills.items()}, abs=1e-6)
    for rows in (
        topic_rows(scene.kafka.bootstrap, f"out-{scene.name}", "skills"),
        scene.rows("skills", ["worker", "skill"], "worker"),
    ):
        assert {worker: row["skill"] for worker, row in rows.items()} == expected
    latest = {}
    for task, revision in scene.sent_rows():
        assert revision >= latest.get(task, 0)
        latest[task] = revision
    assert_same_edges(run, edges, scene.folder / "snapshot")


def assert_same_edges(run, edges, folder):
    """The counts of every pair of workers, from a snapshot of the stream, are those of all labels at once."""
    snapshot.take(Control(str(run.control)), str(folder))
    assert _pairs(read_table(str(folder), "edges")) == _pairs(pa.concat_tables(edge_tables(edges)))


def _pairs(table):
    return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
