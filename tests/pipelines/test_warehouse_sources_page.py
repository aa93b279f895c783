import re
import shlex
from pathlib import Path

import duckdb
import pytest
from command_line import crowd_rows, run_command, write_rows

from pipelines.errors import InputError
from pipelines.sources.warehouse_addresses import FORMS, is_address, parse_address
from pipelines.streaming.bootstrap import prepare
from pipelines.streaming.control import Control

PAGE = Path(__file__).parents[2] / "docs" / "warehouse-sources.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
COMMANDS = [
    shlex.split(line)
    for kind, text in BLOCKS
    for line in text.splitlines()
    if not kind and line.startswith("crowdbeam ")
]
OF_DUCKDB = [command for command in COMMANDS if command[2].startswith("duckdb:")]


@pytest.fixture
def beside_a_warehouse(tmp_path, monkeypatch):
    """A folder with a DuckDB file and the query of the page."""
    rows = [(*row, f"2026-02-{1 + place % 28:02d}") for place, row in enumerate(crowd_rows())]
    write_rows(tmp_path / "labels.csv", ["task", "worker", "label", "time"], rows)
    with duckdb.connect(str(tmp_path / "crowd.duckdb")) as connection:
        connection.execute(f"CREATE TABLE labels AS FROM read_csv('{tmp_path}/labels.csv')")
        connection.execute(
            "CREATE TABLE answers AS SELECT task item_id, worker who, label answer, time answered_at FROM labels"
        )
    (query,) = [text for kind, text in BLOCKS if kind == "sql"]
    (tmp_path / "labels.sql").write_text(query)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", OF_DUCKDB, ids=[command[-1] for command in OF_DUCKDB])
def test_the_commands_for_duckdb_run_as_they_stand(command, beside_a_warehouse):
    run = run_command(*command[1:], folder=beside_a_warehouse / command[-1])
    assert run.code == 0, run.err
    assert run.manifest["counts"]["labels_used"] == 180
    assert run.manifest["inputs"][0]["path"] == command[2]


def test_every_address_on_the_page_can_be_read():
    addresses = [word for command in COMMANDS for word in command if is_address(word)]
    assert {parse_address(address).kind for address in addresses} == {"duckdb", "postgres", "iceberg", "bigquery"}
    assert len(addresses) == len(COMMANDS) == 9


def test_the_page_tells_every_form():
    page = PAGE.read_text("utf-8")
    assert all(form in page for name, form in FORMS.items() if name != "postgres")


def test_comparing_reads_warehouses_too_and_others_say_why_not(beside_a_warehouse):
    truth = write_rows("truth.csv", ["task", "label"], [[f"t{task:02d}", "c0"] for task in range(60)])
    address = "duckdb:crowd.duckdb?table=labels"
    done = run_command("compare", address, "--truth", truth, "--methods", "majority")
    assert done.code == 0, done.err
    assert run_command("aggregate", address, "--output", "run", "--quiet").code == 0
    told = run_command("evaluate", "run", "--truth", truth)
    assert told.code == 0, told.err
    assert "which is in a warehouse and may have changed since" in " ".join(told.out.split())
    with pytest.raises(InputError, match=r"is in a warehouse and may have changed since. Write its rows to a file"):
        prepare("run", Control("control"), 1)
