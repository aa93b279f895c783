"""Labels from BigQuery, by the real client; the service is a stand-in on loopback."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from bigquery_rows_stand_in import BigQueryRowsStandIn
from command_line import run_command
from warehouse_tables import crowd_table

from pipelines.inputs import plan_inputs
from pipelines.settings import BatchSettings
from pipelines.sources.formats import chunks_of
from pipelines.texts import texts_of


def fields_of(**types):
    return [{"name": name, "type": kind, "mode": "NULLABLE"} for name, kind in types.items()]


def rows_of(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def crowd():
    return crowd_table()


@pytest.fixture
def service(crowd, monkeypatch):
    table = crowd.set_column(3, "time", crowd["time"].cast(pa.int64()))
    fields = fields_of(task="STRING", worker="STRING", label="STRING", time="TIMESTAMP", note="STRING")
    with BigQueryRowsStandIn({("crowd", "labels"): (fields, rows_of(table))}) as running:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", running.host)
        yield running


def aggregated(source, folder):
    run = run_command("aggregate", source, "--output", folder, "--quiet", folder=folder)
    assert run.code == 0, run.err
    return run


def test_a_table_gives_the_bytes_that_a_file_gives(crowd, service, tmp_path):
    pq.write_table(crowd, tmp_path / "labels.parquet")
    runs = [
        aggregated("bigquery://lab/crowd.labels", tmp_path / "a"),
        aggregated(tmp_path / "labels.parquet", tmp_path / "b"),
    ]
    for table in ("scores", "skills", "edges"):
        first, second = ([(run.folder / table / name).read_bytes() for name in run.files(table)] for run in runs)
        assert first == second
    (told,) = runs[0].manifest["inputs"]
    assert (told["path"], told["format"]) == ("bigquery://lab/crowd.labels", "bigquery")
    assert service.queries == []
    assert service.requests.count("/bigquery/v2/projects/lab/datasets/crowd/tables/labels/data") == 3


def test_a_query_keeps_its_order(crowd, service, tmp_path):
    (tmp_path / "labels.sql").write_text("SELECT * FROM lab.crowd.labels ORDER BY task DESC;")
    plan = plan_inputs(BatchSettings((f"bigquery://lab?query={tmp_path}/labels.sql",), "run"), str(tmp_path / "in"))
    found = pq.read_table(plan.files[0].path)
    assert found.column_names == ["task", "worker", "label", "time"]
    assert found["task"].to_pylist() == sorted(crowd["task"].to_pylist(), reverse=True)
    assert service.queries == ["SELECT * FROM lab.crowd.labels ORDER BY task DESC"]


def test_types_become_what_a_file_gives(service, tmp_path):
    kinds = {"INTEGER": (5, "5"), "FLOAT": (1.0, "1"), "BOOLEAN": (True, "true"), "NUMERIC": ("1.50", "1.5")}
    kinds |= {"DATE": ("2024-01-02", "2024-01-02"), "DATETIME": ("2024-01-02T03:04:05", "2024-01-02 03:04:05")}
    kinds |= {"TIMESTAMP": (1704164645120000, "2024-01-02 03:04:05.12Z"), "BYTES": (b"abc", "abc")}
    for kind, (given, text) in kinds.items():
        fields = fields_of(task=kind, worker="STRING", label=kind)
        service.tables["crowd", "typed"] = (fields, [(given, "w", given), (None, "w", None)])
        plan = plan_inputs(BatchSettings(("bigquery://lab/crowd.typed",), "run"), str(tmp_path / kind))
        (chunk,) = [lazy() for part in plan.parts for lazy in chunks_of(part)]
        assert texts_of(chunk.columns["label"])[0].to_pylist() == [text, ""], kind
        assert pc.is_null(chunk.columns["task"]).to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("bigquery://lab/crowd.label", "names the table crowd.label, which is not there. Did you mean crowd.labels?"),
        ("bigquery://lab?query={folder}/labels.sql", "cannot be read: 400"),
    ],
)
def test_what_is_wrong_is_told(address, sentence, service, tmp_path):
    (tmp_path / "labels.sql").write_text("SELECT 1")
    run = run_command("aggregate", address.format(folder=tmp_path), "--output", tmp_path / "run")
    assert run.code == 2
    assert sentence in run.err
    assert not (tmp_path / "run").exists()
