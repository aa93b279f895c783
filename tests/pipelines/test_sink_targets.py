"""What a user may write for a sink, and what is said of the rest."""

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.kafka import KafkaTarget
from pipelines.sinks.postgres import PostgresTarget
from pipelines.sinks.targets import sink_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka://h:9092/crowd", KafkaTarget("h:9092", "crowd")),
        ("kafka://h:1,i:2/a.b", KafkaTarget("h:1,i:2", "a.b")),
        ("kafka://[::1]:9092/crowd", KafkaTarget("[::1]:9092", "crowd")),
        ("KAFKA://h:1/p?client.id=x&config=/c", KafkaTarget("h:1", "p", (("client.id", "x"),), "/c")),
        ("kafka://h:1/cr%6Fwd/", KafkaTarget("h:1", "crowd")),
        ("kafka://h:1/p?config=/c&config=/d", KafkaTarget("h:1", "p", config_file="/d")),
        ("postgres://me@h:5432/db", PostgresTarget("postgresql://me@h:5432/db")),
        ("postgresql://h/db?schema=s", PostgresTarget("postgresql://h/db", "s")),
        ("postgres://h/db?sslmode=require&schema=s", PostgresTarget("postgresql://h/db?sslmode=require", "s")),
        ("answers", IntervalFolder("answers")),
        ("/data/a:b", IntervalFolder("/data/a:b")),
        ("file:///data/a", IntervalFolder("/data/a")),
        ("gs://bucket/a", IntervalFolder("gs://bucket/a")),
        ("kafka", IntervalFolder("kafka")),
        ("a:b", IntervalFolder("a:b")),
    ],
)
def test_a_text_names_a_target(text, expected):
    assert sink_of(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The sink is empty; give a folder, kafka://HOST:PORT/PREFIX"),
        ("kafak://h:1/p", "Did you mean kafka://HOST:PORT/PREFIX?"),
        ("postgress://h/d", "Did you mean postgres"),
        ("mysql://h/d", "begins with mysql://, which is not known. Give a folder, kafka:// or postgres://."),
        ("kafka://h/p", "write for example kafka://localhost:9092/crowd"),
        ("kafka://h:9092", "write for example kafka://localhost:9092/crowd"),
        ("kafka://h:9092/", "write for example kafka://localhost:9092/crowd"),
        ("kafka://h:9092/p#x", "write for example kafka://localhost:9092/crowd"),
        ("kafka://me:hush@h:9092/p", "a password into a file"),
        ("kafka://h:9092/a b", "use letters, digits"),
        ("kafka://h:1/p?sasl.password=hush", "give the file: ?config=FILE"),
        ("postgres://me@h", "names no database"),
        ("postgres://me:hush@h/d", "set PGPASSWORD"),
        ("postgres://[h/d", "cannot be read"),
        ("duckdb:x.duckdb", "is an address of duckdb, which takes finished runs and no stream: `crowdbeam load`"),
        ("DuckDB:///x.duckdb", "`crowdbeam nightly` write there. Give a folder, kafka:// or postgres://."),
        ("iceberg://catalog/crowd", "is an address of iceberg"),
        ("bigquery:project/crowd", "is an address of bigquery"),
        ("kafka:h:9092/p", "begins with kafka: and no //; the form is kafka://HOST:PORT/PREFIX."),
        ("postgres:me:hush@h/d", "the form is postgres://USER@HOST:PORT/DATABASE."),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence_without_secrets(text, said):
    with pytest.raises(InvalidSettingError) as caught:
        sink_of(text)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_folder_is_made_and_a_file_is_refused(tmp_path):
    folder = tmp_path / "a" / "b"
    IntervalFolder(str(folder)).check()
    assert folder.is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidSettingError, match="is a file"):
        IntervalFolder(str(tmp_path / "file")).check()
    with pytest.raises(InvalidSettingError, match="cannot be made"):
        IntervalFolder(str(tmp_path / "file" / "under")).check()


def test_a_file_with_settings_is_that_of_the_command_also_where_workers_run_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sink_of("kafka://h:1/crowd?config=my.properties").config_file == str(tmp_path / "my.properties")
