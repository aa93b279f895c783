"""The closing summary: what happened to the labels, what the graph means, who is good, where the files are."""

import pyarrow as pa
import pytest
from command_line import crowd_rows, run_command, write_rows

import schemas
from pipelines.summary import FEW_LABELS, RunTables, summarise
from pipelines.terminal import WIDTH, Grid, plain

HEADER = ("task", "worker", "label")


def aggregated(folder, rows, *options):
    labels = write_rows(folder / "labels.csv", HEADER, rows)
    return run_command("aggregate", labels, "--output", folder / "run", *options, folder=folder / "run")


def facts(text):
    """{first words: last word} of every line."""
    return {line.rpartition("  ")[0].strip(): line.rpartition("  ")[2].strip() for line in text.splitlines()}


def skill_table(rows):
    schema = schemas.arrow_schema("skill")
    filled = [
        {"skill_low": skill - 0.1, "skill_high": skill + 0.1, "accuracy": (1 + skill) / 2, "n_peers": 2, "component": 0}
        | {"worker": worker, "skill": skill, "n_labels": n_labels, "status": status}
        for worker, skill, n_labels, status in rows
    ]
    return pa.Table.from_pylist(filled, schema=schema)


def test_every_label_is_accounted_for(tmp_path):
    rows = [*crowd_rows(), crowd_rows()[0], ("t", "w", ""), ("t", "", "c0"), ("", "w0", "c0"), ("", "w1", "c0")]
    told = facts(aggregated(tmp_path, rows).out)
    assert told["read"] == "185"
    assert told["used"] == "180"
    assert told["repeats"] == "1"
    assert told["rejected"] == "4"
    assert told["missing-task"] == "2"
    assert told["missing-worker"] == told["missing-label"] == "1"


def test_tasks_workers_classes_and_statuses_are_counted(tmp_path):
    told = facts(aggregated(tmp_path, [*crowd_rows(n_tasks=20), ("alone", "w0", "c0")]).out)
    assert told["tasks"] == "21"
    assert told["workers"] == "9"
    assert told["classes"] == "3 (c0, c1, c2)"
    assert told["status single-label"] == "1"


def test_answers_that_differ_from_majority_vote_are_counted(tmp_path):
    """Two workers who agree with everybody else on a hundred tasks are outvoted once by three who guess."""
    good, bad = ("g1", "g2"), ("b1", "b2", "b3")
    rows = [(f"t{n}", worker, f"c{n % 2}") for n in range(100) for worker in good]
    rows += [(f"t{n}", worker, f"c{(n // 3**place) % 2}") for n in range(100) for place, worker in enumerate(bad)]
    rows += [("last", worker, "c0") for worker in good] + [("last", worker, "c1") for worker in bad]
    run = aggregated(tmp_path, rows)
    majority = {task: sum(label == "c1" for named, _, label in rows if named == task) > 2 for task, _, _ in rows}
    against = sum(label != f"c{majority[task]:d}" for task, label in run.column("scores", "task", "label").items())
    assert against >= 1
    assert facts(run.out)["answers that differ from majority vote"] == f"{against} ({100 * against / 101:.1f} %)"


def test_components_that_are_not_determined_are_told_with_their_fix(tmp_path):
    pairs = [(f"p{n}", worker, "c0") for n in range(4) for worker in ("left", "right")]
    loners = [(f"s{n}", f"solo{n}", "c0") for n in range(4)]
    run = aggregated(tmp_path, [*crowd_rows(), *pairs, *loners])
    text = " ".join(run.out.split())
    assert "6 components; the skills of 9 of 15 workers are determined." in text
    graph = [row for row in run.rows("graph") if not row["identified"]]
    assert all(f"{row['verdict']} {row['fix']}" in text for row in graph[:3])
    assert "2 more are not determined: see the table graph." in text
    assert max(len(line) for line in run.out.splitlines() if str(run.folder) not in line) <= WIDTH


def test_best_and_worst_workers_are_those_with_enough_labels_and_a_determined_skill(tmp_path):
    run = aggregated(tmp_path, crowd_rows())
    ranked = [(f"w{n:02d}", n / 20, 10, "ok") for n in range(12)]
    others = [("few", 0.99, FEW_LABELS - 1, "ok"), ("alone", 0.98, 99, "isolated"), ("loose", -0.9, 99, "unidentified")]
    tables = RunTables(RunTables.of(str(run.folder)).graph, skill_table([*ranked, *others]))
    grids = [block for block in summarise("run", run.manifest, tables) if isinstance(block, Grid)]
    best, worst = ([row[0] for row in grid.rows] for grid in grids)
    assert best == ["w11", "w10", "w09", "w08", "w07"]
    assert worst == ["w04", "w03", "w02", "w01", "w00"]
    assert grids[0].rows[0] == ("w11", "ok", "0.550", "0.450 to 0.650", "0.775", "10")
    assert "90 % interval" in grids[0].header


def test_a_small_crowd_is_shown_whole(tmp_path):
    run = aggregated(tmp_path, crowd_rows())
    assert "Workers, best first" in run.out
    assert "Best workers" not in run.out


def test_gold_is_accounted_for(tmp_path):
    gold = write_rows(tmp_path / "gold.csv", ("task", "label"), [("t00", "c0"), ("nowhere", "c0"), ("t01", "")])
    told = facts(aggregated(tmp_path, crowd_rows(), "--gold", gold).out)
    assert told["gold read"] == "3"
    assert told["gold rejected"] == "1"
    assert told["gold for tasks without labels"] == "1"
    assert told["status gold"] == "1"


@pytest.mark.parametrize("output_format", ["parquet", "avro", "csv", "jsonl"])
def test_the_summary_reads_every_format(output_format, tmp_path):
    run = aggregated(tmp_path, crowd_rows(), "--output-format", output_format)
    assert "9 of 9 workers" in run.out
    assert facts(run.out)["scores/"] == "60 rows"
    assert str(run.folder) in run.out


def test_labels_of_one_class_and_no_labels_are_warned_of(tmp_path):
    rows = [(f"t{n}", f"w{worker}", "c0") for n in range(3) for worker in range(3)]
    assert "All labels are of one class" in aggregated(tmp_path, rows).out
    none = aggregated(tmp_path, [("t", "w", "")], "--overwrite")
    assert "There was no usable label" in none.out


def test_ids_cannot_break_the_summary(tmp_path):
    names = {"w0": "\x1b[31mred", "w1": "line\nbreak", "w2": "[bold]", "w3": "é" * 400, "w4": "🙂" * 200}
    rows = [(task, names.get(worker, worker), label) for task, worker, label in crowd_rows()]
    run = aggregated(tmp_path, rows)
    assert run.code == 0
    assert "\x1b" not in run.out
    assert max(len(line) for line in run.out.splitlines() if str(run.folder) not in line) <= WIDTH
    tables = RunTables.of(str(run.folder))
    assert plain(summarise(str(run.folder), run.manifest, tables)) + "\n" == run.out
