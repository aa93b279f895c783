"""What a Kafka source is told: URLs, properties and what is refused, without a broker."""

import pickle
import sys

import pytest

from pipelines.errors import InputError, InvalidSettingError
from pipelines.events import EventSettings
from pipelines.kafka_client import properties_of
from pipelines.sources.kafka import KafkaSource, kafka_source_of


def test_a_url_names_brokers_and_topic():
    source = kafka_source_of("kafka://a:9092,[::1]:9093/labels%20of.today", EventSettings(format="avro"), readers=3)
    assert (source.bootstrap, source.topic, source.n_readers) == ("a:9092,[::1]:9093", "labels of.today", 3)
    assert source.events.format == "avro"
    assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301 - our own


@pytest.mark.parametrize(
    "url",
    [
        "kafka://a:9092",
        "kafka://a:9092/",
        "kafka://a/labels",
        "kafka:///labels",
        "http://a:1/x",
        "a:1/x",
        "kafka://a:b/x",
        "kafka://a:9092,/x",
        "kafka://a:9092/x/y",
        "kafka://:1/x",
    ],
)
def test_another_url_is_refused(url):
    with pytest.raises(InvalidSettingError, match="write kafka://HOST:PORT/TOPIC"):
        kafka_source_of(url)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(InvalidSettingError, match="file of properties") as told:
        kafka_source_of("kafka://me:hush@a:9092/labels")
    assert "hush" not in str(told.value)


@pytest.mark.parametrize(
    "url", ["kafka://a:9092/labels?sasl.password=hush", "kafka://a/labels?sasl.password=hush", "kafka://a:9092?x=hush"]
)
def test_settings_in_the_url_are_refused_and_not_repeated(url):
    with pytest.raises(InvalidSettingError, match="--kafka-properties FILE") as told:
        kafka_source_of(url)
    assert "hush" not in str(told.value)


def test_properties_come_from_a_file_and_stay_out_of_sight(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("# remark\n! remark\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b #c\n", "utf-8")
    source = kafka_source_of("kafka://a:9092/labels", properties=str(file))
    assert source.client == (("security.protocol", "SASL_SSL"), ("sasl.password", "a=b #c"))
    assert "a=b" not in repr(source)
    configuration = source.configuration()
    assert (configuration["sasl.password"], configuration["isolation.level"]) == ("a=b #c", "read_committed")


def test_properties_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        properties_of(str(tmp_path / "none"))
    (tmp_path / "x").write_text("a=b\njust words\n", "utf-8")
    with pytest.raises(InvalidSettingError, match="Line 2"):
        properties_of(str(tmp_path / "x"))
    with pytest.raises(InvalidSettingError, match=r"enable\.auto\.commit"):
        KafkaSource("a:1", "t", client=(("enable.auto.commit", "true"),))
    with pytest.raises(InvalidSettingError, match=r"no\.such\.thing"):
        KafkaSource("a:1", "t", client=(("no.such.thing", "1"),)).check()


def test_settings_that_cannot_be_used_are_refused():
    with pytest.raises(InvalidSettingError, match="--from is"):
        KafkaSource("a:1", "t", start="middle")
    with pytest.raises(InvalidSettingError, match="--readers"):
        KafkaSource("a:1", "t", readers=0)


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InvalidSettingError, match=r"pip install 'crowdbeam\[kafka\]'"):
        KafkaSource("a:1", "t").check()
