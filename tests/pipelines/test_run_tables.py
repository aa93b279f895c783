"""Tables of a finished run are the same, with the types of their schemas, whatever format they were written in."""

import json

import pytest
from command_line import crowd_rows, run_command, write_rows

import schemas
from pipelines.errors import InputError
from pipelines.run_tables import read_manifest, read_table
from schemas import TABLES

STRANGE = ['comma, "quote"', "line\nbreak", "日本語 🙂", " blanks "]
RECORDS = {"scores": "score", "skills": "skill", "edges": "edge", "graph": "graph", "rejects": "reject"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    names = dict(zip(("w0", "w1", "w2", "w3"), STRANGE, strict=True))
    rows = [(task, names.get(worker, worker), label) for task, worker, label in crowd_rows()]
    rows += [(f"t{n}{name}", name, "c0") for n, name in enumerate(STRANGE)] + [
        ("t1", "alone", ""),
        ("solo", "solo", "c0"),
    ]
    labels = write_rows(folder / "labels.csv", ("task", "worker", "label"), rows)
    for kind in ("parquet", "avro", "csv", "jsonl"):
        words = ("--output-format", kind, "--probabilities", "--shards", "2")
        assert run_command("aggregate", labels, "--output", folder / kind, *words).code == 0
    return folder


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_every_format_gives_the_same_table(name, kind, runs):
    table = read_table(str(runs / kind), name)
    assert table.schema == schemas.arrow_schema(RECORDS[name])
    assert table.num_rows
    assert table.equals(read_table(str(runs / "parquet"), name))


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_only_the_columns_asked_for_are_read(kind, runs):
    table = read_table(str(runs / kind), "skills", ["skill", "worker"])
    assert table.column_names == ["skill", "worker"]
    assert set(STRANGE) <= set(table.column("worker").to_pylist())


def test_a_folder_without_a_manifest_holds_no_run(tmp_path):
    with pytest.raises(InputError, match=r"holds no finished run: there is no manifest\.json in it"):
        read_manifest(str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"format_version": 99})])
def test_a_manifest_that_is_none_is_refused(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="manifest"):
        read_manifest(str(tmp_path))


def test_a_damaged_table_is_refused_with_its_name(runs, tmp_path):
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "part-00000.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"part-00000\.parquet cannot be read"):
        read_table(str(tmp_path), "skills")
