import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command_line import run_command, write_rows
from warehouse_tables import crowd_table, iceberg_catalog, write_duckdb, write_iceberg, write_postgres

from pipelines.inputs import plan_inputs
from pipelines.settings import BatchSettings
from pipelines.sources.warehouse_inputs import fetch

TABLES = ("scores", "skills", "edges", "graph")
FIELDS = ("task", "worker", "label", "time")


@pytest.fixture(scope="module")
def crowd():
    return crowd_table()


@pytest.fixture(scope="module")
def from_parquet(crowd, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    pq.write_table(crowd, folder / "labels.parquet")
    return aggregated(folder / "labels.parquet", folder / "run")


def aggregated(source, folder, *options):
    run = run_command("aggregate", source, "--output", folder, "--quiet", *options, folder=folder)
    assert run.code == 0, run.err
    return run


def contents(run):
    return {(table, name): (run.folder / table / name).read_bytes() for table in TABLES for name in run.files(table)}


def all_of(names):
    """Every column of the label's fields that there is."""
    return [(name, name) for name in FIELDS if name in names]


def test_a_table_of_duckdb_gives_the_bytes_that_a_file_gives(crowd, from_parquet, tmp_path):
    address = write_duckdb(tmp_path / "crowd.duckdb", crowd) + "?table=labels"
    run = aggregated(address, tmp_path / "run")
    assert contents(run) == contents(from_parquet)
    (told,) = run.manifest["inputs"]
    assert (told["path"], told["format"], told["role"]) == (address, "duckdb", "labels")
    assert told["checksum"].startswith(f"rows:{20_000:016x}")
    assert 0 < told["size_bytes"] < 2_000_000
    assert run.files("") == ["edges", "graph", "manifest.json", "rejects", "scores", "skills"]


def test_a_table_of_postgres_gives_the_bytes_that_a_file_gives(crowd, from_parquet, tmp_path, postgres):
    write_postgres(postgres.dsn, crowd, "labels", ["text", "varchar", "text", "timestamp", "text"])
    address = f"{postgres.dsn}?table=public.labels"
    run = aggregated(address, tmp_path / "run")
    assert contents(run) == contents(from_parquet)
    assert (run.manifest["inputs"][0]["path"], run.manifest["inputs"][0]["format"]) == (address, "postgres")


def test_a_table_of_iceberg_gives_the_bytes_that_a_file_gives(crowd, from_parquet, tmp_path, monkeypatch):
    with iceberg_catalog(tmp_path, monkeypatch) as catalog:
        address = write_iceberg(catalog, crowd)
        run = aggregated(address, tmp_path / "run")
    assert contents(run) == contents(from_parquet)
    assert (run.manifest["inputs"][0]["path"], run.manifest["inputs"][0]["format"]) == (address, "iceberg")


def test_the_same_rows_have_one_checksum_everywhere_and_in_any_order(crowd, tmp_path, postgres, monkeypatch):
    write_postgres(postgres.dsn, crowd, "labels", ["text", "text", "text", "timestamp", "text"])
    backwards = crowd.take(pa.array(range(crowd.num_rows)[::-1]))
    addresses = [
        write_duckdb(tmp_path / "a.duckdb", crowd) + "?table=labels",
        write_duckdb(tmp_path / "b.duckdb", backwards) + "?table=main.labels",
        f"{postgres.dsn}?table=labels",
    ]
    with iceberg_catalog(tmp_path, monkeypatch) as catalog:
        addresses.append(write_iceberg(catalog, backwards, appends=2))
        found = [fetch(address, str(tmp_path / "in"), all_of) for address in addresses]
    assert len({one.checksum for one in found}) == 1
    assert len({one.path for one in found}) == 4
    (tmp_path / "less.sql").write_text("SELECT * REPLACE (if(task = 't00007', 't00008', task) AS task) FROM labels")
    changed = fetch(f"duckdb://{tmp_path}/a.duckdb?query={tmp_path}/less.sql", str(tmp_path / "in"), all_of)
    assert changed.rows == 20_000
    assert changed.checksum != found[0].checksum


def test_values_that_change_places_in_a_row_change_the_checksum(tmp_path):
    sums = set()
    for number, (task, worker) in enumerate([("a", "b"), ("b", "a"), ("ab", "")]):
        table = pa.table({"task": [task], "worker": [worker], "label": ["x"]})
        address = write_duckdb(tmp_path / f"{number}.duckdb", table)
        sums.add(fetch(f"{address}?table=labels", str(tmp_path), all_of).checksum)
    assert len(sums) == 3


def test_only_the_columns_that_are_read_are_fetched(crowd, tmp_path):
    address = write_duckdb(tmp_path / "crowd.duckdb", crowd) + "?table=labels"
    plan = plan_inputs(BatchSettings((address,), "run"), str(tmp_path / "in"))
    assert pq.read_schema(plan.files[0].path).names == ["task", "worker", "label", "time"]
    assert plan.n_labels == 20_000


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_query_decides_by_its_order_between_labels_without_times(kind, tmp_path, request):
    rows = 30_000
    table = pa.table(
        {
            "item": [f"t{place // 2}" for place in range(rows)],
            "who": ["ann"] * rows,
            "answer": ["first", "second"] * (rows // 2),
            "place": pa.array(range(rows), pa.int64()),
        }
    )
    if kind == "duckdb":
        address = write_duckdb(tmp_path / "crowd.duckdb", table)
    else:
        address = write_postgres(
            request.getfixturevalue("postgres").dsn, table, "labels", ["text", "text", "text", "int8"]
        )
    found = {}
    for order in ("ASC", "DESC"):
        (tmp_path / f"{order}.sql").write_text(
            f"-- the labels of the night\nSELECT item AS task, who AS worker, answer AS label FROM labels\n"
            f"WHERE 100 % 7 = 2 ORDER BY place {order} -- newest last\n;\n"
        )
        run = aggregated(f"{address}?query={tmp_path}/{order}.sql", tmp_path / order)
        found[order] = run.column("scores", "task", "label")
    assert set(found["ASC"].values()) == {"second"}
    assert set(found["DESC"].values()) == {"first"}
    assert len(found["ASC"]) == rows // 2


def test_an_iceberg_filter_chooses_rows(crowd, tmp_path, monkeypatch):
    with iceberg_catalog(tmp_path, monkeypatch) as catalog:
        address = write_iceberg(catalog, crowd) + "?filter=worker != 'w07' and label in ('c0', 'c1')"
        found = fetch(address, str(tmp_path / "in"), all_of)
    wanted = pc.and_(pc.not_equal(crowd["worker"], "w07"), pc.not_equal(crowd["label"], "c2"))
    assert found.rows == pc.sum(wanted).as_py()
    assert pq.read_table(found.path).num_rows == found.rows


def test_files_and_warehouses_mix_in_the_order_given(tmp_path):
    def table(label):
        return pa.table({"task": ["t"], "worker": ["ann"], "label": [label]})

    address = write_duckdb(tmp_path / "crowd.duckdb", table("from the warehouse")) + "?table=labels"
    pq.write_table(table("from the file"), tmp_path / "labels.parquet")
    inputs = [tmp_path / "labels.parquet", address, address]
    for number, given in enumerate((inputs, inputs[::-1])):
        run = run_command("aggregate", *given, "--output", tmp_path / str(number), folder=tmp_path / str(number))
        assert [one["path"] for one in run.manifest["inputs"]] == list(dict.fromkeys(map(str, given)))
        last = "from the warehouse" if number == 0 else "from the file"
        assert run.column("scores", "task", "label") == {"t": last}


def test_gold_may_come_from_a_warehouse(crowd, tmp_path):
    address = write_duckdb(tmp_path / "crowd.duckdb", crowd) + "?table=labels"
    gold = pa.table({"task": ["t00000", "t00001"], "label": ["c2", "c2"], "by": ["me", "me"]})
    write_duckdb(tmp_path / "crowd.duckdb", gold, "gold")
    run = aggregated(address, tmp_path / "run", "--gold", f"duckdb://{tmp_path}/crowd.duckdb?table=gold")
    assert [(one["role"], one["format"]) for one in run.manifest["inputs"]] == [
        ("labels", "duckdb"),
        ("gold", "duckdb"),
    ]
    assert run.manifest["counts"]["gold_used"] == 2
    assert {task for task, status in run.column("scores", "task", "status").items() if status == "gold"} == {
        "t00000",
        "t00001",
    }


def test_nulls_are_rejects_that_name_the_address(tmp_path, postgres):
    table = pa.table({"task": ["a", None, "b", "c"], "worker": ["u", "u", None, "v"], "label": ["x", "x", "y", None]})
    write_postgres(postgres.dsn, table, "labels", ["text", "text", "text"])
    for address in (write_duckdb(tmp_path / "x.duckdb", table) + "?table=labels", f"{postgres.dsn}?table=labels"):
        run = aggregated(address, tmp_path / address[:6])
        found = {(row["position"], row["reason"], row["source"]) for row in run.rows("rejects")}
        assert found == {(1, "missing-task", address), (2, "missing-worker", address), (3, "missing-label", address)}
        assert run.manifest["counts"]["labels_used"] == 1


def test_columns_have_the_names_that_the_settings_give(tmp_path):
    table = pa.table({"item id": ["a"], 'wo"rker': ["u"], "Answer": ["x"], "at": [5]})
    address = write_duckdb(tmp_path / "x.duckdb", table, "my labels") + "?table=%22my labels%22"
    columns = 'task=item id,worker=wo"rker,label=Answer,time=at'
    assert aggregated(address, tmp_path / "run", "--columns", columns).column("scores", "task", "label") == {"a": "x"}


def test_a_withdrawal_in_a_table_takes_the_label_back(tmp_path):
    rows = {"task": ["a", "a", "b"], "worker": ["u", "u", "u"], "label": ["x", None, "y"], "time": [1, 2, 3]}
    table = pa.table({**rows, "op": [None, "delete", None]})
    run = aggregated(write_duckdb(tmp_path / "x.duckdb", table) + "?table=labels", tmp_path / "run")
    assert run.manifest["counts"]["labels_used"] == 1
    assert run.manifest["counts"]["labels_rejected"] == 0
    assert run.column("scores", "task", "label")["b"] == "y"


def test_a_finished_run_is_refused_before_anything_is_fetched(tmp_path):
    labels = write_rows(tmp_path / "labels.csv", ["task", "worker", "label"], [["a", "u", "x"]])
    aggregated(labels, tmp_path / "run")
    run = run_command("aggregate", "duckdb:///nowhere.duckdb?table=labels", "--output", tmp_path / "run")
    assert run.code == 2
    assert "holds a finished run" in run.err


def test_memory_does_not_grow_with_the_table(tmp_path):
    path = tmp_path / "large.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE labels AS SELECT 'task-' || (i // 5) AS task, 'w' || (i % 999) AS worker, "
            "repeat('x', 60) || (i % 3) AS label, repeat('y', 200) || i AS time FROM range(2000000) t(i)"
        )
    program = (
        "import re, sys\n"
        "from pipelines.sources.warehouse_inputs import fetch\n"
        "names = ('task', 'worker', 'label', 'time')\n"
        "fetch(sys.argv[1], sys.argv[2], lambda _: [(name, name) for name in names])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, f"duckdb://{path}?table=labels", str(tmp_path / "in")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(told.stdout) < 500_000  # KB, half of them the libraries; the rows are 580 MB
