"""examples/dbt: the sources say what the schemas say, and dbt itself builds and tests the project on a loaded run."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest
import yaml
from command_line import crowd_rows, run_command, write_rows
from own_environments import python_of

from pipelines.sinks.loads import CURRENT, TABLES, table_doc, table_schema

PROJECT = Path(__file__).parents[2] / "examples" / "dbt"
SOURCES = PROJECT / "models" / "sources.yml"


def listed():
    """{table: its entry} of the sources, as any reader of YAML finds them."""
    (source,) = yaml.safe_load(SOURCES.read_text("utf-8"))["sources"]
    return {table["name"]: table for table in source["tables"]}


def test_the_sources_are_as_their_script_writes_them():
    spec = importlib.util.spec_from_file_location("write_sources", PROJECT / "write_sources.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert SOURCES.read_text("utf-8") == script.sources(), "python examples/dbt/write_sources.py writes them anew"


def test_every_table_and_column_has_the_words_of_the_schemas():
    found = listed()
    assert list(found) == list(TABLES)
    for name, table in found.items():
        assert table["description"] == table_doc(name)
        columns = {column["name"]: column["description"] for column in table["columns"]}
        assert columns == {field.name: field.metadata[b"doc"].decode() for field in table_schema(name)}


def test_keys_are_tested_for_being_unique_and_what_must_be_there_for_being_there():
    for name, table in listed().items():
        tests = {column["name"]: column.get("data_tests", []) for column in table["columns"]}
        there = {column for column, of_it in tests.items() if "not_null" in of_it}
        assert there == {field.name for field in table_schema(name) if not field.nullable}
        key = ("run_id",) if name == "runs" else CURRENT.get(name, ())
        unique = [column for column, of_it in tests.items() if "unique" in of_it]
        assert unique == (list(key) if len(key) == 1 else [])
    assert "freshness" in listed()["runs"]["config"]


class Warehouse:
    """A DuckDB file with loaded runs, and dbt on a copy of the project beside it."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "crowd.duckdb"
        shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns("target", "logs", "__pycache__"))

    def load(self, rows, name):
        labels = write_rows(self.folder / f"{name}.csv", ("task", "worker", "label"), rows)
        assert run_command("aggregate", labels, "--output", self.folder / name, "--quiet").code == 0
        loaded = run_command("load", self.folder / name, "--to", f"duckdb:{self.file}")
        assert loaded.code == 0, loaded.err

    def dbt(self, *words):
        """The exit code of dbt, its results by name, and what it said."""
        command = [python_of("dbt").parent / "dbt", *words, "--profiles-dir", ".", "--vars", "crowdbeam_schema: main"]
        env = {**os.environ, "CROWDBEAM_DUCKDB": str(self.file), "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
        env["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
        done = subprocess.run(
            [*map(str, command)], cwd=self.folder / "project", env=env, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip
        kept = self.folder / "project" / "target" / ("sources.json" if words[0] == "source" else "run_results.json")
        results = json.loads(kept.read_text("utf-8"))["results"] if kept.exists() else []
        return done.returncode, {one["unique_id"]: one["status"] for one in results}, done.stdout + done.stderr


@pytest.fixture
def warehouse(tmp_path):
    found = Warehouse(tmp_path)
    found.load([*crowd_rows(), ("t", "", "c0")], "run")
    return found


def test_dbt_builds_the_model_and_every_test_holds_on_a_loaded_run(warehouse):
    code, results, said = warehouse.dbt("build", "--warn-error")  # also what dbt merely dislikes
    assert code == 0, said
    manifest = json.loads((warehouse.folder / "project" / "target" / "manifest.json").read_text("utf-8"))
    assert sorted(one["name"] for one in manifest["sources"].values()) == sorted(TABLES)
    assert set(results.values()) == {"success", "pass"}
    n_tests = sum(len(column.get("data_tests", [])) for table in listed().values() for column in table["columns"])
    assert sum(status == "pass" for status in results.values()) == n_tests + 4
    with duckdb.connect(str(warehouse.file), read_only=True) as database:
        (trusted,) = database.execute("SELECT count(*) FROM analysis.answers_to_trust").fetchone()
        sure = "status IN ('ok', 'gold') AND probability >= 0.9"
        (expected,) = database.execute(f"SELECT count(*) FROM main.scores WHERE {sure}").fetchone()  # noqa: S608
    assert trusted == expected > 0


def test_the_tests_of_the_sources_can_fail(warehouse):
    with duckdb.connect(str(warehouse.file)) as database:
        database.execute("CREATE TABLE copied AS SELECT * FROM main.edges UNION ALL (SELECT * FROM main.edges LIMIT 1)")
        database.execute("DROP TABLE main.edges")
        database.execute("ALTER TABLE copied RENAME TO edges")
        database.execute("CREATE TABLE skilled AS SELECT * REPLACE (NULL::DOUBLE AS skill) FROM main.skills")
        database.execute("DROP TABLE main.skills")
        database.execute("ALTER TABLE skilled RENAME TO skills")
    code, results, _ = warehouse.dbt("test")
    failed = sorted(name.split(".")[2] for name, status in results.items() if status == "fail")
    assert (code, failed) == (1, ["pairs_of_workers_are_unique", "source_not_null_crowdbeam_skills_skill"])


def test_a_night_that_did_not_come_is_noticed_by_freshness(warehouse):
    code, results, said = warehouse.dbt("source", "freshness")
    assert (code, list(results.values())) == (0, ["pass"]), said
    with duckdb.connect(str(warehouse.file)) as database:
        database.execute("UPDATE main.runs SET loaded_at_us = loaded_at_us - 259200000000")
    code, results, _ = warehouse.dbt("source", "freshness")
    assert (code, list(results.values())) == (1, ["error"])
