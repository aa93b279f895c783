import pytest
from command_line import run_command

from pipelines.errors import InputError
from pipelines.sources.warehouse_addresses import is_address, near_form, parse_address


def test_a_file_of_duckdb_is_absolute_or_beside_you():
    assert parse_address("duckdb:///data/my%20crowd.duckdb?table=labels").place == "/data/my crowd.duckdb"
    assert parse_address("duckdb:crowd.duckdb?query=labels.sql").place == "crowd.duckdb"
    assert parse_address("DuckDB:crowd.duckdb?query=labels.sql").query == "labels.sql"


def test_options_of_libpq_stay_in_the_address_of_postgres():
    address = parse_address("postgres://me@h:5432/crowd?sslmode=require&table=s.labels&sslkey=/k")
    assert (address.kind, address.place) == ("postgres", "postgresql://me@h:5432/crowd?sslmode=require&sslkey=%2Fk")
    assert address.table == ("s", "labels")


def test_names_with_dots_are_quoted():
    assert parse_address('duckdb:x?table="a.b"."say ""hi"""').table == ("a.b", 'say "hi"')
    assert parse_address("iceberg://prod/a.b.labels?filter=day = '2026-01-31'").table == ("a", "b", "labels")


def test_bigquery_takes_a_table_or_a_query():
    assert parse_address("bigquery://my-project/crowd.labels").table == ("crowd", "labels")
    assert parse_address("bigquery://my-project?query=labels.sql").query == "labels.sql"


@pytest.mark.parametrize("text", ["labels.csv", "gs://bucket/labels.csv", "C:/labels.csv", "kafka://h:1/t", "duckdb"])
def test_files_are_no_addresses(text):
    assert not is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@h/crowd?table=labels",
        "postgresql://me@h/crowd?table=labels&password=secret",
        "postgresql://me@h/crowd?table=labels&sslpassword=secret",
        "bigquery://me:secret@project/d.t",
        "iceberg://prod/n.t?token=secret",
        "duckdb:crowd.duckdb?table=labels&encryption_key=secret",
    ],
)
def test_a_password_is_refused_and_not_repeated(text, tmp_path):
    run = run_command("aggregate", text, "--output", tmp_path / "run")
    assert run.code == 2
    assert "holds a user or a password, which every program on this machine could read" in run.err
    assert "secret" not in run.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "duckdb:crowd.duckdb",
            r"names no labels; write duckdb:///PATH\?table=TABLE, or duckdb:///PATH\?query=FILE.sql",
        ),
        ("duckdb:crowd.duckdb?table=a&query=b.sql", "names no labels"),
        ("duckdb:crowd.duckdb?table=", "names no labels"),
        ("duckdb://crowd.duckdb?table=labels", "names no file; the form is .* or duckdb:PATH for one beside you"),
        (
            "duckdb:crowd.duckdb?table=labels&limit=5",
            "has the option 'limit', which is not known; it takes table=TABLE",
        ),
        ("duckdb:crowd.duckdb?table=a..b", "names the table 'a..b'; write NAME or SCHEMA.NAME"),
        ("iceberg://prod/labels", "names no labels; the form is iceberg://CATALOG/NAMESPACE.TABLE"),
        ("iceberg://prod/n.labels?query=x.sql", "has the option 'query', which is not known; it takes filter="),
        ("bigquery://project", r"the form is bigquery://PROJECT/DATASET.TABLE or bigquery://PROJECT\?query=FILE.sql"),
        ("bigquery://project/d.t?query=x.sql", "names no labels"),
        ("postgres://me@h/crowd?table=labels#top", "holds a #"),
        ("postgres://[me@h/crowd?table=labels", "cannot be read"),
    ],
)
def test_an_address_that_names_nothing_is_refused(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("duckbd:///x", "duckdb://"),
        ("postgress://h/d", "postgres"),
        ("bigqery://p/d.t", "bigquery://"),
        ("iceburg://c/n.t", "iceberg://"),
    ],
)
def test_a_scheme_that_is_nearly_right_is_told(text, form, tmp_path):
    assert near_form(text).startswith(form)
    run = run_command("aggregate", text, "--output", tmp_path / "run")
    assert run.code == 2
    assert f"Did you mean {form}" in run.err
    assert not (tmp_path / "run").exists()
