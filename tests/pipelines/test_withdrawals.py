"""A record with the op delete withdraws a label: in every format, by every method, in windows, all of it counted."""

import json

import apache_beam as beam
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from command_line import crowd_rows, run_command
from oracle import checksum
from source_files import avro_bytes, csv_bytes, jsonl_bytes, parquet_bytes

from pipelines.aggregate import AggregateLabels
from pipelines.commands.gate_options import NO_USABLE_LABEL
from pipelines.sources import jsonl

NAMES = ("task", "worker", "label", "time", "op")
CROWD = crowd_rows()
GIVEN = [(*row, str(at), "label" if at % 2 else "") for at, row in enumerate(CROWD)]
FIRST, LAST = CROWD[0][0], CROWD[-1][0]
GONE = [number for number, (task, *_) in enumerate(CROWD) if task == FIRST]
AGAIN = next(number for number, (task, *_) in enumerate(CROWD) if task == LAST)
TASK, WORKER, SAID = CROWD[AGAIN]
EVENTS = [
    *((*CROWD[number][:2], "", "5000", "delete") for number in GONE),  # every label of the first task
    (*CROWD[0][:2], "c0", "4000", ""),  # read later and older: withdrawn, too
    *GIVEN,
    (TASK, WORKER, "", "5001", "delete"),
    (TASK, WORKER, SAID, "5002", "label"),  # given again
    ("never", "w0", "", "1", "delete"),  # nothing to withdraw
]
LEFT = [row for number, row in enumerate(CROWD) if number not in GONE]
N_WITHDRAWN = 2 * len(GONE) + 1 + 2 + 1
TABLES = ("scores", "skills", "edges", "graph")


def avro(rows, names=NAMES):
    types = {name: ["null", "string"] for name in names}
    return avro_bytes([[value or None for value in row] for row in rows], names, types=types)


def sparse_jsonl(rows, names=NAMES):
    """Objects with an op only where it says something."""
    return "".join(
        json.dumps({name: value for name, value in zip(names, row, strict=True) if name != "op" or value}) + "\n"
        for row in rows
    ).encode()


WRITERS = {
    "events.parquet": parquet_bytes,
    "events.avro": avro,
    "events.csv": csv_bytes,
    "events.tsv": lambda rows, names: csv_bytes(rows, names, delimiter="\t"),
    "events.jsonl": jsonl_bytes,
    "sparse.jsonl": sparse_jsonl,
}
METHODS = ("pgd", "majority", "dawid-skene")


def aggregate(path, *options):
    output = path.parent / f"run-{path.name}-{len(options)}"
    run = run_command("aggregate", path, "--output", output, *options, folder=output)
    assert run.code == 0, run.err
    return run


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Runs on the labels that are left, as if nothing else had been there, by method."""
    path = tmp_path_factory.mktemp("left") / "left.csv"
    path.write_bytes(csv_bytes(LEFT))
    runs = {}
    for method in METHODS:
        output = path.parent / method
        runs[method] = run_command("aggregate", path, "--output", output, "--method", method, folder=output)
    return runs


def same_as(run, reference):
    """Whether the tables are the same, but for the labels that a task received."""
    for name in TABLES[1:]:
        assert checksum(run.folder, name) == checksum(reference.folder, name), name
    found, expected = ([{**row, "n_labels": 0} for row in one.rows("scores")] for one in (run, reference))
    assert sorted(found, key=lambda row: row["task"]) == sorted(expected, key=lambda row: row["task"])


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_what_the_labels_that_are_left_give(tmp_path, without, name):
    (tmp_path / name).write_bytes(WRITERS[name](EVENTS, NAMES))
    run = aggregate(tmp_path / name)
    same_as(run, without["pgd"])
    counts = run.manifest["counts"]
    assert counts["labels_read"] == len(EVENTS)
    assert (counts["labels_used"], counts["labels_withdrawn"], counts["labels_repeated"]) == (len(LEFT), N_WITHDRAWN, 0)
    assert counts["tasks"] == len({task for task, *_ in LEFT})
    assert run.column("scores", "task", "n_labels")[LAST] == sum(task == LAST for task, *_ in CROWD) + 1
    assert FIRST not in run.column("scores", "task", "n_labels")
    assert f"withdrawn{N_WITHDRAWN}" in run.out.replace(" ", "")
    assert "withdrawn" not in without["pgd"].out


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_what_the_labels_that_are_left_give(tmp_path, without, method):
    (tmp_path / "events.csv").write_bytes(csv_bytes(EVENTS, NAMES))
    same_as(aggregate(tmp_path / "events.csv", "--method", method, "--shards", "7"), without[method])


def test_in_json_lines_the_first_op_may_come_after_the_beginning_that_is_looked_at(tmp_path, monkeypatch, without):
    monkeypatch.setattr(jsonl, "_PEEK_BYTES", 64)
    rows = sorted(EVENTS, key=lambda row: (row[4] == "delete", int(row[3])))
    (tmp_path / "late.jsonl").write_bytes(
        sparse_jsonl([(*row[:4], row[4] if row[4] == "delete" else "") for row in rows])
    )
    same_as(aggregate(tmp_path / "late.jsonl"), without["pgd"])


def test_the_column_may_have_another_name_and_unknown_ops_are_rejected(tmp_path, without):
    names = (*NAMES[:4], "action")
    rows = [*EVENTS, ("t", "w", "c0", "1", "undo")]
    (tmp_path / "events.csv").write_bytes(csv_bytes(rows, names))
    run = aggregate(tmp_path / "events.csv", "--columns", "op=action")
    same_as(run, without["pgd"])
    assert run.manifest["counts"]["labels_rejected.unknown-op"] == 1
    assert [json.loads(row["record"])["op"] for row in run.rows("rejects")] == ["undo"]
    missing = run_command("aggregate", tmp_path / "events.csv", "--output", tmp_path / "no", "--columns", "op=undone")
    assert (missing.code, "has no column 'undone'" in missing.err) == (2, True)


@pytest.mark.parametrize("method", METHODS)
def test_withdrawals_alone_give_no_answers_as_if_there_were_no_labels(tmp_path, method):
    (tmp_path / "events.csv").write_bytes(csv_bytes([("t", "w", "", "1", "delete"), ("t", "w", "x", "0", "")], NAMES))
    output = tmp_path / "run"
    run = run_command("aggregate", tmp_path / "events.csv", "--output", output, "--method", method, folder=output)
    assert (run.code, "among 2; 2 were withdrawn" in run.err) == (NO_USABLE_LABEL, True)
    assert (run.rows("scores"), run.manifest["counts"]["labels_withdrawn"]) == ([], 2)
    assert "There was no usable label" in run.out


def test_gold_of_a_task_whose_labels_were_withdrawn_is_unmatched(tmp_path):
    (tmp_path / "events.csv").write_bytes(csv_bytes(EVENTS, NAMES))
    (tmp_path / "gold.csv").write_bytes(csv_bytes([(FIRST, "c0"), (LAST, "c0")], ("task", "label")))
    counts = aggregate(tmp_path / "events.csv", "--gold", tmp_path / "gold.csv").manifest["counts"]
    assert (counts["gold_used"], counts["gold_unmatched"], counts["scores.gold"]) == (2, 1, 1)


def test_evaluate_and_compare_leave_out_what_was_withdrawn(tmp_path):
    (tmp_path / "events.csv").write_bytes(csv_bytes(EVENTS, NAMES))
    (tmp_path / "truth.csv").write_bytes(csv_bytes(sorted({(task, "c0") for task, *_ in CROWD}), ("task", "label")))
    (tmp_path / "left.csv").write_bytes(csv_bytes(LEFT))
    told = []
    for name in ("events.csv", "left.csv"):
        run = aggregate(tmp_path / name)
        found = run_command("evaluate", run.folder, "--truth", tmp_path / "truth.csv")
        told.append([line for line in found.out.splitlines() if "majority" in line])
    assert told[0] == told[1] != []
    compared = run_command(
        "compare", tmp_path / "events.csv", "--truth", tmp_path / "truth.csv", "--methods", "majority"
    )
    assert "labels withdrawn" in compared.out
    (tmp_path / "gone.csv").write_bytes(csv_bytes([("t", "w", "", "1", "delete")], NAMES))
    nothing = run_command("compare", tmp_path / "gone.csv", "--truth", tmp_path / "truth.csv", "--methods", "majority")
    assert (nothing.code, "There was no usable label" in nothing.err) == (NO_USABLE_LABEL, True)


def test_a_withdrawal_acts_within_its_window():
    rows = [("t", "ann", "x", None), ("t", "bob", "x", None), ("t", "ann", None, "delete")]
    hours = [(hour, row) for hour, taken in ((0, rows), (1, rows[:2]), (2, rows[2:])) for row in taken]
    stamped = [
        TimestampedValue(dict(zip(("task", "worker", "label", "op"), row, strict=True)), 3600 * hour + 5)
        for hour, row in hours
    ]
    with TestPipeline("FnApiRunner") as pipeline:
        labels = pipeline | beam.Create(stamped) | beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(3600))
        found = labels | AggregateLabels()
        scores = found["scores"] | beam.Map(lambda row: (row.task, row.n_workers, row.n_labels))
        assert_that(scores, equal_to([("t", 1, 2), ("t", 2, 2)]), label="Scores")
        counts = found["counts"] | beam.Map(
            lambda counts: (counts["labels_read"], counts["labels_used"], counts.get("labels_withdrawn", 0))
        )
        assert_that(counts, equal_to([(3, 1, 2), (2, 2, 0), (1, 0, 1)]), label="Counts")
