"""BigQuery by the real client against its stand-in: what is asked for, what is repeated, and what failures leave.

No BigQuery was reached by these tests: what they cannot show is in docs/warehouses.md.
"""

import json
import logging
import random
from datetime import datetime, timezone

import pytest
import sqlglot
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.api_core.exceptions import BadRequest
from google.cloud import bigquery
from lake_places import InBigQuery, InIceberg
from warehouse_runs import after_first, after_second, first_night, score, second_night, write_run

from pipelines.cli import main
from pipelines.errors import InvalidSettingError, RunError
from pipelines.sinks import bigquery as warehouse_module
from pipelines.sinks import bigquery_jobs
from pipelines.sinks.bigquery import BigQueryWarehouse
from pipelines.sinks.loads import TABLES
from pipelines.sinks.warehouses import warehouse_of

ABORTED = "Transaction is aborted due to concurrent update against table lab:crowd.scores."


@pytest.fixture
def place(request, tmp_path, monkeypatch):
    monkeypatch.setattr(bigquery_jobs, "_FIRST_PAUSE_S", 0.0)
    return InBigQuery(tmp_path, request)


@pytest.fixture
def warehouse(place):
    made = warehouse_of(place.address)
    made.check()
    return made


@pytest.fixture
def nights(tmp_path):
    return first_night(tmp_path / "first"), second_night(tmp_path / "second")


def held(place, expected):
    return {name: place.rows(name) for name in expected}


def jobs(place, word):
    return {name: job for name, job in place.server.jobs.items() if name.startswith("crowdbeam_") and word in name}


def test_jobs_are_what_the_client_takes_them_for(place, warehouse, nights):
    warehouse.load(nights[0])
    loaded = jobs(place, "scores")
    assert len(loaded) == 1
    config = bigquery.LoadJobConfig.from_api_repr(next(iter(loaded.values()))["configuration"])
    assert config.source_format == bigquery.SourceFormat.PARQUET
    assert config.write_disposition == bigquery.WriteDisposition.WRITE_TRUNCATE
    assert config.parquet_options.enable_list_inference
    kinds = {one.name: (one.field_type, one.mode) for one in config.schema}
    assert kinds["task"] == ("STRING", "REQUIRED")
    assert kinds["probabilities"] == ("RECORD", "REPEATED")
    assert all(one.description for one in config.schema)
    (script,) = jobs(place, "commit").values()
    config = bigquery.QueryJobConfig.from_api_repr(script["configuration"])
    assert {one.name: one.value for one in config.query_parameters} == {
        "run_id": "night-1", "ledger": "nights", "version": 1,
    }  # fmt: skip


def test_a_night_is_one_transaction(place, warehouse, nights):
    for run in nights:
        warehouse.load(run)
    _, night = (job["configuration"]["query"]["query"] for job in jobs(place, "commit").values())
    kinds = [type(one).__name__ for one in sqlglot.parse(night, read="bigquery") if one]
    assert kinds == [
        "Transaction", "Select", "Select", "Merge", "Delete", "Insert", "Merge", "Delete", "Insert",
        "Insert", "Insert", "Insert", "Insert", "Commit",
    ]  # fmt: skip


def test_staging_tables_are_dropped(place, warehouse, nights):
    warehouse.load(nights[0])
    assert place.server.tables("crowd") == sorted(TABLES)


@pytest.mark.parametrize("n_lost", [1, 2])
def test_jobs_whose_answers_are_lost_are_not_done_twice(place, warehouse, nights, n_lost):
    for run in nights:
        place.server.lost = n_lost
        warehouse.load(run)
    expected = after_second(*nights)
    assert held(place, expected) == expected
    assert all(name.endswith("_1") for name in jobs(place, ""))


def test_a_transaction_that_others_break_is_tried_again(place, warehouse, nights):
    place.server.failures = [ABORTED, ABORTED]
    warehouse.load(nights[0])
    expected = after_first(nights[0])
    assert held(place, expected) == expected
    assert [name[-2:] for name in jobs(place, "commit")] == ["_1", "_2", "_3"]


def test_a_transaction_that_is_always_broken_changes_nothing_and_the_next_load_completes_it(place, warehouse, nights):
    place.server.failures = [ABORTED] * bigquery_jobs.TRIES
    with pytest.raises(RunError, match=r"did not take run night-1: .*concurrent update.* Load it again"):
        warehouse.load(nights[0])
    assert all(place.rows(name) == [] for name in TABLES)
    left = [one for (_, name), one in place.server._tables.items() if name.startswith("crowdbeam_load_")]
    assert len(left) == 6
    day_us = 86_400_000_000
    now_us = datetime.now(timezone.utc).timestamp() * 1e6
    assert all(0 < int(one["expirationTime"]) * 1000 - now_us <= day_us for one in left)
    n_loads = len(jobs(place, "_1"))
    warehouse.load(nights[0])
    assert held(place, after_first(nights[0])) == after_first(nights[0])
    assert len(jobs(place, "_1")) == n_loads  # what was staged is used
    assert place.server.tables("crowd") == sorted(TABLES)


def test_the_whole_state_of_a_night_is_not_made_of_what_its_failed_load_staged(place, warehouse, nights, tmp_path):
    warehouse.load(nights[0])
    place.server.failures = [ABORTED] * bigquery_jobs.TRIES
    with pytest.raises(RunError, match="did not take run night-2"):
        warehouse.load(nights[1])
    tasks = ["t1", "t3", "t4"]
    warehouse.load(write_run(tmp_path / "whole", "night-2", 2, scores=[[score(one) for one in tasks]]))
    assert [row["task"] for row in place.rows("scores")] == tasks


def test_an_error_that_stays_is_not_tried_again(place, warehouse, nights):
    place.server.failures = ["Access Denied: you may not"]
    with pytest.raises(RunError, match="Access Denied"):
        warehouse.load(nights[0])
    assert len(jobs(place, "commit")) == 1


def test_a_run_of_a_dataset_that_was_emptied_is_loaded_again(place, warehouse, nights):
    warehouse.load(nights[0])
    for name in TABLES:
        place.server._database.execute(f'DELETE FROM "lab"."crowd"."{name}"')  # noqa: S608
    warehouse.load(nights[0])
    assert held(place, after_first(nights[0])) == after_first(nights[0])


def test_large_tables_are_sent_in_pieces_that_can_be_resumed(place, warehouse, tmp_path):
    rng = random.Random(0)
    rows = [score(f"{rng.getrandbits(256):x}", label=f"{rng.getrandbits(256):x}") for _ in range(60_000)]
    run = write_run(tmp_path / "large", "large", scores=[rows])
    warehouse.load(run)
    assert ("PUT", "/upload/bigquery/v2/projects/lab/jobs") in place.server.requests
    assert len(place.rows("scores")) == 60_000


def test_a_table_of_an_older_version_gets_its_new_columns(place, warehouse, nights):
    fields = place.server._tables["crowd", "skills"]["schema"]["fields"]
    fields[:] = [one for one in fields if one["name"] != "n_peers"]
    place.server._database.execute('ALTER TABLE "lab"."crowd"."skills" DROP COLUMN n_peers')
    warehouse.check()
    warehouse.load(nights[0])
    assert held(place, after_first(nights[0])) == after_first(nights[0])


def test_tables_of_something_else_and_other_locations_are_refused(place, warehouse):
    with pytest.raises(InvalidSettingError, match="crowd is in US, not in EU"):
        BigQueryWarehouse("lab", "crowd", "EU").check()
    fields = place.server._tables["crowd", "skills"]["schema"]["fields"]
    fields[0]["type"] = "INTEGER"
    with pytest.raises(InvalidSettingError, match=r"column worker of `lab.crowd.skills` is INTEGER, not STRING"):
        warehouse.check()


@pytest.mark.parametrize(("project", "dataset"), [("", "d"), ("p q", "d"), ("p", ""), ("p", "a-b"), ("p", "a.b`")])
def test_names_that_bigquery_does_not_take_are_refused(project, dataset):
    with pytest.raises(InvalidSettingError, match="is no"):
        BigQueryWarehouse(project, dataset)


def test_a_server_that_is_away_is_told(monkeypatch):
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", "http://127.0.0.1:1")
    monkeypatch.setattr(warehouse_module, "_CHECK_S", 0.2)
    with pytest.raises(InvalidSettingError, match="bigquery://lab/crowd cannot be used"):
        BigQueryWarehouse("lab", "crowd").check()


def test_no_credential_is_in_an_error_a_log_or_a_request(place, tmp_path, monkeypatch, caplog):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    secret = key.decode().splitlines()[1]
    account = {"type": "service_account", "project_id": "lab", "private_key_id": "k", "private_key": key.decode()}
    account |= {"client_email": "me@lab.example", "token_uri": "http://127.0.0.1:1/token"}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST")
    monkeypatch.setattr(warehouse_module, "_CHECK_S", 0.2)
    caplog.set_level(logging.DEBUG)
    warehouse = BigQueryWarehouse("lab", "crowd")
    with pytest.raises(InvalidSettingError, match="cannot be used") as refused:
        warehouse.check()
    assert refused.value.__suppress_context__
    assert secret not in f"{refused.value} {warehouse!r} {warehouse} {caplog.text}"
    (tmp_path / "account.json").write_text(json.dumps(account | {"private_key": f"not a key, {secret}"}))
    with pytest.raises(InvalidSettingError) as refused:
        warehouse.check()
    assert secret not in f"{refused.value} {caplog.text}"


def test_the_command_loads_into_both_and_says_so(place, request, tmp_path, nights, capsys):
    lake = InIceberg(tmp_path, request)
    to = ["--to", place.address, "--to", lake.address, "--json"]
    for status in ("loaded", "there already"):
        assert main(["load", nights[0].path, *to]) == 0
        told = json.loads(capsys.readouterr().out)["warehouses"]
        assert [(one["to"], one["status"]) for one in told] == [(place.address, status), (lake.address, status)]
    assert place.rows("scores") == lake.rows("scores") == after_first(nights[0])["scores"]


def test_a_job_that_failed_because_another_loader_was_quicker_is_no_failure():
    class Failed:
        def result(self):
            raise BadRequest("a row of this run is there already")

    assert bigquery_jobs.run_job(None, "load", "EU", lambda _: Failed(), lambda: True) is False
    with pytest.raises(bigquery_jobs.JobFailedError, match="there already"):
        bigquery_jobs.run_job(None, "load", "EU", lambda _: Failed(), lambda: False)
