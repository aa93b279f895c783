"""The OpenLineage event of a run, against the classes and the naming rules of OpenLineage's own client."""

import copy
import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest
from command_line import crowd_rows, run_command, write_rows
from own_environments import LOCKS, python_of

import schemas
from pipelines.dataset_names import file_name, input_name, table_name
from pipelines.errors import RunError
from pipelines.lineage import lineage_event, run_uuid, write_lineage
from pipelines.sinks import loads

SCRIPT = LOCKS / "openlineage_script.py"
WAREHOUSES = (
    "postgresql://me@db.example:5433/crowd?schema=night&sslmode=require",
    "duckdb:///data/crowd.duckdb",
    "bigquery://project/dataset",
    "iceberg://lake/crowd",
)


def by_the_client(given, folder):
    """What OpenLineage's client makes of events and of the parts of names."""
    asked, told = folder / "given.json", folder / "found.json"
    asked.write_text(json.dumps(given), "utf-8")
    command = [str(python_of("openlineage")), str(SCRIPT), str(asked), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(told.read_text("utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with renamed columns, gold, an earlier run's skills, a gate and a broken label."""
    folder = tmp_path_factory.mktemp("lineage")
    labels = write_rows(folder / "labels.csv", ("item", "worker", "label"), [*crowd_rows(), ("t", "", "c0")])
    gold = write_rows(folder / "gold.csv", ("task", "label"), [("t00", "c0")])
    prior = write_rows(folder / "prior.csv", ("worker", "skill"), [("w0", 0.5)])
    return run_command(
        "aggregate", labels, "--columns", "task=item", "--gold", gold, "--prior-skills", prior,
        "--fail-if", "rejects-share>0.5", "--output", folder / "run", "--lineage", folder / "event.json",
        folder=folder / "run",
    )  # fmt: skip


@pytest.fixture
def event(run):
    return json.loads((run.folder.parent / "event.json").read_text("utf-8"))


def changed(event, *path, to):
    """A copy of the event in which the place at `path` holds something else; None removes it."""
    copied = copy.deepcopy(event)
    place = copied
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return copied


def test_the_client_makes_the_same_event_of_it(run, event, tmp_path):
    loads = {**{key: {"scores": 60, "runs": 1} for key in WAREHOUSES}, "answers": {"scores": 60}, "up-to-date": {}}
    loaded = lineage_event(run.manifest, loaded=loads, job_name="nightly")
    found = by_the_client({"events": [event, loaded]}, tmp_path)["events"]
    assert found == [event, loaded]


def test_the_client_refuses_an_event_with_a_wrong_field(event, tmp_path):
    """The check above can fail: fields that are no fields, schemas that are no schemas, ids that are no ids."""
    wrong = [
        changed(event, "run", "runId", to="monday"),
        changed(event, "eventTime", to="yesterday"),
        changed(event, "eventType", to="DONE"),
        changed(event, "outputs", 0, "rows", to=3),
        changed(event, "outputs", 0, "outputFacets", "outputStatistics", "n_rows", to=3),
        changed(event, "outputs", 0, "facets", "schema", "fields", 0, "doc", to="x"),
        changed(event, "outputs", 0, "facets", "schema", "_schemaURL", to="https://openlineage.io/x"),
        changed(event, "job", "name", to=None),
        changed(event, "schemaURL", to="https://openlineage.io/x"),
    ]
    found = by_the_client({"events": wrong}, tmp_path)["events"]
    assert all(isinstance(one, str) for one in found), found


def test_names_are_those_of_the_client(tmp_path, monkeypatch):
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGPORT", raising=False)
    postgres = {"database": "crowd", "table": "scores"}
    cases = [
        (file_name("/data/labels.csv"), "LocalFileSystem", {"path": "/data/labels.csv"}),
        (file_name("gs://bucket/a/b.csv"), "GCS", {"bucket_name": "bucket", "object_key": "a/b.csv"}),
        (file_name("s3://bucket/a/b.csv"), "S3", {"bucket_name": "bucket", "object_key": "a/b.csv"}),
        (
            file_name("hdfs://node:8020/a/b.csv"),
            "HDFS",
            {"namenode_host": "node", "namenode_port": "8020", "path": "/a/b.csv"},
        ),
        (table_name("gs://bucket/run", "scores"), "GCS", {"bucket_name": "bucket", "object_key": "run/scores"}),
        (table_name("/runs/1/", "scores"), "LocalFileSystem", {"path": "/runs/1/scores"}),
        (
            table_name(WAREHOUSES[0], "scores"),
            "Postgres",
            {**postgres, "host": "db.example", "port": "5433", "schema": "night"},
        ),
        (
            table_name("postgres://localhost/crowd", "scores"),
            "Postgres",
            {**postgres, "host": "localhost", "port": "5432", "schema": "crowdbeam"},
        ),
        (
            table_name("bigquery://project/dataset?location=EU", "scores"),
            "BigQuery",
            {"project_id": "project", "dataset_name": "dataset", "table_name": "scores"},
        ),
    ]
    found = by_the_client({"names": [[kind, arguments] for _, kind, arguments in cases]}, tmp_path)["names"]
    assert [list(name) for name, _, _ in cases] == found


def test_names_without_a_rule_in_the_client():
    assert table_name(WAREHOUSES[1], "scores") == ("duckdb:///data/crowd.duckdb", "crowd.main.scores")
    assert table_name(WAREHOUSES[3], "scores") == ("iceberg://lake", "crowd.scores")


def test_inputs_from_warehouses_are_called_as_their_tables(monkeypatch):
    monkeypatch.delenv("PGPORT", raising=False)
    for address, name in [
        ("postgresql://me@db/crowd?table=labels", ("postgres://db:5432", "crowd.public.labels")),
        ("postgresql://me@db/crowd?table=raw.labels&sslmode=require", ("postgres://db:5432", "crowd.raw.labels")),
        ("postgresql://me@db/crowd?query=new.sql", ("postgres://db:5432", "crowd")),
        ("iceberg://lake/crowd.labels?filter=x", ("iceberg://lake", "crowd.labels")),
        ("bigquery://project?query=new.sql", ("bigquery", "project")),
        ("/data/labels.csv", ("file", "/data/labels.csv")),
    ]:
        assert input_name(address) == name


def test_relative_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert file_name("labels.csv") == ("file", str(tmp_path / "labels.csv"))
    assert table_name("duckdb:crowd.duckdb", "runs").namespace == f"duckdb://{tmp_path}/crowd.duckdb"


def test_the_event_tells_the_run(run, event):
    manifest = run.manifest
    assert event["eventType"] == "COMPLETE"
    assert uuid.UUID(event["run"]["runId"]).hex == manifest["run_id"]
    facet = event["run"]["facets"]["crowdbeam_run"]
    assert (facet["runId"], facet["counts"], facet["gates"]) == (
        manifest["run_id"], manifest["counts"], manifest["gates"],
    )  # fmt: skip
    seconds = manifest["finished_at_us"] / 1e6
    from datetime import datetime

    assert datetime.fromisoformat(event["eventTime"]).timestamp() == pytest.approx(seconds, abs=1e-6)


def test_inputs_have_their_columns_their_size_and_their_checksum(run, event):
    labels, gold, prior = event["inputs"]
    given = run.manifest["inputs"]
    assert [one["name"] for one in event["inputs"]] == [one["path"] for one in given]
    columns = [[column["name"] for column in one["facets"]["schema"]["fields"]] for one in (labels, gold, prior)]
    assert columns == [["item", "worker", "label"], ["task", "label"], ["worker", "skill"]]
    for one, said in zip(event["inputs"], given, strict=True):
        assert one["inputFacets"]["inputStatistics"]["size"] == Path(said["path"]).stat().st_size
        assert one["facets"]["version"]["datasetVersion"] == said["checksum"]


def test_outputs_of_a_folder_have_the_columns_of_the_schemas_and_what_was_written(run, event):
    assert [one["name"] for one in event["outputs"]] == [str(run.folder / name) for name in schemas.TABLES]
    for one, (table, record) in zip(event["outputs"], schemas.TABLES.items(), strict=True):
        fields = one["facets"]["schema"]["fields"]
        described = schemas.avro_schema(record)["fields"]
        assert [(field["name"], field["description"]) for field in fields] == [(f["name"], f["doc"]) for f in described]
        files = list((run.folder / table).iterdir())
        written = one["outputFacets"]["outputStatistics"]
        assert written["rowCount"] == len(run.rows(table))
        assert (written["fileCount"], written["size"]) == (len(files), sum(file.stat().st_size for file in files))


@pytest.mark.parametrize("target", WAREHOUSES)
def test_outputs_of_a_warehouse_are_its_tables(target, run):
    written = dict.fromkeys(loads.TABLES, 7) | {"runs": 3}
    outputs = lineage_event(run.manifest, loaded={target: written}, job_name="nightly")["outputs"]
    assert [one["name"].rpartition(".")[2] for one in outputs] == list(loads.TABLES)
    rows = {one["name"].rpartition(".")[2]: one["outputFacets"]["outputStatistics"]["rowCount"] for one in outputs}
    assert rows == written
    assert all("size" not in one["outputFacets"]["outputStatistics"] for one in outputs)
    for one in outputs:
        columns = [field["name"] for field in one["facets"]["schema"]["fields"]]
        assert columns == loads.table_schema(one["name"].rpartition(".")[2]).names


def test_no_secret_gets_into_the_event(run):
    """Warehouses refuse passwords in addresses; what is there all the same stays out."""
    manifest = {**run.manifest, "inputs": [{**run.manifest["inputs"][0], "path": "s3://key:s3cret@bucket/labels.csv"}]}
    targets = ["postgresql://me:s3cret@db/crowd?password=s3cret", "bigquery://p/d?token=s3cret", "gs://b/run?x=s3cret"]
    event = lineage_event(manifest, loaded={key: {} for key in targets}, job_name="nightly")
    assert "s3cret" not in json.dumps(event)


def test_the_same_run_has_the_same_id_whatever_it_looks_like():
    assert run_uuid("ledger-7.night-3") == run_uuid("ledger-7.night-3") != run_uuid("ledger-7.night-4")
    assert uuid.UUID(run_uuid("ledger-7.night-3")).version == 5


def test_the_namespace_of_the_job_is_openlineages_variable(run, monkeypatch):
    monkeypatch.delenv("OPENLINEAGE_NAMESPACE", raising=False)
    job = lineage_event(run.manifest, job_name="crowd.nightly")["job"]
    assert (job["namespace"], job["name"]) == ("crowdbeam", "crowd.nightly")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "airflow-prod")
    assert lineage_event(run.manifest, job_name="x")["job"]["namespace"] == "airflow-prod"


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    for place, sentence in [
        (tmp_path / "nowhere" / "event.json", "cannot be written: make its folder first."),
        (tmp_path, "is a folder; give a file."),
        (tmp_path / "run" / "event.json", "lies in --output, where runs alone are; give another place."),
        (f"file://{tmp_path}/run/event.json", "lies in --output, where runs alone are; give another place."),
        ("nosuch://bucket/event.json", "nosuch://bucket/event.json is in no file system that is known."),
    ]:
        run = run_command("aggregate", labels, "--output", tmp_path / "run", "--lineage", place)
        assert (run.code, run.out) == (2, "")
        assert sentence in run.err
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [("aggregate", "--output", "{}/run"), ("nightly", "--ledger", "{}/ledger")])
def test_a_file_that_is_no_event_is_not_overwritten(tmp_path, command):
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    before = labels.read_bytes()
    words = [command[0], labels, *(word.format(tmp_path) for word in command[1:])]
    run = run_command(*words, "--lineage", labels)
    assert (run.code, "is there and is no event of an earlier run" in run.err) == (2, True)
    assert labels.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]
    (tmp_path / "event.json").touch()
    for overwrite in ((), ("--overwrite",) if command[0] == "aggregate" else ()):
        assert run_command(*words, "--lineage", tmp_path / "event.json", *overwrite).code == 0
        assert json.loads((tmp_path / "event.json").read_text("utf-8"))["eventType"] == "COMPLETE"


def test_a_device_is_refused_and_a_link_stays_a_link(tmp_path):
    """An event is moved to its place: it would take that of the device, or of the link."""
    labels = write_rows(tmp_path / "labels.csv", ("task", "worker", "label"), crowd_rows())
    os.mkfifo(tmp_path / "pipe")
    run = run_command("nightly", labels, "--ledger", tmp_path / "ledger", "--lineage", tmp_path / "pipe")
    assert (run.code, "pipe is a device or a pipe; give a file." in run.err) == (2, True)
    (tmp_path / "latest.json").symlink_to("event.json")
    for number in (1, 2):
        night = write_rows(tmp_path / f"{number}.csv", ("task", "worker", "label"), crowd_rows()[:number])
        assert (
            run_command("nightly", night, "--ledger", tmp_path / "new", "--lineage", tmp_path / "latest.json").code == 0
        )
        assert (tmp_path / "latest.json").is_symlink()
        (given,) = json.loads((tmp_path / "event.json").read_text("utf-8"))["inputs"]
        assert given["name"] == str(night)


def test_an_event_is_replaced_whole_and_a_failure_is_told(tmp_path):
    place = tmp_path / "event.json"
    write_lineage(str(place), {"a": 1})
    write_lineage(str(place), {"b": 2})
    assert json.loads(place.read_text("utf-8")) == {"b": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["event.json"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="The run is written, but --lineage"):
        write_lineage(str(tmp_path / "folder"), {"a": 1})
