"""`crowdbeam evaluate`: its measures by hand on small runs, what it refuses, what each of its options changes."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import polars as pl
import pytest
from command_line import crowd_rows, run_command, write_rows

from pipelines.arguments import option_table
from pipelines.commands.evaluate import build_parser

HEADER = ("task", "worker", "label")
ROWS = crowd_rows(labels_per_task=2)
TASKS = sorted({task for task, _, _ in ROWS})
CLASSES = ("c0", "c1", "c2")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return aggregated(tmp_path_factory.mktemp("run"), ROWS)


def aggregated(folder, rows, *options, header=HEADER):
    labels = write_rows(folder / "labels.csv", header, rows)
    done = run_command("aggregate", labels, "--output", folder / "run", *options, folder=folder / "run")
    assert done.code == 0, done.err
    return done


def evaluated(run, folder, truth, *options, header=("task", "label")):
    path = write_rows(folder / "truth.csv", header, truth.items() if isinstance(truth, dict) else truth)
    done = run_command("evaluate", run.folder, "--truth", path, "--json", *options)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def half_wrong(answers):
    """A truth in which every second answer is wrong."""
    return {
        task: label if place % 2 else CLASSES[CLASSES.index(label) - 1]
        for place, (task, label) in enumerate(sorted(answers.items()))
    }


def expected_majority_error(rows, truth):
    """By hand: a task counts 1 − 1/leaders if the truth leads, else 1."""
    votes = defaultdict(Counter)
    for task, _, label in rows:
        votes[task][label] += 1
    wrong = []
    for task, label in truth.items():
        leaders = [name for name, n in votes[task].items() if n == max(votes[task].values())]
        wrong.append(1 - 1 / len(leaders) if label in leaders else 1)
    return sum(wrong) / len(wrong)


def test_error_and_the_table_of_classes_are_those_counted_by_hand(run, tmp_path):
    answers = run.column("scores", "task", "label")
    truth = half_wrong(answers)
    found = evaluated(run, tmp_path, truth)
    assert found["error"] == 0.5
    assert found["tasks_compared"] == len(TASKS)
    for row in found["classes"]:
        name = row["label"]
        right = sum(answers[task] == name == truth[task] for task in TASKS)
        answered, support = Counter(answers.values())[name], Counter(truth.values())[name]
        assert row["support"] == support
        assert row["precision"] == pytest.approx(right / answered)
        assert row["recall"] == pytest.approx(right / support)
        assert row["f1"] == pytest.approx(2 * right / (answered + support))


def test_majority_vote_beside_it_is_the_expectation_over_ties(run, tmp_path):
    truth = dict.fromkeys(TASKS, "c1")
    found = evaluated(run, tmp_path, truth)
    assert found["majority_error"] == pytest.approx(expected_majority_error(ROWS, truth))
    assert any(len(set(labels)) > 1 for labels in tied_tasks().values())


def tied_tasks():
    votes = defaultdict(list)
    for task, _, label in ROWS:
        votes[task].append(label)
    return votes


@pytest.mark.parametrize("shards", [1, 5])
def test_majority_vote_follows_the_columns_classes_and_repeats_of_the_run(shards, tmp_path):
    first = [(task, worker, "c1") for task, worker, _ in ROWS[:40]]
    strangers = [(task, "stranger", "c9") for task in TASKS]
    run = aggregated(
        tmp_path, [*first, *ROWS, *strangers], "--columns", "task=item,label=answer", "--repeats", "first",
        "--classes", "c0,c1,c2", "--shards", shards, header=("item", "worker", "answer"),
    )  # fmt: skip
    truth = dict.fromkeys(TASKS, "c1")
    used = [*first, *ROWS[40:]]
    assert evaluated(run, tmp_path, truth)["majority_error"] == pytest.approx(expected_majority_error(used, truth))


def test_log_loss_and_calibration_are_those_of_the_probabilities(tmp_path):
    run = aggregated(tmp_path, ROWS, "--probabilities")
    scores = {row["task"]: row for row in run.rows("scores")}
    truth = half_wrong(run.column("scores", "task", "label"))
    found = evaluated(run, tmp_path, truth)
    losses = [-math.log(scores[task]["probabilities"][label]) for task, label in truth.items()]
    assert found["log_loss_over"] == "classes"
    assert found["log_loss"] == pytest.approx(sum(losses) / len(losses))
    gaps = defaultdict(float)
    for task, label in truth.items():
        gaps[min(int(scores[task]["probability"] * 10), 9)] += (scores[task]["label"] == label) - scores[task][
            "probability"
        ]
    assert found["expected_calibration_error"] == pytest.approx(sum(map(abs, gaps.values())) / len(truth))
    assert [row["n"] > 0 for row in found["calibration"]] == [place in gaps for place in range(10)]


def test_log_loss_of_a_run_without_all_probabilities_is_of_right_or_wrong(run, tmp_path):
    scores = {row["task"]: row for row in run.rows("scores")}
    truth = half_wrong(run.column("scores", "task", "label"))
    found = evaluated(run, tmp_path, truth)
    given = [
        row["probability"] if row["label"] == truth[task] else 1 - row["probability"] for task, row in scores.items()
    ]
    assert found["log_loss_over"] == "answer"
    assert found["log_loss"] == pytest.approx(-sum(map(math.log, given)) / len(given))


def test_tasks_without_truth_and_truth_without_task_are_counted(run, tmp_path):
    truth = {**dict.fromkeys(TASKS[:10], "c0"), "unheard-of": "c0", "": "c0", TASKS[11]: ""}
    found = evaluated(run, tmp_path, truth)
    assert found["tasks_compared"] == 10
    assert found["tasks_without_truth"] == len(TASKS) - 10
    assert found["truth_without_task"] == 1


def test_a_true_class_that_nobody_chose_counts_as_an_error(run, tmp_path):
    truth = dict.fromkeys(TASKS, "never chosen") | {TASKS[0]: run.column("scores", "task", "label")[TASKS[0]]}
    found = evaluated(run, tmp_path, truth)
    assert found["error"] == pytest.approx(1 - 1 / len(TASKS))
    assert found["majority_error"] == pytest.approx(expected_majority_error(ROWS, truth))
    assert [row["support"] for row in found["classes"] if row["label"] == "never chosen"] == [len(TASKS) - 1]


def test_tasks_that_gold_answered_are_left_out(tmp_path):
    gold = write_rows(tmp_path / "gold.csv", ("task", "label"), [(task, "c0") for task in TASKS[:15]])
    run = aggregated(tmp_path, ROWS, "--gold", gold)
    truth = dict.fromkeys(TASKS, "c1")
    found = evaluated(run, tmp_path, truth)
    rest = {task: truth[task] for task in TASKS[15:]}
    assert found["tasks_answered_by_gold"] == 15
    assert found["tasks_compared"] == len(rest)
    assert found["majority_error"] == pytest.approx(expected_majority_error(ROWS, rest))


def test_skills_are_compared_with_the_true_ones(run, tmp_path):
    rows = run.rows("skills")
    true = {row["worker"]: row["skill"] + (0.01 if place % 2 else 3) for place, row in enumerate(rows)}
    skills = write_rows(tmp_path / "skills.csv", ("worker", "skill"), true.items())
    found = evaluated(run, tmp_path, dict.fromkeys(TASKS, "c0"), "--skills", skills)["skills"]
    inside = [row["skill_low"] <= true[row["worker"]] <= row["skill_high"] for row in rows]
    assert found["n_workers"] == len(rows) == 9
    assert found["mean_absolute_error"] == pytest.approx((5 * 3 + 4 * 0.01) / 9)
    assert 0 < sum(inside) < 9
    assert found["coverage"] == pytest.approx(sum(inside) / 9)
    assert found["confidence"] == 0.9


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_runs_of_every_format_give_the_same_evaluation(kind, run, tmp_path):
    truth = half_wrong(run.column("scores", "task", "label"))
    other = aggregated(tmp_path, ROWS, "--output-format", kind)
    found, expected = evaluated(other, tmp_path, truth), evaluated(run, tmp_path, truth)
    assert {**found, "path": ""} == {**expected, "path": ""}


def test_truth_of_numbers_in_parquet_fits_tasks_that_were_texts(tmp_path):
    run = aggregated(tmp_path, [(str(n), f"w{worker}", "1") for n in range(5) for worker in range(3)])
    pl.DataFrame({"task": list(range(5)), "label": [1.0, 1.0, 1.0, 1.0, 0.0]}).write_parquet(tmp_path / "truth.parquet")
    done = run_command("evaluate", run.folder, "--truth", tmp_path / "truth.parquet", "--json")
    assert json.loads(done.out)["error"] == pytest.approx(0.2)


def test_majority_vote_is_unknown_when_the_labels_are_gone_or_changed(tmp_path):
    run = aggregated(tmp_path, ROWS)
    truth = dict.fromkeys(TASKS, "c0")
    labels = tmp_path / "labels.csv"
    labels.write_text(labels.read_text() + "t99,w0,c0\n")
    assert evaluated(run, tmp_path, truth)["majority_error"] is None
    text = run_command("evaluate", run.folder, "--truth", tmp_path / "truth.csv").out
    assert f"Majority vote cannot be worked out: {labels} has changed" in " ".join(text.split())
    labels.unlink()
    text = run_command("evaluate", run.folder, "--truth", tmp_path / "truth.csv").out
    assert f"{labels}, which the run read, is gone." in " ".join(text.split())


def test_a_run_that_names_no_files_as_a_snapshot_of_a_stream_is_compared_without_majority_vote(tmp_path):
    run = aggregated(tmp_path, ROWS)
    manifest = Path(run.folder, "manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "inputs": []}))
    assert evaluated(run, tmp_path, dict.fromkeys(TASKS, "c0"))["majority_error"] is None
    text = run_command("evaluate", run.folder, "--truth", tmp_path / "truth.csv").out
    assert "it was written from a ledger, or is the snapshot of a stream" in " ".join(text.split())


def test_each_option_changes_what_is_said(run, tmp_path):
    truth = write_rows(tmp_path / "truth.csv", ("item", "label"), [(task, "c0") for task in TASKS])
    renamed = write_rows(tmp_path / "renamed.csv", ("task", "label"), [(task, "c1") for task in TASKS])
    skills = write_rows(tmp_path / "skills.csv", ("worker", "skill"), [("w0", 0.5)])
    words = {
        "--truth": ("--truth", renamed),
        "--columns": ("--truth", truth, "--columns", "task=item"),
        "--skills": ("--truth", renamed, "--skills", skills),
        "--json": ("--truth", renamed, "--json"),
    }
    assert option_table(build_parser()).keys() - {"-h", "--help"} == words.keys()
    without_columns = run_command("evaluate", run.folder, "--truth", truth)
    assert without_columns.code == 2
    assert "Name it with --columns task=COLUMN" in without_columns.err
    told = [run_command("evaluate", run.folder, *options) for options in words.values()]
    assert [one.code for one in told] == [0] * 4
    assert len({one.out for one in told}) == 4
    assert "Skills against the true ones" in told[2].out


def test_tables_are_for_people(run, tmp_path):
    truth = write_rows(
        tmp_path / "truth.csv", ("task", "label"), half_wrong(run.column("scores", "task", "label")).items()
    )
    out = run_command("evaluate", run.folder, "--truth", truth).out
    assert "error of the answers           50.00 %" in out
    assert all(word in out for word in ("majority vote", "precision", "recall", "support", "Calibration"))


@pytest.mark.parametrize(
    ("header", "rows", "sentence"),
    [
        (("task", "label"), [], "holds no data."),
        (("task", "label"), [("x", "c0")], "has none of the 60 tasks of the run"),
        (
            ("task", "label"),
            [("t00", "c0"), ("t00", "c1")],
            "gives the task 't00' several answers; give each task one.",
        ),
        (
            ("task", "labels"),
            [("t00", "c0")],
            "has no column 'label'; it has 'task', 'labels'. Name it with --columns label=lab",
        ),
        (("task", "label"), [("t00", "c0", "more")], "has a record that cannot be read: The line has 3 values"),
    ],
)
def test_a_truth_that_cannot_be_used_is_refused(header, rows, sentence, run, tmp_path):
    truth = write_rows(tmp_path / "truth.csv", header, rows)
    done = run_command("evaluate", run.folder, "--truth", truth)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("crowdbeam: --truth ")
    assert sentence in done.err


def test_paths_that_lead_nowhere_are_refused(run, tmp_path):
    truth = write_rows(tmp_path / "truth.csv", ("task", "label"), [("t00", "c0")])
    skills = write_rows(tmp_path / "skills.csv", ("worker", "skill"), [("nobody", 1)])
    for words, sentence in [
        ((tmp_path / "nowhere", "--truth", truth), "holds no finished run: there is no manifest.json in it."),
        ((tmp_path, "--truth", truth), "holds no finished run"),
        ((run.folder, "--truth", tmp_path / "nothing.csv"), "names no file"),
        ((run.folder, "--truth", truth, "--columns", "worker=x"), "it takes task=COLUMN and label=COLUMN."),
        ((run.folder, "--truth", truth, "--skills", skills), "--skills has none of the 9 workers"),
        ((run.folder, "--truth", truth, "--skills", truth), "has no column 'worker'"),
        ((run.folder,), "The following arguments are required: --truth."),
    ]:
        done = run_command("evaluate", *words)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


def test_a_truth_whose_classes_have_other_names_is_refused(run, tmp_path):
    path = write_rows(tmp_path / "truth.csv", ("task", "label"), [(task, f"class {task[-1]}") for task in TASKS])
    done = run_command("evaluate", run.folder, "--truth", path)
    assert (done.code, done.out) == (2, "")
    assert "The classes of --truth and of the run" in done.err
    assert "have nothing in common: the truth has 'class 0', 'class 1', 'class 2' and 7 more, the run has" in done.err
