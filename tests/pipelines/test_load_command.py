"""`crowdbeam load`: what it says, what it refuses, what each of its options changes."""

import json
import shutil

import duckdb
import pytest
from command_line import crowd_rows, run_command, write_rows
from lake_places import InIceberg
from test_warehouses import digest
from warehouse_runs import first_night, second_night

from pipelines.arguments import option_table
from pipelines.commands.load import build_parser
from pipelines.sinks.run_folders import FolderWarehouse


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    labels = write_rows(folder / "labels.csv", ("task", "worker", "label"), crowd_rows())
    done = run_command("aggregate", labels, "--output", folder / "run", folder=folder / "run")
    assert done.code == 0, done.err
    return done


def loaded(*argv):
    done = run_command("load", *argv, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_a_run_of_aggregate_is_loaded_and_loaded_again_is_there_already(run, tmp_path):
    to = f"duckdb:{tmp_path / 'crowd.duckdb'}"
    found = loaded(run.folder, "--to", to)
    assert found["run_id"] == run.manifest["run_id"]
    assert (found["ledger"], found["version"], found["whole"]) == ("", 0, True)
    (one,) = found["warehouses"]
    assert (one["to"], one["status"], one["error"]) == (to, "loaded", "")
    assert one["rows"]["scores"] == one["rows"]["score_history"] == 60
    with duckdb.connect(str(tmp_path / "crowd.duckdb"), read_only=True) as connection:
        answers = dict(connection.execute("SELECT task, label FROM scores").fetchall())
    assert answers == run.column("scores", "task", "label")
    (again,) = loaded(run.folder, "--to", to)["warehouses"]
    assert (again["status"], again["rows"]) == ("there already", {})


def test_each_to_is_a_warehouse_more(run, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert len(loaded(run.folder, "--to", one)["warehouses"]) == 1
    found = loaded(run.folder, "--to", one, "--to", f"{two}?format=csv")["warehouses"]
    assert [(where["to"], where["status"]) for where in found] == [
        (str(one), "there already"),
        (f"{two}?format=csv", "loaded"),
    ]
    assert [path.name for path in two.iterdir()] == [run.manifest["run_id"]]


def test_without_json_it_says_the_same_in_tables(tmp_path):
    run = second_night(tmp_path / "night")
    loaded(first_night(tmp_path / "before").path, "--to", tmp_path / "all")
    done = run_command("load", run.path, "--to", tmp_path / "all")
    assert (done.code, done.err) == (0, "")
    words = done.out.split()
    assert "night-2" in words
    assert "nights, version 2" in done.out
    assert "what changed" in done.out
    assert words[words.index("scores") + 1] == "3"
    done = run_command("load", run.path, "--to", tmp_path / "all")
    assert done.code == 0
    assert "The run is there already; nothing was changed." in done.out


def test_the_state_in_a_snapshot_of_a_stream_is_left_where_it_is(tmp_path):
    run = first_night(tmp_path / "snapshot")
    manifest = json.loads((tmp_path / "snapshot" / "manifest.json").read_text())
    (tmp_path / "snapshot" / "state").mkdir()
    (tmp_path / "snapshot" / "state" / "ledger.frame").write_bytes(b"state")
    manifest["outputs"].append({"path": "state/ledger.frame", "size_bytes": 5, "rows": 0})
    (tmp_path / "snapshot" / "manifest.json").write_text(json.dumps(manifest))
    loaded(run.path, "--to", tmp_path / "all", "--to", f"duckdb:{tmp_path / 'a.duckdb'}")
    there = {path.name for path in (tmp_path / "all" / "run-000001").iterdir()}
    assert there == {"scores", "skills", "edges", "graph", "rejects", "manifest.json"}


def test_every_option_has_a_case_here():
    assert set(option_table(build_parser())) - {"-h", "--help"} == {"--to", "--json"}


def test_when_one_warehouse_refuses_the_others_are_loaded_all_the_same(tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    assert run_command("load", first.path, "--to", tmp_path / "a").code == 0
    assert run_command("load", first.path, "--to", tmp_path / "b").code == 0
    (tmp_path / "a" / "run-000002" / "of somebody else").mkdir(parents=True)
    before = digest(tmp_path / "a" / "run-000001")
    done = run_command("load", second.path, "--to", tmp_path / "a", "--to", tmp_path / "b", "--json")
    assert done.code == 1
    assert "of somebody else is not of one, so nothing was loaded there; move it away" in done.err
    assert [one["status"] for one in json.loads(done.out)["warehouses"]] == ["failed", "loaded"]
    assert digest(tmp_path / "a" / "run-000001") == before


def test_a_catalog_that_goes_away_is_told_and_the_others_are_loaded_all_the_same(tmp_path, request, monkeypatch):
    lake, run, load = InIceberg(tmp_path, request), first_night(tmp_path / "first"), FolderWarehouse.load

    def and_then_the_catalog_is_away(self, run):
        shutil.rmtree(tmp_path / lake.name, ignore_errors=True)
        return load(self, run)

    monkeypatch.setattr(FolderWarehouse, "load", and_then_the_catalog_is_away)
    places = (tmp_path / "a", lake.address, tmp_path / "b")
    done = run_command("load", run.path, *(word for one in places for word in ("--to", one)), "--json")
    assert done.code == 1
    assert f"The Iceberg catalog '{lake.name}' cannot be opened" in done.err
    told = json.loads(done.out)["warehouses"]
    assert [one["status"] for one in told] == ["loaded", "failed", "loaded"]
    assert [one["error"] in done.err for one in told if one["error"]] == [True]


def test_a_table_of_something_else_that_comes_between_is_told_and_the_others_are_loaded(tmp_path, monkeypatch):
    run, load = first_night(tmp_path / "first"), FolderWarehouse.load
    to = f"duckdb:{tmp_path / 'a.duckdb'}"

    def and_then_a_table_is_exchanged(self, run):
        with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
            connection.execute("DROP TABLE rejects; CREATE TABLE rejects (of_others INTEGER)")
        return load(self, run)

    with monkeypatch.context() as patch:
        patch.setattr(FolderWarehouse, "load", and_then_a_table_is_exchanged)
        done = run_command("load", run.path, "--to", tmp_path / "a", "--to", to, "--json")
    assert done.code == 1
    assert [one["status"] for one in json.loads(done.out)["warehouses"]] == ["loaded", "failed"]
    assert "holds a table rejects of something else" in done.err


def test_a_damaged_run_is_bad_input_as_long_as_no_warehouse_has_it(tmp_path):
    run = first_night(tmp_path / "first")
    (tmp_path / "first" / "rejects" / "part-00000.parquet").write_bytes(b"PAR1")
    done = run_command("load", run.path, "--to", tmp_path / "a", "--to", f"duckdb:{tmp_path / 'a.duckdb'}", "--json")
    assert done.code == 2
    assert done.err.count("cannot be read") == 1  # told once
    assert [one["status"] for one in json.loads(done.out)["warehouses"]] == ["failed", "failed"]


def test_what_changed_is_not_loaded_where_the_night_before_is_missing(tmp_path):
    first, second = first_night(tmp_path / "first"), second_night(tmp_path / "second")
    to = f"duckdb:{tmp_path / 'a.duckdb'}"
    done = run_command("load", second.path, "--to", to)
    assert done.code == 2
    assert "holds version 0 of ledger nights" in done.err
    assert "what changed from version 1 to 2. Load the runs between them first" in done.err
    for run in (first, second, second, first):
        assert run_command("load", run.path, "--to", to).code == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nothing", "--to", "all"], "nothing holds no finished run"),
        (["RUN"], "--to"),
        (["RUN", "--to", "all", "--to", "all"], "names a warehouse twice"),
        (["RUN", "--to", "all", "--to", "./all/?format=csv"], "twice, as all and as ./all/?format=csv; name each once"),
        (["RUN", "--to", "duckdb:d", "--to", "duckdb:./d"], "names a warehouse twice"),
        (["RUN", "--to", "all", "--to", "postgresql://me:hush@h/d"], "set PGPASSWORD"),
        (["RUN", "--to", "all", "--to", "postgresql://me@127.0.0.1:1/d"], "Postgres cannot be reached"),
        (["RUN", "--to", "all", "--to", "duckbd:///x"], "Did you mean duckdb"),
        (["RUN", "--too", "all"], "did you mean --to?"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_loaded(argv, said, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", "hush")
    done = run_command("load", *(str(run.folder) if word == "RUN" else word for word in argv))
    assert done.code == 2
    assert said in done.err
    assert "hush" not in done.err + done.out
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
