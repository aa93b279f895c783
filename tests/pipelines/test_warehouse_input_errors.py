"""What is wrong with a warehouse is told in a sentence, with exit code 2, and nothing is left."""

import os
import subprocess
import sys
from glob import glob

import duckdb
import psycopg
import pyarrow as pa
import pytest
from command_line import run_command
from warehouse_tables import iceberg_catalog, write_duckdb, write_iceberg, write_postgres

from pipelines.errors import InputError
from pipelines.inputs import find_files
from pipelines.ports import free_port

ROWS = pa.table({"task": ["a", "b"], "worker": ["u", "v"], "label": ["x", "y"]})
HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def refusal(address, folder, *options):
    """What is said when the address is refused."""
    run = run_command("aggregate", address, "--output", folder / "run", *options)
    assert run.code == 2, run.err
    assert not (folder / "run").exists()
    assert run.out == ""
    assert run.err.count("\n") == 1
    return run.err


@pytest.fixture
def crowd(tmp_path):
    return write_duckdb(tmp_path / "crowd.duckdb", ROWS)


@pytest.fixture
def dsn(postgres):
    """A database in which there are just two tables, whatever other tests do to the server."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS refusals WITH (FORCE)")
        connection.execute("CREATE DATABASE refusals")
    dsn = f"{postgres.dsn.rpartition('/')[0]}/refusals"
    write_postgres(dsn, ROWS, "kept", ["text", "text", "text"])
    return write_postgres(dsn, ROWS, "labels", ["text", "text", "text"])


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    with iceberg_catalog(tmp_path, monkeypatch) as found:
        yield found


def query(folder, text):
    (folder / "labels.sql").write_text(text)
    return f"query={folder}/labels.sql"


def test_a_missing_table_of_duckdb_names_the_near_ones(crowd, tmp_path):
    assert "names the table label, which is not there. Did you mean main.labels?" in refusal(
        f"{crowd}?table=label", tmp_path
    )
    assert "Did you mean main.labels?" in refusal(f"{crowd}?table=mian.labels", tmp_path)
    assert "There are main.labels." in refusal(f"{crowd}?table=zzz", tmp_path)


def test_a_missing_table_of_postgres_names_the_near_ones(dsn, tmp_path):
    assert "table label, which is not there. Did you mean public.labels?" in refusal(f"{dsn}?table=label", tmp_path)
    assert "Did you mean public.labels?" in refusal(f"{dsn}?table=publc.labels", tmp_path)
    assert "There are public.kept, public.labels." in refusal(f"{dsn}?table=public.zzz", tmp_path)


def test_tables_of_several_schemas_are_named_with_them_each_once_and_the_rest_as_dots(tmp_path):
    with duckdb.connect(str(tmp_path / "many.duckdb")) as file:
        for schema in ("a", "b", "c"):
            file.execute(f"CREATE SCHEMA {schema}")
            for table in ("edges", "graph"):
                file.execute(f"CREATE TABLE {schema}.{table} (task VARCHAR)")
    address = f"duckdb://{tmp_path}/many.duckdb"
    said = refusal(f"{address}?table=zzz", tmp_path)
    assert "There are a.edges, a.graph, b.edges, b.graph, c.edges, …" in said
    assert "….\n" not in said
    assert "Did you mean a.edges, b.edges, c.edges?" in refusal(f"{address}?table=edges", tmp_path)


def test_a_filter_that_cannot_be_read_is_told_in_short(catalog, tmp_path):
    said = refusal(f"{write_iceberg(catalog, ROWS)}?filter=worker >>> 3", tmp_path)
    assert "cannot be used: it cannot be read from " in said
    assert "Write one as pyiceberg reads it" in said
    assert len(said) < 600


def test_a_missing_table_of_iceberg_names_the_near_ones(catalog, tmp_path):
    address = write_iceberg(catalog, ROWS)
    assert "Did you mean crowd.labels?" in refusal(address.replace("labels", "label"), tmp_path)
    assert "Did you mean crowd.labels?" in refusal(address.replace("crowd", "crowds"), tmp_path)


def test_a_missing_column_is_told_as_of_a_file(crowd, dsn, catalog, tmp_path):
    for address in (f"{crowd}?table=labels", f"{dsn}?table=labels", write_iceberg(catalog, ROWS)):
        said = refusal(address, tmp_path, "--columns", "label=lable")
        assert f"{address} has no column 'lable'; it has 'task', 'worker', 'label'." in said
        assert "Name it with --columns label=label." in said


def test_a_column_twice_in_a_query_is_refused(dsn, tmp_path):
    text = query(tmp_path, "SELECT task, worker, label, label FROM labels")
    assert "has 2 columns called 'label'" in refusal(f"{dsn}?{text}", tmp_path)


@pytest.mark.parametrize(("text", "said"), [("SELEC 1", "syntax error"), ("SELECT * FROM lables", "lables")])
def test_bad_sql_is_told_in_the_words_of_the_warehouse(text, said, crowd, dsn, tmp_path):
    for address in (crowd, dsn):
        told = refusal(f"{address}?{query(tmp_path, text)}", tmp_path)
        assert f"The query {tmp_path}/labels.sql of " in told
        assert said in told


@pytest.mark.parametrize("text", ["DELETE FROM labels RETURNING *", "DROP TABLE labels", "SELECT 1; DROP TABLE labels"])
def test_a_query_cannot_change_anything(text, crowd, dsn, tmp_path):
    for address in (crowd, dsn):
        assert "cannot be read" in refusal(f"{address}?{query(tmp_path, text)}", tmp_path)
    with psycopg.connect(dsn) as connection, duckdb.connect(crowd.removeprefix("duckdb://")) as file:
        assert connection.execute("SELECT count(*) FROM labels").fetchone() == (2,)
        assert file.execute("SELECT count(*) FROM labels").fetchone() == (2,)


def test_a_query_that_fails_in_the_middle_leaves_nothing(crowd, dsn, tmp_path):
    rows = "SELECT 't' || i AS task, 'w' AS worker, 1 / (190000 - i) AS label FROM {} AS t(i)"
    said = refusal(f"{dsn}?{query(tmp_path, rows.format('generate_series(1, 200000)'))}", tmp_path)
    assert "cannot be read: division by zero" in said
    rows = (
        "SELECT 't' || i AS task, 'w' AS worker, if(i = 190000, error('no more'), 'x') AS label FROM range(200000) t(i)"
    )
    assert "no more" in refusal(f"{crowd}?{query(tmp_path, rows)}", tmp_path)


def test_a_query_file_must_be_there_and_hold_a_query(crowd, tmp_path):
    assert "cannot be read: No such file or directory" in refusal(f"{crowd}?query={tmp_path}/none.sql", tmp_path)
    assert "is empty; write a SELECT into it" in refusal(f"{crowd}?{query(tmp_path, ' ; ')}", tmp_path)


def test_an_empty_result_is_nothing_to_read(crowd, dsn, catalog, tmp_path):
    none = query(tmp_path, "SELECT * FROM labels WHERE task = 'z'")
    empty = write_iceberg(catalog, ROWS) + "?filter=task = 'z'"
    for address in (f"{crowd}?{none}", f"{dsn}?{none}", empty):
        assert f"There is nothing to read: {address!r} holds no data." in refusal(address, tmp_path)


def test_an_empty_result_beside_labels_gives_nothing(crowd, tmp_path):
    none = query(tmp_path, "SELECT * FROM labels WHERE task = 'z'")
    run = run_command(
        "aggregate", f"{crowd}?{none}", f"{crowd}?table=labels", "--output", tmp_path / "run", folder=tmp_path / "run"
    )
    assert run.code == 0
    assert run.manifest["inputs"][0]["checksum"] == "rows:" + "0" * 32
    assert run.manifest["counts"]["labels_used"] == 2


def test_a_file_of_duckdb_that_is_missing_or_another_is_told(tmp_path):
    assert "which is not there. Check the path." in refusal(f"duckdb://{tmp_path}/none.duckdb?table=labels", tmp_path)
    (tmp_path / "labels.csv").write_text("task,worker,label\n" * 5000)
    assert "cannot be opened" in refusal(f"duckdb://{tmp_path}/labels.csv?table=labels", tmp_path)


def test_a_file_of_duckdb_that_another_process_writes_is_told(crowd, tmp_path):
    path = crowd.removeprefix("duckdb://")
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        said = refusal(f"{crowd}?table=labels", tmp_path)
        other.stdin.close()
    assert "cannot be opened" in said
    assert "If another program writes to it, wait for its end" in said


def test_a_server_that_is_down_is_told(tmp_path):
    said = refusal(f"postgresql://me@127.0.0.1:{free_port()}/crowd?table=labels", tmp_path)
    assert "Postgres cannot be reached" in said
    assert "refused" in said


def test_a_catalog_that_nobody_configured_is_told(tmp_path):
    said = refusal("iceberg://nowhere/crowd.labels", tmp_path)
    assert "There is no Iceberg catalog called 'nowhere'" in said
    assert "PYICEBERG_CATALOG__NOWHERE__URI" in said


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("postgresql+psycopg://me:hush-hush@127.0.0.1:1/nowhere", "sql"),
        ("http://me:hush-hush@127.0.0.1:1", "rest"),
        ("http://me:hush-hush@127.0.0.1:99999", "rest"),  # of which the client says that it cannot be parsed
        ("http://me:hush-hush@:80", "rest"),
        ("carrier-pigeon://me:hush-hush@roof", ""),
    ],
)
def test_no_password_of_a_catalog_shows(uri, kind, tmp_path, monkeypatch, caplog):
    settings = {"URI": uri, "WAREHOUSE": f"file://{tmp_path}"} | ({"TYPE": kind} if kind else {})
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SAFE__{name}", value)
    said = refusal("iceberg://safe/crowd.labels", tmp_path)
    assert "safe" in said
    assert "hush-hush" not in said + caplog.text


def test_a_catalog_is_closed_when_its_rows_are_read(tmp_path, monkeypatch):
    with iceberg_catalog(tmp_path, monkeypatch) as catalog:
        address = write_iceberg(catalog, ROWS)
    assert run_command("aggregate", address, "--output", tmp_path / "run").code == 0
    assert not [one for one in map(os.path.realpath, glob("/proc/self/fd/*")) if one.endswith("catalog.db")]


@pytest.mark.parametrize("text", ["label ==== 'x'", "colour = 'red'"])
def test_a_filter_that_cannot_be_used_is_told(text, catalog, tmp_path):
    said = refusal(f"{write_iceberg(catalog, ROWS)}?filter={text}", tmp_path)
    assert "The filter of iceberg://" in said
    assert "cannot be used" in said


def test_bigquery_without_credentials_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    assert "BigQuery cannot be reached" in refusal("bigquery://project/crowd.labels", tmp_path)


def test_what_reads_only_files_refuses_an_address(crowd):
    with pytest.raises(InputError, match=r"is in a warehouse, and only files are read here. Write it to a file."):
        find_files([f"{crowd}?table=labels"], "--prior-skills")
