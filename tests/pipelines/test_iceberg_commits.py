"""Changes of Iceberg tables: which files they read and write."""

from pathlib import Path

from lake_places import InIceberg
from warehouse_runs import edge, first_night, score, write_run

from pipelines.sinks.warehouses import warehouse_of


def test_a_night_without_changed_tasks_opens_no_file_of_scores(tmp_path, request):
    place = InIceberg(tmp_path, request)
    warehouse = warehouse_of(place.address)
    warehouse.load(first_night(tmp_path / "first"))
    with place.catalog() as catalog:
        files = [
            Path(one.file.file_path.removeprefix("file://"))
            for one in catalog.load_table("crowd.scores").scan().plan_files()
        ]
    assert files
    kept = {path: path.read_bytes() for path in files}
    before = place.rows("scores")
    for path in files:
        path.unlink()
    assert warehouse.load(write_run(tmp_path / "second", "night-2", 2, whole=False, edges=[[edge("ann", "bob", 9, 9)]]))
    for path, data in kept.items():
        path.write_bytes(data)
    assert place.rows("scores") == before
    assert {row["n_common"] for row in place.rows("edges")} == {9, 3}
    assert warehouse.load(write_run(tmp_path / "third", "night-3", 3, whole=False, scores=[[score("t1", "no")]]))
    assert {row["task"]: row["label"] for row in place.rows("scores")} == {"t1": "no", "t2": "no", "t3": "yes"}
