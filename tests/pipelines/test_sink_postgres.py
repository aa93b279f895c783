"""The Postgres sink, on a real server."""

import threading
import uuid

import apache_beam as beam
import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row
from sink_rows import HARD_IDS, component, components, reject, rejects, score, scores

import schemas
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.sinks.postgres import PostgresTarget
from pipelines.sinks.write import WriteRows
from pipelines.tables import to_bytes

NOBODY = "postgresql://me@127.0.0.1:1/none"


@pytest.fixture
def target(postgres):
    made = PostgresTarget(postgres.dsn, f"crowd {uuid.uuid4().hex}")
    made.check()
    return made


def query(target, sql):
    with psycopg.connect(target.dsn, row_factory=dict_row) as connection:
        connection.execute(f'SET search_path TO "{target.schema}"')
        return connection.execute(sql).fetchall()


def change(target, sql):
    with psycopg.connect(target.dsn) as connection:
        connection.execute(f'SET search_path TO "{target.schema}"')
        connection.execute(sql)


def read(target, name="scores", key="task"):
    return {row[key]: row for row in query(target, f"SELECT * FROM {name}")}  # noqa: S608


def write(target, *tables, name="scores"):
    sink = target.open()
    for table in tables:
        sink.write(name, table)
    sink.flush()
    sink.close()


def test_tables_have_the_schemas_columns_keys_and_documentation(target):
    comments = query(
        target,
        "SELECT attname, format_type(atttypid, atttypmod) AS kind, attnotnull, col_description(attrelid, attnum) AS doc"
        " FROM pg_attribute WHERE attrelid = 'scores'::regclass AND attnum > 0 ORDER BY attnum",
    )
    schema = schemas.stream_schema("score")
    assert [row["attname"] for row in comments] == schema.names
    assert [row["doc"] for row in comments] == [one.metadata[b"doc"].decode() for one in schema]
    kinds = {row["attname"]: (row["kind"], row["attnotnull"]) for row in comments}
    assert kinds["task"] == ("text", True)
    assert kinds["score"] == ("double precision", True)
    assert kinds["probabilities"] == ("jsonb", False)
    assert kinds["revision"] == ("bigint", True)
    assert kinds["closed"] == ("boolean", True)


def test_rows_come_back_as_they_were_but_for_nul_which_postgres_cannot_hold(target):
    rows = [score(one, label=one, probabilities={one: 0.1, "other": 0.9}) for one in HARD_IDS]
    write(target, scores(*rows))
    expected = []
    for row in rows:
        one = row["task"].replace("\x00", "\ufffd")
        expected.append({**row, "task": one, "label": one, "probabilities": {one: 0.1, "other": 0.9}})
    assert read(target) == {row["task"]: row for row in expected}


def test_null_stays_null_beside_numbers(target):
    rows = [component(3, sigma_min=None), component(4, sigma_min=0.125), component(5, sigma_min=1e300)]
    write(target, components(*rows), name="graph")
    assert read(target, "graph", "component") == {row["component"]: row for row in rows}


def test_of_the_graph_the_rows_of_the_newest_verdict_stay_and_older_ones_do_not_come_back(target):
    old = components(component(0, revision=5), component(1, revision=5), component(2, revision=5))
    write(target, old, name="graph")
    write(target, components(component(0, revision=6)), name="graph")
    assert list(read(target, "graph", "component")) == [0]
    write(target, old, name="graph")
    assert list(read(target, "graph", "component")) == [0]


def test_texts_that_end_a_copy_in_other_formats_do_no_harm(target):
    write(target, scores(score("a\n\\.\nb"), score("\\."), score("\r\n")))
    assert set(read(target)) == {"a\n\\.\nb", "\\.", "\r\n"}


def test_ids_that_become_the_same_are_one(target):
    write(target, scores(score("a\x00", revision=1), score("a\ufffd", revision=2)))
    assert read(target) == {"a\ufffd": score("a\ufffd", revision=2)}


def test_an_id_that_is_too_long_for_an_index_is_cut_and_stays_unique(target):
    ids = [letter * 30_000 + end for letter in "xé" for end in "ab"]
    write(target, scores(*map(score, ids)), scores(*map(score, ids)))
    found = sorted(read(target))
    assert len(found) == 4
    assert found[0].startswith("x" * 1200 + "…")
    assert len(found[0]) == 1200 + 1 + 64


def test_the_highest_revision_holds_whatever_came_last(target):
    newest = score("t", revision=7, label="no", probabilities={"no": 1.0}, closed=True)
    write(target, scores(score("t", revision=2), newest), scores(score("t", revision=3)))
    write(target, scores(score("t", revision=5)))
    assert read(target) == {"t": newest}
    write(target, scores(score("t", revision=8)))
    assert read(target) == {"t": score("t", revision=8)}


def test_a_replay_changes_nothing(target):
    rows = scores(*(score(f"t{n}", revision=n) for n in range(100)))
    write(target, rows)
    before = query(target, "SELECT xmin, task, revision FROM scores")
    write(target, rows, rows)
    assert query(target, "SELECT xmin, task, revision FROM scores") == before
    assert len(before) == 100


def test_rejects_are_kept_once_each_also_those_of_no_known_place(target):
    rows = [
        reject(1),
        reject(1, reason="empty-task"),
        reject(-1, source="", record="x"),
        reject(-1, source="", record="y"),
    ]
    write(target, rejects(*rows, *rows), name="rejects")
    write(target, rejects(*rows), name="rejects")
    found = query(target, "SELECT * FROM rejects")
    assert sorted(map(str, found)) == sorted(map(str, rows))


def test_two_writers_at_once_lose_nothing(target):
    ids = [f"t{n}" for n in range(500)]

    def run(odd):
        for turn in range(10):
            order = ids if odd else ids[::-1]
            write(target, scores(*(score(one, revision=1 + 2 * turn + odd) for one in order)))

    writers = [threading.Thread(target=run, args=(odd,)) for odd in (0, 1)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert {row["revision"] for row in read(target).values()} == {20}
    assert len(read(target)) == 500


def test_a_deadlock_is_tried_again(target):
    write(target, scores(score("a"), score("b")))
    other = psycopg.connect(target.dsn)
    other.execute(f'SET search_path TO "{target.schema}"')
    other.execute("SET deadlock_timeout = '60s'")  # so that the sink is the one that notices
    other.execute("UPDATE scores SET label = 'x' WHERE task = 'b'")
    sink = target.open()
    sink.write("scores", scores(score("a", revision=2), score("b", revision=2)))
    flush = threading.Thread(target=sink.flush)
    flush.start()
    flush.join(0.5)  # it has a, and waits for b
    other.execute("UPDATE scores SET label = 'x' WHERE task = 'a'")
    other.commit()
    other.close()
    flush.join(30)
    assert sink.retries > 0
    assert {row["revision"] for row in read(target).values()} == {2}
    sink.close()


def test_rows_wait_for_a_server_that_is_stopped_and_comes_back(postgres, target):
    sink = target.open()
    sink.write("scores", scores(score("before")))
    sink.flush()
    postgres.stop()
    sink.write("scores", scores(*(score(f"t{n}") for n in range(1000))))
    flush = threading.Thread(target=sink.flush)
    flush.start()
    flush.join(2)
    assert flush.is_alive()
    postgres.start()
    flush.join(60)
    assert not flush.is_alive()
    assert sink.retries > 0
    sink.close()
    assert len(read(target)) == 1001


def test_patience_ends_with_a_sentence_and_the_sink_stays_failed():
    sink = PostgresTarget(NOBODY, patience_s=0.3).open()
    sink.write("scores", scores(score("t")))
    for _ in range(2):
        with pytest.raises(RunError, match=r"Postgres took no rows for \d s: .*refused"):
            sink.flush()
    with pytest.raises(RunError, match="Postgres took no rows"):
        sink.write("scores", scores(score("t")))


def test_what_postgres_refuses_is_a_sentence(target):
    change(target, "DROP TABLE scores")
    sink = target.open()
    sink.write("scores", scores(score("t")))
    with pytest.raises(RunError, match=r"Postgres refused rows: .*does not exist"):
        sink.flush()
    target.check()
    with pytest.raises(RunError, match="Postgres refused rows"):
        sink.flush()
    sink.close()


def test_a_server_that_only_reads_is_waited_for(target):
    sink = target.open()
    sink.write("scores", scores(score("t")))
    with psycopg.connect(target.dsn, autocommit=True, options="-c default_transaction_read_only=off") as admin:
        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            flush = threading.Thread(target=sink.flush)
            flush.start()
            flush.join(0.5)
            assert flush.is_alive()
        finally:
            admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
    flush.join(30)
    assert sink.retries > 0
    sink.close()
    assert list(read(target)) == ["t"]


def test_check_says_when_nobody_answers():
    with pytest.raises(InputError, match="Postgres cannot be reached"):
        PostgresTarget(NOBODY).check()


def test_check_adds_columns_of_a_later_version_and_keeps_the_rows(target):
    write(target, scores(score("old")))
    change(target, "ALTER TABLE scores DROP COLUMN probabilities, DROP COLUMN closed")
    target.check()
    write(target, scores(score("new")))
    found = read(target)
    assert (found["old"]["closed"], found["new"]["closed"]) == (None, False)


def test_check_refuses_a_table_that_cannot_hold_the_rows(target):
    change(target, "ALTER TABLE scores DROP CONSTRAINT scores_pkey")
    with pytest.raises(InvalidSettingError, match="cannot be used: there is no unique"):
        target.check()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hush@h/d",
        "postgresql://me@h/d?password=hush",
        "host=h password=hush dbname=d",
        "host=h password = 'hush'",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(dsn):
    with pytest.raises(InvalidSettingError, match="PGPASSWORD") as caught:
        PostgresTarget(dsn)
    assert "hush" not in str(caught.value)


def test_many_rows_are_flushed_on_the_way_and_once(target, monkeypatch):
    monkeypatch.setattr("pipelines.sinks.postgres._MOST_ROWS", 10)
    sink = target.open()
    sink.write("scores", scores(*(score(f"t{n}") for n in range(11))))
    assert len(read(target)) == 11
    change(target, "DELETE FROM scores")
    sink.flush()
    assert read(target) == {}
    sink.close()


def test_texts_coded_in_dictionaries_are_texts(target):
    table = scores(score("t"), score("u"))
    coded = table.set_column(1, "label", pa.array(["yes", "no"]).dictionary_encode())
    write(target, coded)
    assert {row["label"] for row in read(target).values()} == {"yes", "no"}


def test_a_pipeline_writes_its_rows(target):
    elements = [("scores", to_bytes(scores(score(f"t{n}"), score("last", revision=n + 1)))) for n in range(20)]
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | beam.Create(elements) | WriteRows(target)
    found = read(target)
    assert len(found) == 21
    assert found["last"]["revision"] == 20
