"""docs/sinks.md: what it shows runs, and gives what holds now."""

import re
import uuid
from pathlib import Path

import polars as pl
import psycopg
import pyarrow as pa
from sink_rows import reject, rejects, score, scores

import schemas
from pipelines.sinks.interval_files import write_interval
from pipelines.sinks.kafka import KafkaTarget
from pipelines.sinks.postgres import PostgresTarget

PAGE = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text("utf-8")
OLD, NEW = score("task-7", label="no", revision=1), score("task-7", label="yes", revision=2)


def blocks(language, holding):
    found = [one for one in re.findall(rf"```{language}\n(.*?)```", PAGE, re.S) if holding in one]
    assert len(found) == 1
    return found[0]


def written_to_kafka(kafka):
    target = KafkaTarget(kafka.bootstrap, f"page-{uuid.uuid4().hex}")
    target.check()
    for row in (OLD, NEW, OLD):  # as from three workers
        sink = target.open()
        sink.write("scores", scores(row))
        sink.flush()
        sink.close()
    return target


def kafka_example(kafka, target, holding):
    code = blocks("python", holding)
    return code.replace("localhost:9092", kafka.bootstrap).replace("crowd.", f"{target.prefix}.")


def test_topics_are_read_with_the_helper(kafka):
    target = written_to_kafka(kafka)
    found = {}
    exec(kafka_example(kafka, target, "latest_rows"), found)  # noqa: S102 - the page's own example
    assert found["answers"] == {"task-7": NEW}


def test_topics_are_read_with_a_consumer(kafka):
    target = written_to_kafka(kafka)
    found = {"rounds": 0}

    def running():
        read = sum(one.offset for one in found["consumer"].position(found["consumer"].assignment()) if one.offset > 0)
        found["rounds"] += 1
        return read < 3 and found["rounds"] < 60

    found["running"] = running
    exec(kafka_example(kafka, target, "Consumer"), found)  # noqa: S102 - the page's own example
    assert found["rounds"] < 60
    assert found["current"] == {"task-7": NEW}


def skill(worker, high, **changed):
    row = {"worker": worker, "skill": high - 0.1, "skill_low": high - 0.2, "skill_high": high, "accuracy": 0.5}
    row |= {"n_labels": 9, "n_peers": 1, "component": 0, "status": "ok", "model_version": 1, "revision": 1}
    return row | {"closed": False, **changed}


def asked_of_postgres(postgres, holding, **tables):
    """What the page's statements find in these tables."""
    target = PostgresTarget(postgres.dsn, f"page_{uuid.uuid4().hex}")
    target.check()
    sink = target.open()
    for name, table in tables.items():
        sink.write(name, table)
    sink.flush()
    sink.close()
    statements = blocks("sql", holding).replace("crowdbeam.", f"{target.schema}.").split(";")[:-1]
    with psycopg.connect(target.dsn) as connection:
        return [connection.execute(one).fetchall() for one in statements]


def test_tables_are_read_with_sql(postgres):
    answers, reasons = asked_of_postgres(
        postgres, "crowdbeam.rejects", scores=scores(NEW, OLD), rejects=rejects(reject(1))
    )
    assert answers == [("task-7", "yes", 0.9)]
    assert reasons == [("not-json", 1)]


def test_tasks_that_need_a_label_and_workers_to_drop_are_found_with_sql(postgres):
    sure, lost = score("sure", probability=0.99), score("lost", probability=0.0, status="no-labels")
    unsure = [score("b", probability=0.6), score("a", probability=0.4), score("even", probability=0.95, status="tie")]
    workers = [skill("good", 0.9), skill("spammer", 0.2), skill("worst", -0.3), skill("new", 0.1, status="isolated")]
    tasks, dropped = asked_of_postgres(
        postgres,
        "probability < 0.9",
        scores=scores(sure, lost, *unsure, score("done", probability=0.3, closed=True)),
        skills=pa.Table.from_pylist(workers, schemas.stream_schema("skill")),
    )
    assert [row[0] for row in tasks] == ["a", "b", "even"]
    assert [row[0] for row in dropped] == ["worst", "spammer"]


def test_files_are_read_with_the_helper_and_with_polars(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, row in enumerate((OLD, NEW, OLD)):
        write_interval("answers", number, {"scores": [scores(row)]}, "parquet", (0, 0))
    *lines, last = blocks("python", "read_intervals").replace(".to_pylist()", "").strip().splitlines()
    found = {}
    exec("\n".join([*lines, f"table = {last}"]), found)  # noqa: S102 - the page's own example
    assert found["table"].to_pylist() == [NEW]
    *lines, last = blocks("python", "polars").strip().splitlines()
    exec("\n".join([*lines, f"frame = {last}"]), found)  # noqa: S102 - the page's own example
    assert isinstance(found["frame"], pl.DataFrame)
    assert found["frame"]["label"].to_list() == ["yes"]
