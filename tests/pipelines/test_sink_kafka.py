"""The Kafka sink, on a real broker."""

import json
import threading
import uuid

import apache_beam as beam
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from sink_rows import HARD_IDS, component, components, reject, rejects, score, scores

from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.sinks import kafka as kafka_sink
from pipelines.sinks.kafka import KafkaTarget, _Recent, latest_rows
from pipelines.sinks.write import WriteRows
from pipelines.tables import to_bytes


@pytest.fixture
def target(kafka):
    made = KafkaTarget(kafka.bootstrap, f"crowd-{uuid.uuid4().hex}")
    made.check()
    return made


def read(target, name="scores"):
    return latest_rows(target.bootstrap, target.topic(name))


def write(target, *tables, name="scores"):
    sink = target.open()
    for table in tables:
        sink.write(name, table)
    sink.flush()
    sink.close()


def setting(target, name, option):
    resource = ConfigResource(ConfigResource.Type.TOPIC, target.topic(name))
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    (found,) = admin.describe_configs([resource]).values()
    return found.result()[option].value


def test_check_makes_compacted_topics_and_may_be_called_again(kafka):
    target = KafkaTarget(kafka.bootstrap, f"made-{uuid.uuid4().hex}", partitions=3)
    target.check()
    target.check()
    assert [setting(target, name, "cleanup.policy") for name in ("scores", "skills", "graph", "rejects")] == [
        "compact", "compact", "compact", "delete",
    ]  # fmt: skip
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics().topics
    assert len(topics[target.topic("scores")].partitions) == 3


def test_a_topic_that_would_forget_answers_is_refused(kafka):
    target = KafkaTarget(kafka.bootstrap, f"forgets-{uuid.uuid4().hex}")
    kafka.create_topic(target.topic("skills"), 1)
    with pytest.raises(InvalidSettingError, match=r"skills has cleanup.policy=delete.*--add-config"):
        target.check()


def test_check_says_when_nobody_answers(monkeypatch):
    monkeypatch.setattr("pipelines.sinks.kafka._ANSWER_S", 1.0)
    with pytest.raises(InputError, match=r"Kafka at 127.0.0.1:1 does not answer"):
        KafkaTarget("127.0.0.1:1", "p").check()


def test_rows_come_back_as_they_were(target):
    rows = [score(one, probabilities={one: 0.1, "other": 0.9}) for one in HARD_IDS]
    write(target, scores(*rows))
    assert read(target) == {row["task"]: row for row in rows}
    write(target, components(component(3, sigma_min=None), component(4, sigma_min=0.125)), name="graph")
    assert read(target, "graph") == {"3": component(3), "4": component(4, sigma_min=0.125)}


def test_readers_keep_the_highest_revision_whatever_came_last(target):
    write(target, scores(score("t", revision=7, label="no")), scores(score("t", revision=3)))
    write(target, scores(score("t", revision=5)))
    assert read(target) == {"t": score("t", revision=7, label="no")}


def test_of_the_graph_the_rows_of_the_newest_verdict_hold_together(target):
    write(target, components(component(0, revision=5), component(1, revision=5)), name="graph")
    write(target, components(component(0, revision=6)), name="graph")
    assert read(target, "graph") == {"0": component(0, revision=6)}


def test_a_replay_changes_nothing(target):
    rows = scores(*(score(f"t{n}", revision=n) for n in range(100)))
    write(target, rows)
    before = read(target)
    write(target, rows, rows)
    assert read(target) == before
    assert len(before) == 100


def test_an_id_that_somebody_deleted_is_gone(target):
    write(target, scores(score("t"), score("u")))
    producer = Producer({"bootstrap.servers": target.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(target.topic("scores"), None, "t")
    producer.flush()
    assert set(read(target)) == {"u"}


def test_rejects_have_keys_of_two_parts_and_long_records_are_cut(target):
    write(target, rejects(reject(1, record="\x01" * 1_000_000), reject(2)), name="rejects")
    found = read(target, "rejects")
    assert [json.loads(key) for key in sorted(found)] == [["a", 1], ["a", 2]]
    assert found['["a",1]']["record"] == "\x01" * 150_000
    assert found['["a",2]'] == reject(2)


def test_a_row_that_is_too_long_fails_with_a_sentence_and_the_sink_stays_failed(target):
    sink = target.open()
    with pytest.raises(RunError, match=r"refused a row for .*\.scores: .*[Mm]essage size"):
        sink.write("scores", scores(score("x" * 2_000_000)))
    with pytest.raises(RunError, match="refused a row"):
        sink.flush()
    sink.close()


def test_a_full_queue_is_waited_for(kafka):
    small = (("queue.buffering.max.messages", "100"),)
    target = KafkaTarget(kafka.bootstrap, f"small-{uuid.uuid4().hex}", config=small)
    target.check()
    write(target, scores(*(score(f"t{n}") for n in range(1000))))
    assert set(read(target)) == {f"t{n}" for n in range(1000)}


def test_a_delivery_that_fails_is_an_error(kafka):
    soon = (("topic.metadata.propagation.max.ms", "1000"),)
    sink = KafkaTarget(kafka.bootstrap, "never-made", config=soon).open()
    sink.write("scores", scores(score("t")))
    with pytest.raises(RunError, match=r"Kafka did not take a row for never-made.scores: .*[Uu]nknown topic"):
        sink.flush()
    sink.close()


def test_rows_wait_for_a_broker_that_is_killed_and_comes_back(kafka, target):
    sink = target.open()
    sink.write("scores", scores(score("before")))
    sink.flush()
    kafka.kill()
    sink.write("scores", scores(*(score(f"t{n}") for n in range(5000))))
    waits = threading.Thread(target=sink.flush)
    waits.start()
    waits.join(2)
    assert waits.is_alive()
    kafka.restart()
    waits.join(60)
    assert not waits.is_alive()
    assert sink.retries > 0
    sink.close()
    assert set(read(target)) == {"before", *(f"t{n}" for n in range(5000))}


def test_patience_ends_with_a_sentence():
    sink = KafkaTarget("127.0.0.1:1", "p", patience_s=1.0).open()
    sink.write("scores", scores(score("t"), score("u")))
    with pytest.raises(RunError, match=r"Kafka at 127.0.0.1:1 took no row for \d s; 2 rows wait"):
        sink.flush()
    sink.close()


def test_settings_come_from_a_file_too_but_not_those_that_keep_rows_safe(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("# secrets\n\nsecurity.protocol = SSL\n")
    assert KafkaTarget("h:1", "p", config_file=str(file)).client() == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
    }
    with pytest.raises(InputError, match="cannot be read"):
        KafkaTarget("h:1", "p", config_file=str(tmp_path / "none")).client()
    with pytest.raises(InvalidSettingError, match="acks"):
        KafkaTarget("h:1", "p", config=(("acks", "0"),)).client()
    assert "hush" not in repr(KafkaTarget("h:1", "p", config=(("sasl.password", "hush"),)))


def test_a_row_that_was_overtaken_is_not_the_last_of_its_id_in_the_topic():
    recent = _Recent()
    assert recent.newer("scores", [b"t", b"u"], [b"2", b"2"], [2, 2]) == ([b"t", b"u"], [b"2", b"2"])
    assert recent.newer("scores", [b"t", b"v"], [b"1", b"1"], [1, 1]) == ([b"v"], [b"1"])
    assert recent.newer("skills", [b"t"], [b"1"], [1]) == ([b"t"], [b"1"])
    assert recent.newer("scores", [b"t"], [b"2"], [2]) == ([b"t"], [b"2"]), "again, it does no harm"


def test_a_row_is_known_to_be_overtaken_for_a_while_after_the_turn():
    recent = _Recent()
    recent.newer("scores", [b"t"], [b"2"], [2])
    recent._turn_over()
    assert recent.newer("scores", [b"t"], [b"1"], [1]) == ([], [])
    recent._turn_over()
    assert recent.newer("scores", [b"t"], [b"1"], [1]) == ([b"t"], [b"1"])
    recent.close()


def test_rows_of_a_stream_that_has_gone_quiet_are_forgotten(monkeypatch):
    monkeypatch.setattr(kafka_sink, "_RECENT_S", 0.01)
    recent = _Recent()
    recent.newer("scores", [b"t"], [b"2"], [2])
    while (timer := recent._timer) is not None:
        timer.join()
    assert (recent._now, recent._before) == ({}, {})
    assert recent.newer("scores", [b"t"], [b"1"], [1]) == ([b"t"], [b"1"])
    recent.close()


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", "x" * 300])
def test_a_prefix_that_kafka_would_refuse_is_refused(prefix):
    with pytest.raises(InvalidSettingError, match="prefix of the Kafka topics"):
        KafkaTarget("h:1", prefix)


def test_a_topic_that_is_not_there_cannot_be_read(kafka):
    with pytest.raises(InputError, match="nowhere"):
        latest_rows(kafka.bootstrap, "nowhere")


def test_a_pipeline_writes_its_rows_and_counts_them(target):
    elements = [("scores", to_bytes(scores(score(f"t{n}"), score("last", revision=n + 1)))) for n in range(20)]
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | beam.Create([*elements, ("rejects", to_bytes(rejects(reject(0))))]) | WriteRows(target)
    counted = {one.key.metric.name: one.result for one in pipeline.result.metrics().query()["counters"]}
    assert counted["rows_written.scores"] == 40
    assert counted["rows_written.rejects"] == 1
    found = read(target)
    assert len(found) == 21
    assert found["last"]["revision"] == 20
