"""A stream must not read what it writes, however its places are spelled."""

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.streaming.places import feeds, is_same, reads_control
from pipelines.streaming.settings import StreamSettings


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folders in and out, and a link to in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("in")
    return tmp_path


@pytest.mark.parametrize(
    ("sink", "source", "expected"),
    [
        ("link", "in", True),
        ("in", "link", True),
        ("link/out", "in", False),
        ("out/../in", "in", True),
        ("file://{}/in", "in", True),
        ("{}", "in", False),
        ("in", "link/scores", True),
        ("out", "in", False),
        ("inner", "in", False),
        ("in", "in/*.parquet", True),
        ("out", "*.csv", False),
        ("gs://b/a/", "gs://b/a", True),
        ("gs://b/a/out", "gs://b/a", False),
        ("gs://b/a", "s3://b/a", False),
        ("kafka://localhost:9092/crowd", "in", False),
    ],
)
def test_folders_are_compared_by_where_they_are(sink, source, expected, folders):
    assert feeds(sink.replace("{}", str(folders)), source) == expected


@pytest.mark.parametrize(
    ("sink", "topic", "expected"),
    [
        ("kafka://127.0.0.1:9092/crowd", "crowd.scores", True),
        ("KAFKA://[::1]:9092/crowd?client.id=x", "crowd.rejects", True),
        ("kafka://other:1,LOCALHOST:9092/cro%77d", "crowd.graph", True),
        ("kafka://localhost:9093/crowd", "crowd.scores", False),
        ("kafka://localhost:9092/crowd", "crowd.labels", False),
        ("kafka://other:9092/crowd", "crowd.scores", False),
    ],
)
def test_topics_are_compared_with_their_brokers(sink, topic, expected):
    assert feeds(sink, f"kafka://localhost:9092/{topic}") == expected


def test_a_control_folder_is_known_by_where_it_is(folders):
    assert reads_control("in", "link")
    assert not reads_control("in", "link/control")
    assert is_same("link", "in")
    assert not is_same("in/control", "in")


def test_the_topic_of_a_sink_for_rejects_is_no_source_and_nothing_secret_is_repeated():
    rejects, source = "kafka://127.0.0.1:1/bad?config=hush", "kafka://localhost:1/bad.rejects?sasl.password=hush"
    with pytest.raises(InvalidSettingError, match=r"would read what is written to kafka://127\.0\.0\.1:1/bad;") as told:
        StreamSettings(source, ("out",), "control", rejects)
    assert "hush" not in str(told.value)
