"""docs/run-folder.md says what the code does: its tables are those of the schemas, the statuses and the reasons."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import schemas
from crowdcore.options import REPEATS
from pipelines.answers import STATUSES
from pipelines.batch import run
from pipelines.records import REASONS
from pipelines.run_folder import FORMAT_VERSION, MANIFEST, STAGING
from pipelines.settings import BatchSettings
from pipelines.texts import MAX_BYTES, texts_of
from schemas import TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "run-folder.md").read_text("utf-8")


def table_after(heading):
    """The rows of the first table after `heading`, each a list of cells."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_every_table_is_on_the_page(table):
    listed = [name for row in table_after(f"**{table}**") for name in names_in(row[0])]
    assert sorted(listed) == sorted(schemas.arrow_schema(TABLES[table]).names)
    assert f"schemas/{TABLES[table]}.avsc" in PAGE


def test_every_field_of_the_manifest_is_on_the_page():
    listed = [name for row in table_after("## The manifest") for name in names_in(row[0])]
    assert sorted(listed) == sorted(schemas.arrow_schema("manifest").names)
    assert f"of this layout: {FORMAT_VERSION}" in PAGE


def test_every_count_is_on_the_page(tmp_path):
    labels, gold = tmp_path / "labels.csv", tmp_path / "gold.csv"
    labels.write_text("task,worker,label\nt,ann,x\nt,bob,y\nt,,x\n", "utf-8")
    gold.write_text("task,label\nt,x\nu,x\n", "utf-8")
    counts = run(BatchSettings((str(labels),), str(tmp_path / "run"), gold=(str(gold),))).manifest["counts"]
    listed = {name for row in table_after("| count | of |") for name in names_in(row[0])}
    assert {name for name in counts if "." not in name} == listed - {"scores.STATUS"}


def test_every_reason_is_on_the_page_once_with_a_meaning_and_a_remedy():
    rows = table_after("## Reasons of rejects")
    assert sorted(names_in(row[0])[0] for row in rows) == sorted(REASONS)
    assert all(meaning and remedy for _, meaning, remedy in rows)
    assert f"{MAX_BYTES:,} bytes" in PAGE


def test_every_status_is_on_the_page():
    listed = [names_in(row[0])[0] for row in table_after("## Status of a score")]
    assert listed == list(reversed(STATUSES))
    documented = next(field["doc"] for field in schemas.avro_schema("skill")["fields"] if field["name"] == "status")
    listed = [names_in(row[0])[0] for row in table_after("## Status of a skill")]
    assert listed == [re.match(r"\s*([a-z]+)", part).group(1) for part in documented.split(";")]


def test_names_of_files_and_rules_are_on_the_page():
    for name in (*(f"{table}/" for table in TABLES), MANIFEST, STAGING, *(f"`{rule}`" for rule in REPEATS[1:])):
        assert name in PAGE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(7), "7"),
        (pa.scalar(1.0), "1"),
        (pa.scalar(0.50), "0.5"),
        (pa.scalar(True), "true"),
        (pa.array(["2024-01-02"]).cast(pa.date32())[0], "2024-01-02"),
        (pa.array(["2024-01-02T03:04:05.5"]).cast(pa.timestamp("us"))[0], "2024-01-02 03:04:05.5"),
        (pa.array(["2024-01-02T03:04:05Z"]).cast(pa.timestamp("us", "UTC"))[0], "2024-01-02 03:04:05Z"),
        (pa.scalar({"a": 1}), '{"a": 1}'),
    ],
)
def test_the_examples_of_texts_are_true(value, text):
    assert f"`{text}`" in PAGE[PAGE.index("## How values become texts") :]
    assert texts_of(pa.array([value.as_py()], value.type))[0].to_pylist() == [text]
