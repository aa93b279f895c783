"""The Kafka source on a real broker: nothing lost, nothing made up, whatever happens to positions and topics."""

import io
import json
import time

import fastavro
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka_events import (
    DEADLINE_S,
    Gathered,
    delete_records,
    message,
    new_topic,
    produce,
    source_of,
    transaction,
)

import schemas
from pipelines.errors import InputError, RunError
from pipelines.events import EventSettings
from pipelines.sources import kafka as kafka_source
from pipelines.sources import kafka_reader
from pipelines.sources.kafka import kafka_source_of
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN


@pytest.fixture
def opened(request):
    """Makes readers that are closed when the test ends."""

    def open_reader(source, number=0):
        reader = source.reader(number)
        request.addfinalizer(reader.close)
        return reader

    return open_reader


def tasks(*numbers):
    return [f"t{number}" for number in numbers]


def test_every_event_comes_once_with_its_partition_and_offset(kafka, opened):
    topic = new_topic(kafka, 3)
    for partition in range(3):
        produce(kafka, topic, [message(10 * partition + n) for n in range(4)], partition)
    found = Gathered(opened(source_of(kafka, topic)), n_events=12)
    assert found.events == {
        (f"kafka://{kafka.bootstrap}/{topic}/{p}", n): f"t{10 * p + n}" for p in range(3) for n in range(4)
    }
    assert found.times_read == 12
    assert json.loads(found.position) == {"0": 4, "1": 4, "2": 4}
    assert sum(polled.counts.get("events_read", 0) for polled in found.polls) == 12
    assert {block.source for polled in found.polls for block in polled.blocks} == {0, 1, 2}
    assert (found.polls[-1].lag, found.polls[-1].watermark_us) == ({f"{topic}-{p}": 0 for p in range(3)}, CAUGHT_UP)


def test_readers_share_the_partitions(kafka, opened):
    topic = new_topic(kafka, 3)
    for partition in range(3):
        produce(kafka, topic, [message(partition)], partition)
    source = source_of(kafka, topic, readers=2)
    assert source.n_readers == 2
    assert Gathered(opened(source, 0), n_events=2).tasks == tasks(0, 2)
    assert Gathered(opened(source, 1), n_events=1).tasks == tasks(1)
    idle = opened(source_of(kafka, topic, readers=4), 3).poll(b"", 10, 0.1)
    assert (idle.blocks, idle.position, idle.more, idle.watermark_us) == ((), b"{}", False, CAUGHT_UP)


def test_an_old_position_brings_the_same_events_again_from_any_reader(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(n) for n in range(10)])
    source = source_of(kafka, topic)
    reader = opened(source)
    first = Gathered(reader, n_events=10)
    again = Gathered(reader, b'{"0": 4}', 6)
    assert again.tasks == tasks(*range(4, 10)) == Gathered(opened(source), b'{"0": 4}', 6).tasks
    assert again.position == first.position
    produce(kafka, topic, [message(10)])
    assert again.go_on(7).tasks == tasks(*range(4, 11))
    assert again.times_read == 7


def test_a_backlog_is_read_in_turns_of_at_most_max_events(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(n) for n in range(1000)])
    found = Gathered(opened(source_of(kafka, topic)), n_events=1000, max_events=300)
    sizes = [sum(map(len, polled.blocks)) for polled in found.polls if polled.blocks]
    assert sizes == [300, 300, 300, 100]
    full = [polled for polled in found.polls if polled.blocks][:3]
    assert [(polled.more, polled.lag[f"{topic}-0"], polled.watermark_us) for polled in full] == [
        (True, 700, 299),
        (True, 400, 599),
        (True, 100, 899),
    ]


def test_a_lone_event_is_not_held_back(kafka, opened):
    topic = new_topic(kafka)
    reader = opened(source_of(kafka, topic))
    found = Gathered(reader)
    produce(kafka, topic, [message(1)])
    begun = time.monotonic()
    polled = reader.poll(found.position, 1000, 30)
    assert len(polled.blocks) == 1
    assert time.monotonic() - begun < 5


def test_a_partition_whose_end_is_not_known_yet_is_not_caught_up(kafka, opened):
    topic = new_topic(kafka, 2)
    reader = opened(source_of(kafka, topic))
    reader.poll(b"", 10, 1.0)
    known = {f"{topic}-0": 0, f"{topic}-1": 0}
    assert reader._watermark_us(known) == CAUGHT_UP
    assert reader._watermark_us({f"{topic}-0": 0}) == NOT_KNOWN
    assert reader._watermark_us({}) == NOT_KNOWN


def test_latest_begins_behind_what_is_there_and_stays_there_after_a_restart(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0)])
    source = source_of(kafka, topic, start="latest")
    begun = opened(source).poll(b"", 10, 0.1)
    assert (begun.blocks, begun.position) == ((), b'{"0": 1}')
    produce(kafka, topic, [message(1)])
    assert Gathered(opened(source), begun.position, 1).tasks == tasks(1)


def test_aborted_transactions_are_invisible_and_leave_no_lag(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0)])
    transaction(kafka, topic, [message(1), message(2)], commit=False)
    transaction(kafka, topic, [message(3), message(4)], commit=True)
    found = Gathered(opened(source_of(kafka, topic)), n_events=3)
    assert found.tasks == tasks(0, 3, 4)
    while json.loads(found.position)["0"] < 7:  # two markers and two aborted messages stand between
        found.go_on(3)
    assert (found.polls[-1].lag, found.polls[-1].watermark_us) == ({f"{topic}-0": 0}, CAUGHT_UP)
    produce(kafka, topic, [message(5)])
    assert found.go_on(4).tasks == tasks(0, 3, 4, 5)
    assert found.times_read == 4


def test_offsets_that_were_deleted_unread_are_told(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(n) for n in range(10)])
    delete_records(kafka, topic, 6)
    reader = opened(source_of(kafka, topic))
    found = Gathered(reader, b'{"0": 2}', 5)
    assert (found.tasks, found.rejects) == (tasks(6, 7, 8, 9), [(2, "lost-offsets")])
    (told,) = [polled.counts for polled in found.polls if polled.rejects]
    assert (told["events_lost"], told["events_rejected.lost-offsets"]) == (4, 1)
    fresh = Gathered(opened(source_of(kafka, topic)), n_events=4)
    assert (fresh.tasks, fresh.rejects) == (tasks(6, 7, 8, 9), [])


def test_a_position_beyond_the_end_begins_anew_and_is_told(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(n) for n in range(3)])
    found = Gathered(opened(source_of(kafka, topic)), b'{"0": 50}', 4)
    assert (found.tasks, found.rejects) == (tasks(0, 1, 2), [(50, "lost-offsets")])


def test_new_partitions_are_read_from_their_beginning(kafka, opened, monkeypatch):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0)])
    found = Gathered(opened(source_of(kafka, topic, start="latest")))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_S)
    produce(kafka, topic, [message(1)], 1)
    produce(kafka, topic, [message(2)], 2)
    monkeypatch.setattr(kafka_reader, "LOOK_S", 0)
    assert found.go_on(2).tasks == tasks(1, 2)


def test_bad_messages_are_rejected_at_their_offsets(kafka, opened):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0), b"{", None, message(1, op="undo"), message(2, time=2 * time.time_ns())])
    produce(kafka, topic, [message(3, label="z"), message(4, op="delete", label=None)])
    found = Gathered(opened(source_of(kafka, topic, EventSettings(classes=("x", "y")))), n_events=7)
    assert (found.tasks, sorted(found.rejects)) == (
        tasks(0, 4),
        [
            (1, "malformed-message"),
            (2, "empty-message"),
            (3, "unknown-op"),
            (4, "time-in-the-future"),
            (5, "label-not-in-classes"),
        ],
    )
    assert [block.deleted.tolist() for polled in found.polls for block in polled.blocks] == [[False, True]]


def test_avro_and_the_broker_s_clock(kafka, opened):
    topic = new_topic(kafka)
    file = io.BytesIO()
    row = {"task": "t1", "worker": "w", "label": "x", "submitted_at_us": None, "op": None}
    fastavro.schemaless_writer(file, schemas.avro_schema("label"), row)
    before = time.time_ns() // 1000
    produce(kafka, topic, [file.getvalue()])
    found = Gathered(opened(source_of(kafka, topic, EventSettings(format="avro"))), n_events=1)
    (block,) = [block for polled in found.polls for block in polled.blocks]
    assert block.time.tolist() == [block.arrived_us]
    assert before - 1000 <= block.arrived_us <= time.time_ns() // 1000


def test_a_broker_that_is_killed_is_waited_for_and_nothing_is_lost_or_doubled(kafka, opened, caplog):
    topic = new_topic(kafka, 2)
    produce(kafka, topic, [message(n) for n in range(5)])
    reader, newcomer = opened(source_of(kafka, topic)), opened(source_of(kafka, topic))
    found = Gathered(reader, n_events=5)
    kafka.kill()
    deadline = time.monotonic() + DEADLINE_S
    while "away" not in caplog.text and time.monotonic() < deadline:
        away = reader.poll(found.position, 10, 0.2)
        assert (away.blocks, away.position) == ((), found.position)
    assert "is away" in away.away
    assert newcomer.poll(b"", 10, 0.2).position == b""
    assert newcomer.poll(found.position, 10, 0.2).blocks == ()
    reader.confirm(found.position)
    kafka.restart()
    produce(kafka, topic, [message(n) for n in range(5, 9)], 1)
    assert found.go_on(9).tasks == tasks(*range(9))
    assert found.times_read == 9
    assert found.polls[-1].away == ""
    assert Gathered(newcomer, n_events=9).tasks == tasks(*range(9))
    assert caplog.text.count("is away") <= 4  # of each reader once, and again if the client is late to tell of it


def test_a_topic_that_is_deleted_ends_the_run_with_a_sentence(kafka, opened, monkeypatch):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0)])
    found = Gathered(opened(source_of(kafka, topic)), n_events=1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    monkeypatch.setattr(kafka_reader, "LOOK_S", 0.5)
    monkeypatch.setattr(kafka_reader, "GONE_S", 1)
    with pytest.raises(RunError, match=f"{kafka.bootstrap}.*'{topic}', no longer has it"):
        found.go_on(2)


def test_a_client_that_is_refused_ends_the_run_with_a_sentence(kafka, opened):
    reader = opened(source_of(kafka, new_topic(kafka)))
    reader._hear(KafkaError(KafkaError._AUTHENTICATION))
    with pytest.raises(RunError, match="refuses the client"):
        reader.poll(b"", 10, 0.1)


def test_confirmed_offsets_are_the_group_s_and_confirming_never_fails(kafka):
    topic = new_topic(kafka)
    produce(kafka, topic, [message(0)])
    source = source_of(kafka, topic, group="watchers")
    reader = source.reader(0)
    found = Gathered(reader, n_events=1)
    watcher = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "watchers"})
    deadline = time.monotonic() + DEADLINE_S
    while watcher.committed([TopicPartition(topic, 0)], timeout=10)[0].offset != 1:
        reader.confirm(found.position)
        reader.poll(found.position, 1, 0.1)
        assert time.monotonic() < deadline
    watcher.close()
    reader.confirm(b"")
    reader.close()
    reader.confirm(found.position)


def test_a_missing_topic_is_refused_before_anything_runs_with_a_guess(kafka):
    topic = new_topic(kafka)
    source_of(kafka, topic).check()
    with pytest.raises(InputError, match=f"{kafka.bootstrap} has no topic '{topic}x'; did you mean '{topic}'"):
        source_of(kafka, f"{topic}x").check()
    with pytest.raises(InputError, match="Create it"):
        source_of(kafka, "zzz").check()


def test_a_broker_that_does_not_answer_is_told_soon(monkeypatch):
    assert kafka_source.CHECK_S <= 10
    monkeypatch.setattr(kafka_source, "CHECK_S", 1)
    with pytest.raises(InputError, match=r"Kafka at 127\.0\.0\.1:9 does not answer"):
        kafka_source_of("kafka://127.0.0.1:9/labels").check()
