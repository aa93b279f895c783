"""Postgres as a warehouse: what is its own, on a real server."""

import random
import threading
import time
import uuid
from dataclasses import replace

import psycopg
import pytest
from sink_rows import HARD_IDS
from test_warehouses import InPostgres, held
from warehouse_runs import after_first, after_second, edge, first_night, score, second_night, skill, write_run

from pipelines.errors import InvalidSettingError, RunError
from pipelines.sinks.loads import TABLES, table_doc, table_schema
from pipelines.sinks.postgres import PostgresTarget
from pipelines.sinks.postgres_warehouse import PostgresWarehouse

NOBODY = "postgresql://me@127.0.0.1:1/none"


@pytest.fixture
def place(tmp_path, request):
    return InPostgres(tmp_path, request)


@pytest.fixture
def warehouse(place):
    return PostgresWarehouse(place.dsn, place.schema)


def change(warehouse, *statements):
    with psycopg.connect(warehouse.dsn) as connection:
        connection.execute(f'SET search_path TO "{warehouse.schema}"')
        for one in statements:
            connection.execute(one)


def test_tables_have_the_schemas_columns_keys_and_documentation(place, warehouse):
    warehouse.check()
    docs = place.query(
        "SELECT relname, obj_description(oid) AS doc FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    assert {row["relname"]: row["doc"] for row in docs} == {name: table_doc(name) for name in TABLES}
    for name in TABLES:
        columns = place.query(
            "SELECT attname, attnotnull, col_description(attrelid, attnum) AS doc FROM pg_attribute"  # noqa: S608
            f" WHERE attrelid = '{name}'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert [(row["attname"], row["attnotnull"], row["doc"]) for row in columns] == [
            (one.name, not one.nullable, one.metadata[b"doc"].decode()) for one in table_schema(name)
        ]
    keys = place.query(
        "SELECT conrelid::regclass::text AS name, pg_get_constraintdef(oid) AS key FROM pg_constraint"
        " WHERE contype = 'p' AND connamespace = current_schema()::regnamespace"
    )
    assert {row["name"]: row["key"] for row in keys} == {
        "scores": "PRIMARY KEY (task)",
        "skills": "PRIMARY KEY (worker)",
        "edges": "PRIMARY KEY (worker_a, worker_b)",
        "graph": "PRIMARY KEY (component)",
        "runs": "PRIMARY KEY (run_id)",
    }


def test_a_stream_and_loads_do_not_share_tables(place, warehouse, tmp_path):
    warehouse.check()
    before = place.snapshot()
    with pytest.raises(InvalidSettingError, match=r"holds tables that runs are loaded into\. Give the stream another"):
        PostgresTarget(place.dsn, place.schema).check()
    assert place.snapshot() == before
    other = f"stream_{uuid.uuid4().hex}"
    PostgresTarget(place.dsn, other).check()
    for action in (replace(warehouse, schema=other).check, lambda: _load_into(place.dsn, other, tmp_path / "run")):
        with pytest.raises(InvalidSettingError, match=r"holds a table scores of a stream\. Give another schema"):
            action()
    with psycopg.connect(place.dsn) as connection:
        found = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [other])
        assert {name for (name,) in found} == {"scores", "skills", "graph", "rejects"}


def _load_into(dsn, schema, folder):
    PostgresWarehouse(dsn, schema).load(first_night(folder))


def test_nul_and_long_ids_are_stored_as_the_stream_stores_them(place, warehouse, tmp_path):
    long = "x" * 30_000
    run = write_run(tmp_path / "run", "r", 1, scores=[[score(one, label=one) for one in (*HARD_IDS, long)]])
    warehouse.load(run)
    found = {row["task"] for row in place.rows("scores")}
    assert {one.replace("\x00", "\ufffd") for one in HARD_IDS} < found
    (cut,) = found - {one.replace("\x00", "\ufffd") for one in HARD_IDS}
    assert len(cut) == 1200 + 1 + 64
    again = write_run(tmp_path / "again", "s", 2, whole=False, scores=[[score(long, "no")]])
    warehouse.load(again)
    assert {row["task"]: row["label"] for row in place.rows("scores")}[cut] == "no"
    assert len(place.rows("scores")) == len(HARD_IDS) + 1


@pytest.mark.parametrize("n_hex", [1_200, 1_400, 1_990, 30_000])
def test_pairs_of_workers_with_long_ids_are_loaded_and_join_with_their_skills(place, warehouse, tmp_path, n_hex):
    ann, bob = (f"{random.Random(name).getrandbits(4 * n_hex):x}" for name in ("ann", "bob"))  # cannot be compressed
    tables = {"edges": [[edge(ann, bob)]], "skills": [[skill(ann), skill(bob)]]}
    warehouse.load(write_run(tmp_path / "run", "r", 1, **tables))
    (pair,) = place.rows("edges")
    assert {pair["worker_a"], pair["worker_b"]} == {row["worker"] for row in place.rows("skills")}
    warehouse.load(write_run(tmp_path / "again", "s", 2, whole=False, edges=[[edge(ann, bob, 5, 4)]]))
    assert [row["n_common"] for row in place.rows("edges")] == [5]


def test_a_second_loader_waits_for_the_first(place, warehouse, tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    warehouse.load(first)
    warehouse = replace(warehouse, patience_s=0.3)  # that is for tables that are locked, not for its turn
    with psycopg.connect(place.dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (0x63726F77, place.schema))
        loader = threading.Thread(target=warehouse.load, args=(second,))
        loader.start()
        loader.join(1.0)
        assert loader.is_alive()
        assert held(place) == after_first(first)
    loader.join(60)
    assert held(place) == after_second(first, second)


def test_a_connection_that_is_lost_changes_nothing(place, warehouse, tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    warehouse.load(first)
    before, failures = place.snapshot(), []

    def load():
        try:
            warehouse.load(second)
        except RunError as error:
            failures.append(str(error))

    with psycopg.connect(place.dsn) as other, psycopg.connect(place.dsn, autocommit=True) as watch:
        other.execute(f'LOCK TABLE "{place.schema}".rejects IN SHARE MODE')  # the last table that the load changes
        loader = threading.Thread(target=load)
        loader.start()
        blocked = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'crowdbeam' AND wait_event_type = 'Lock'"
        )
        until = time.monotonic() + 30
        while not watch.execute(blocked).fetchall():
            assert time.monotonic() < until
        loader.join(60)
    assert len(failures) == 1
    assert failures[0].startswith("Postgres did not take run night-2: ")
    assert "Load it again" in failures[0]
    assert place.snapshot() == before
    warehouse.load(second)
    assert held(place) == after_second(first, second)


@pytest.mark.parametrize("table", ["scores", "runs"])
def test_a_table_that_others_have_locked_is_given_up_with_a_sentence(place, warehouse, tmp_path, table):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    warehouse.load(first)
    hurried = replace(warehouse, patience_s=0.3)
    said = r"others have had a table in schema .* locked for 0\.3 s\. See who in pg_locks"
    with psycopg.connect(place.dsn) as other:
        other.execute(f'LOCK TABLE "{place.schema}".{table} IN ACCESS EXCLUSIVE MODE')
        with pytest.raises(RunError, match=said):
            hurried.load(second)
        if table == "runs":
            for ask in (hurried.check, hurried.ledgers, lambda: hurried.last_run("nights")):
                with pytest.raises(RunError, match=said):
                    ask()
    assert held(place) == after_first(first)
    hurried.load(second)
    assert held(place) == after_second(first, second)


def test_a_server_that_is_away_is_told_in_a_sentence(tmp_path):
    with pytest.raises(InvalidSettingError, match=r"Postgres cannot be reached: .*refused"):
        PostgresWarehouse(NOBODY).check()
    with pytest.raises(RunError, match=r"does not tell which runs it holds: .*refused"):
        PostgresWarehouse(NOBODY).last_run("nights")
    with pytest.raises(RunError, match=r"did not take run night-1: .*refused"):
        PostgresWarehouse(NOBODY).load(first_night(tmp_path / "run"))


def test_a_user_without_rights_is_told_which(place, warehouse):
    warehouse.check()
    user = f"reader_{uuid.uuid4().hex[:8]}"
    change(
        warehouse,
        f"CREATE USER {user}",
        f"GRANT USAGE ON SCHEMA {warehouse.schema} TO {user}",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {warehouse.schema} TO {user}",
    )
    dsn = place.dsn.replace(place.dsn.split("//")[1].split("@")[0], user, 1)
    with pytest.raises(InvalidSettingError, match=rf"The user {user} of Postgres may not DELETE in .* GRANT SELECT"):
        PostgresWarehouse(dsn, warehouse.schema).check()
    with pytest.raises(InvalidSettingError, match="cannot be used: permission denied"):
        PostgresWarehouse(dsn, "another_schema").check()


def test_columns_of_a_later_version_are_added_and_rows_kept(place, warehouse, tmp_path):
    warehouse.load(write_run(tmp_path / "1", "one", scores=[[score("old")]]))
    change(warehouse, "ALTER TABLE score_history DROP COLUMN probabilities")
    warehouse.check()
    warehouse.load(write_run(tmp_path / "2", "two", scores=[[score("new", probabilities={"yes": 1.0})]]))
    found = {row["task"]: row["probabilities"] for row in place.rows("score_history")}
    assert found == {"old": None, "new": {"yes": 1.0}}


def test_a_column_that_somebody_renamed_is_told_before_anything_is_loaded(place, warehouse, tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    warehouse.load(first)
    change(warehouse, "ALTER TABLE scores RENAME COLUMN label TO lbl", "ALTER TABLE scores ADD COLUMN note text")
    for action in (warehouse.check, lambda: warehouse.load(second)):
        with pytest.raises(
            InvalidSettingError, match=r"has the column lbl, .* If it was label, rename it back\. Else let"
        ):
            action()
    change(warehouse, "ALTER TABLE scores RENAME COLUMN lbl TO label", "ALTER TABLE scores DROP COLUMN note")
    warehouse.load(second)
    assert held(place) == after_second(first, second)


def test_columns_of_somebody_elses_that_have_a_value_of_their_own_may_stay(place, warehouse, tmp_path):
    warehouse.check()
    added = ("seen timestamptz NOT NULL DEFAULT now()", "row bigint NOT NULL GENERATED ALWAYS AS IDENTITY", "note text")
    change(warehouse, *(f"ALTER TABLE scores ADD COLUMN {one}" for one in added))
    assert warehouse.load(first_night(tmp_path / "first"))["scores"] == 3
    assert {"seen", "row", "note"} < set(place.query("SELECT * FROM scores")[0])


def test_readers_see_the_earlier_state_while_a_whole_run_is_loaded(place, warehouse, tmp_path):
    warehouse.load(first_night(tmp_path / "first"))
    with psycopg.connect(place.dsn) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        count = f'SELECT count(*) FROM "{place.schema}".skills'  # noqa: S608
        assert reader.execute(count).fetchone() == (3,)
        warehouse.load(write_run(tmp_path / "second", "night-2", 2, skills=[[skill("eva")]]))
        assert reader.execute(count).fetchone() == (3,)
    assert len(place.rows("skills")) == 1
