"""What a user may write for a warehouse, and what is said of the rest."""

import sys

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.sinks.duckdb import DuckDbWarehouse
from pipelines.sinks.postgres_warehouse import PostgresWarehouse
from pipelines.sinks.run_folders import FolderWarehouse
from pipelines.sinks.warehouses import warehouse_of, warehouses_of


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("postgresql://me@h:5432/db", PostgresWarehouse("postgresql://me@h:5432/db"), "postgresql://me@h:5432/db"),
        ("postgres://h/db?schema=s", PostgresWarehouse("postgresql://h/db", "s"), "postgresql://h/db?schema=s"),
        (
            "postgresql://h/db?sslmode=require&schema=s",
            PostgresWarehouse("postgresql://h/db?sslmode=require", "s"),
            "postgresql://h/db?sslmode=require&schema=s",
        ),
        ("postgresql:///?service=x", PostgresWarehouse("postgresql:///?service=x"), "postgresql:///?service=x"),
        ("postgresql:///db", PostgresWarehouse("postgresql:///db"), "postgresql:///db"),
        ("duckdb:///data/a%20b.duckdb", DuckDbWarehouse("/data/a b.duckdb"), "duckdb:/data/a b.duckdb"),
        ("duckdb:/data/a.duckdb", DuckDbWarehouse("/data/a.duckdb"), "duckdb:/data/a.duckdb"),
        ("duckdb:a.duckdb?schema=s", DuckDbWarehouse("a.duckdb", "s"), "duckdb:a.duckdb?schema=s"),
        ("runs", FolderWarehouse("runs"), "runs"),
        ("runs?format=csv", FolderWarehouse("runs", "csv"), "runs?format=csv"),
        ("file:///data/runs", FolderWarehouse("/data/runs"), "/data/runs"),
        ("gs://bucket/runs", FolderWarehouse("gs://bucket/runs"), "gs://bucket/runs"),
        ("postgres", FolderWarehouse("postgres"), "postgres"),
    ],
)
def test_a_text_names_a_warehouse_which_shows_it_again(text, expected, shown):
    assert warehouse_of(text) == expected
    assert str(expected) == shown
    assert warehouse_of(shown) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The warehouse is empty; give a folder, or one of postgresql://USER@HOST:PORT/DATABASE"),
        ("postgress://h/d", "Did you mean postgres"),
        ("duckbd:///a", "Did you mean duckdb:///PATH?"),
        ("iceburg://a/b", "Did you mean iceberg://CATALOG/NAMESPACE?"),
        ("bigqery://a/b", "Did you mean bigquery://PROJECT/DATASET?"),
        ("mysql://me:hush@h/d", "begins with mysql:, which is not known. There are postgresql"),
        ("postgresql://me@h", "The warehouse names no database"),
        ("postgresql://me:hush@h/d", "set PGPASSWORD"),
        ("postgresql://me@h/d?password=hush", "set PGPASSWORD"),
        ("postgresql://me@h/d?oauth_client_secret=hush", "set PGPASSWORD"),
        ("postgresql://me@h/d?scram_client_key=hush", "set PGPASSWORD"),
        ("s3://key:hush@bucket/runs", "The warehouse's address holds a user."),
        ("postgresql://[h/d", "cannot be read"),
        ("postgresql://h/d?schema=", "schema's name for Postgres is empty"),
        ("duckdb:", "names no file; the form is duckdb:///PATH, or duckdb:PATH"),
        ("duckdb://host/a", "names no file"),
        ("duckdb::memory:", "names no file"),
        ("duckdb:a?schema=", "has no name"),
        ("duckdb:a?shcema=x", "has the option 'shcema'; it takes ?schema=…"),
        ("runs?password=hush", "has the option 'password'; it takes ?format=…"),
        ("iceberg://catalog", "is not of the form iceberg://CATALOG/NAMESPACE"),
        ("iceberg://me:hush@catalog/n", "Credentials come from the warehouse's own configuration"),
        ("iceberg://c/n?token=hush", "has the option 'token'; it takes none"),
        ("bigquery://project", "is not of the form bigquery://PROJECT/DATASET"),
        ("bigquery://me:hush@project/d", "Credentials come from the warehouse's own configuration"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence_without_secrets(text, said):
    with pytest.raises(InvalidSettingError) as caught:
        warehouse_of(text)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_service_or_database_of_the_environment_needs_no_name_in_the_address(monkeypatch):
    monkeypatch.setenv("PGSERVICE", "crowd")
    assert warehouse_of("postgresql://") == PostgresWarehouse("postgresql://")


@pytest.mark.parametrize(
    ("text", "module", "extra"),
    [("duckdb:a.duckdb", "duckdb", "duckdb"), ("postgresql://h/d", "psycopg", "postgres")],
)
def test_a_missing_client_is_told_with_what_to_install(text, module, extra, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidSettingError, match=rf"pip install 'crowdbeam\[{extra}\]'"):
        warehouse_of(text).check()


def test_an_option_that_libpq_does_not_know_is_told():
    with pytest.raises(InvalidSettingError, match=r"shcema.*It takes libpq's options, and schema=NAME"):
        warehouse_of("postgresql://h/d?shcema=x").check()


def test_two_schemas_of_one_file_are_two_places_and_two_names_of_one_schema_are_one(tmp_path):
    (tmp_path / "link").symlink_to("crowd.duckdb")
    both = [f"duckdb:{tmp_path}/crowd.duckdb", f"duckdb:{tmp_path}/crowd.duckdb?schema=nights"]
    assert [str(one) for one in warehouses_of(both, "--to")] == both
    with pytest.raises(InvalidSettingError, match="--to names a warehouse twice, as"):
        warehouses_of([*both, f"duckdb:{tmp_path}/link"], "--to")
