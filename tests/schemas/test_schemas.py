import io
import json
import pickle
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

import schemas

FROZEN = Path(__file__).parent / "v1"
EXAMPLES = {
    "label": {"task": "t", "worker": "w", "label": "yes", "submitted_at_us": 5, "op": None},
    "gold": {"task": "t", "label": "yes"},
    "edge": {"worker_a": "a", "worker_b": "b", "n_common": 3, "n_agree": 2},
    "skill": {
        "worker": "w", "skill": 0.5, "skill_low": 0.4, "skill_high": 0.6, "accuracy": 0.75,
        "n_labels": 9, "n_peers": 2, "component": 0, "status": "ok",
    },
    "score": {
        "task": "t", "label": "yes", "probability": 0.9, "margin": 2.0, "score": 2.2, "n_labels": 3,
        "n_workers": 3, "status": "ok", "model": "one-coin", "probabilities": {"yes": 0.9, "no": 0.1},
    },
    "graph": {
        "component": 0, "n_workers": 3, "n_edges": 3, "n_labels": 9, "bipartite": False, "has_gold": False,
        "identified": True, "sigma_min": 1.5, "verdict": "v", "fix": "", "example_worker": "w",
    },
    "reject": {"record": "{}", "reason": "missing-task", "detail": "d", "source": "f", "position": 7},
    "loaded": {"run_id": "r", "version": 7},
    "loaded_run": {
        "run_id": "r", "ledger": "l", "version": 7, "whole": False, "labels_read": 10, "labels_used": 7,
        "labels_repeated": 2, "labels_rejected": 1, "labels_withdrawn": 0, "scores": 3, "skills": 2, "edges": 1,
        "rejects": 1, "started_at_us": 1, "finished_at_us": 2, "loaded_at_us": 3,
    },
    "revision": {"model_version": 3, "revision": 4, "closed": True},
    "manifest": {
        "format_version": 1, "run_id": "r", "started_at_us": 1, "finished_at_us": 2,
        "inputs": [{"path": "p", "role": "labels", "format": "csv", "size_bytes": 1, "checksum": "c"}],
        "settings": {"a": "b"}, "versions": {"a": "b"}, "counts": {"a": 1}, "classes": ["no", "yes"],
        "fit": {"a": "b"}, "timings_s": {"a": 0.5},
        "outputs": [{"path": "p", "size_bytes": 1, "rows": 1}], "gates": [],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", schemas.NAMES)
def test_a_file_written_under_version_1_reads_under_the_current_schema(name):
    frozen = json.loads((FROZEN / f"{name}.avsc").read_text("utf-8"))
    file = io.BytesIO()
    fastavro.writer(file, frozen, [EXAMPLES[name]])
    file.seek(0)
    (record,) = fastavro.reader(file, reader_schema=schemas.avro_schema(name))
    assert {key: record[key] for key in EXAMPLES[name]} == EXAMPLES[name]


def test_every_schema_file_has_a_name_and_a_frozen_copy():
    files = {path.stem for path in schemas.FOLDER.glob("*.avsc")}
    assert files == set(schemas.NAMES) == {path.stem for path in FROZEN.glob("*.avsc")}


@pytest.mark.parametrize("name", schemas.NAMES)
def test_every_published_version_is_in_the_package_unchanged(name):
    frozen = json.loads((FROZEN / f"{name}.avsc").read_text("utf-8"))
    fields = [field["name"] for field in frozen["fields"]]
    same = [version for version in schemas.avro_versions(name) if [f["name"] for f in version["fields"]] == fields]
    assert len(same) == 1
    if same[0] is not schemas.avro_schema(name):
        assert same == [frozen]


@pytest.mark.parametrize("name", schemas.NAMES)
def test_every_field_is_documented(name):
    def documented(schema):
        for field in schema["fields"]:
            assert len(field["doc"]) > 3, field["name"]
            inner = field["type"]
            if isinstance(inner, dict) and isinstance(inner.get("items"), dict):
                documented(inner["items"])

    assert schemas.avro_schema(name)["doc"]
    documented(schemas.avro_schema(name))


@pytest.mark.parametrize("name", schemas.NAMES)
def test_arrow_schema_and_row_type_have_the_fields_of_the_avro_schema(name):
    fields = [field["name"] for field in schemas.avro_schema(name)["fields"]]
    assert schemas.arrow_schema(name).names == fields
    assert list(schemas.row_type(name)._fields) == fields


@pytest.mark.parametrize("name", schemas.NAMES)
def test_an_avro_record_goes_through_arrow_and_the_row_type_unchanged(name):
    table = pa.Table.from_pylist([EXAMPLES[name]], schema=schemas.arrow_schema(name))
    (row,) = table.to_pylist(maps_as_pydicts="strict")
    assert schemas.row_type(name)(**row)._asdict() == EXAMPLES[name]


@pytest.mark.parametrize("name", ["label", "gold", *schemas.TABLES.values()])
def test_a_row_of_labels_gold_or_a_table_goes_to_another_process(name):
    row = schemas.row_type(name)(**EXAMPLES[name])
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 - ours


def test_only_fields_that_may_be_null_are_nullable():
    assert [field.name for field in schemas.arrow_schema("score") if field.nullable] == ["probabilities"]
    assert schemas.Score(*["x"] * 9).probabilities is None


def test_an_unknown_schema_is_named_in_the_error():
    with pytest.raises(KeyError, match="no schema is called 'labels'"):
        schemas.avro_schema("labels")
