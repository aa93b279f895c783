"""`crowdbeam compare`: its figures by hand on small crowds, what it refuses, what each of its options changes."""

import json
import math
import os
import pty
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import crowd_rows, run_command, write_rows

from crowdcore.labels import group_labels
from crowdcore.methods import METHODS
from pipelines import comparison
from pipelines.arguments import option_table
from pipelines.commands.compare import build_parser
from pipelines.comparison import run_method
from pipelines.method_process import write_crowd

ROWS = crowd_rows(labels_per_task=2)
TASKS = sorted({task for task, _, _ in ROWS})
HEADER = ("task", "worker", "label")
DATA = Path(os.environ.get("CROWDBEAM_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


@pytest.fixture
def files(tmp_path):
    """Labels and a truth in which every task is of class c1."""
    labels = write_rows(tmp_path / "labels.csv", HEADER, ROWS)
    return labels, write_rows(tmp_path / "truth.csv", ("task", "label"), [(task, "c1") for task in TASKS])


def compared(*words):
    done = run_command("compare", *words, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    return found, {row["method"]: row for row in found["methods"]}


def coded(rows):
    names = [sorted(set(column)) for column in zip(*rows, strict=True)]
    codes = [
        [name.index(value) for value in column] for name, column in zip(names, zip(*rows, strict=True), strict=True)
    ]
    sizes = dict(zip(("n_tasks", "n_workers", "n_classes"), map(len, names), strict=True))
    return group_labels(*codes, **sizes).labels, names


def test_every_method_has_the_error_and_log_loss_of_its_own_answers(files):
    labels, (_, _, classes) = coded(ROWS)
    found, rows = compared(files[0], "--truth", files[1], "--seed", 3)
    assert rows.keys() == METHODS.keys()
    truth = classes.index("c1")
    for name, row in rows.items():
        expected = METHODS[name](labels, rng=np.random.default_rng(3))
        assert row["status"] == "done"
        assert row["log_loss"] == pytest.approx(-np.mean(np.log(np.maximum(expected.probabilities[:, truth], 1e-15))))
        if name != "majority":
            assert row["error"] == pytest.approx(np.mean(expected.answer != truth))
        assert row["seconds"] > 0
        assert 10e6 < row["start_memory_bytes"] <= row["peak_memory_bytes"] < 1e9
    assert found["tasks_compared"] == len(TASKS) == found["tasks"]
    assert (found["workers"], found["classes"], found["counts"]["labels_used"]) == (9, 3, len(ROWS))
    errors = [row["error"] for row in found["methods"]]
    assert errors == sorted(errors)
    assert len(set(errors)) > 1


def test_majority_vote_is_the_expectation_over_ties(files):
    votes = defaultdict(Counter)
    for task, _, label in ROWS:
        votes[task][label] += 1
    leaders = [[name for name, n in votes[task].items() if n == max(votes[task].values())] for task in TASKS]
    assert any(len(one) > 1 and "c1" in one for one in leaders)
    wrong = [1 - 1 / len(one) if "c1" in one else 1 for one in leaders]
    _, rows = compared(files[0], "--truth", files[1], "--methods", "majority")
    assert rows["majority"]["error"] == pytest.approx(sum(wrong) / len(wrong))


@pytest.mark.parametrize(("name", "error"), [("rte1", 0.1031), ("temp", 0.0639), ("web", 0.2693)])
def test_majority_vote_has_the_errors_of_the_paper(name, error):
    if not DATA.is_dir():
        pytest.skip("the datasets are neither in $CROWDBEAM_DATA nor beside the repository (../shared/data)")
    folder = DATA / name
    _, rows = compared(folder / "labels.csv", "--truth", folder / "truth.csv", "--methods", "majority")
    assert rows["majority"]["error"] == pytest.approx(error, abs=5e-5)


def test_a_class_that_nobody_chose_is_wrong_and_improbable(files, tmp_path):
    truth = write_rows(tmp_path / "other.csv", ("task", "label"), [(task, "never") for task in TASKS])
    _, rows = compared(files[0], "--truth", truth, "--methods", "pgd,majority")
    for row in rows.values():
        assert row["error"] == 1
        assert row["log_loss"] == pytest.approx(-math.log(1e-15))


def test_tasks_without_truth_and_truth_without_task_are_left_out(files, tmp_path):
    truth = write_rows(tmp_path / "some.csv", ("task", "label"), [*((task, "c0") for task in TASKS[:7]), ("x", "c0")])
    found, rows = compared(files[0], "--truth", truth, "--methods", "pgd")
    labels, (_, _, classes) = coded(ROWS)
    answer = METHODS["pgd"](labels, rng=np.random.default_rng(0)).answer[:7]
    assert (found["tasks_compared"], found["truth_without_task"], found["tasks"]) == (7, 1, len(TASKS))
    assert rows["pgd"]["error"] == pytest.approx(np.mean(answer != classes.index("c0")))


def test_rejected_and_repeated_labels_are_counted_and_leave_no_class_or_worker_behind(files, tmp_path):
    more = [("", "nobody", "c9"), (*ROWS[0][:2], "c8"), *ROWS]
    labels = write_rows(tmp_path / "more.csv", HEADER, more)
    clean, rows = compared(files[0], "--truth", files[1], "--methods", "dawid-skene")
    found, others = compared(labels, "--truth", files[1], "--methods", "dawid-skene")
    assert found["counts"]["labels_rejected.missing-task"] == found["counts"]["labels_repeated"] == 1
    assert {name: found[name] for name in ("workers", "classes")} == {
        name: clean[name] for name in ("workers", "classes")
    }
    assert others["dawid-skene"]["log_loss"] == rows["dawid-skene"]["log_loss"]


def test_formats_and_the_order_of_rows_change_nothing(files, tmp_path):
    shuffled = [ROWS[place] for place in np.random.default_rng(1).permutation(len(ROWS))]
    pl.DataFrame(shuffled, HEADER, orient="row").write_parquet(tmp_path / "labels.parquet")
    pl.DataFrame({"task": TASKS, "label": ["c1"] * len(TASKS)}).write_ndjson(tmp_path / "truth.jsonl")
    _, expected = compared(files[0], "--truth", files[1], "--methods", "pgd,kos")
    _, found = compared(tmp_path / "labels.parquet", "--truth", tmp_path / "truth.jsonl", "--methods", "pgd,kos")
    for name in expected:
        assert (found[name]["error"], found[name]["log_loss"]) == (expected[name]["error"], expected[name]["log_loss"])


def test_each_option_changes_what_is_said(files, tmp_path):
    labels, truth = files
    renamed = write_rows(tmp_path / "renamed.csv", ("item", "worker", "label"), ROWS)
    nameless = write_rows(tmp_path / "labels.txt", HEADER, ROWS)
    other = write_rows(tmp_path / "other.csv", ("task", "label"), [(task, "c0") for task in TASKS])
    kos, as_csv = ("--methods", "kos", "--quiet"), ("--input-format", "csv")
    words = {
        "--truth": ((labels, "--truth", truth, *kos), (labels, "--truth", other, *kos)),
        "--columns": ((renamed, "--truth", truth, *kos), (renamed, "--truth", truth, *kos, "--columns", "task=item")),
        "--input-format": ((nameless, "--truth", truth, *kos), (nameless, "--truth", truth, *kos, *as_csv)),
        "--methods": ((labels, "--truth", truth, *kos), (labels, "--truth", truth, "--quiet", "--methods", "ghosh")),
        "--seed": ((labels, "--truth", truth, *kos), (labels, "--truth", truth, *kos, "--seed", "1")),
        "--limit": ((labels, "--truth", truth, *kos), (labels, "--truth", truth, *kos, "--limit", "0.001")),
        "--json": ((labels, "--truth", truth, *kos), (labels, "--truth", truth, *kos, "--json")),
        "--quiet": ((labels, "--truth", truth, *kos[:2]), (labels, "--truth", truth, *kos)),
    }  # fmt: skip
    assert option_table(build_parser()).keys() - {"-h", "--help"} == words.keys()
    told = {name: [run_command("compare", *given) for given in pair] for name, pair in words.items()}
    codes = {name: [one.code for one in pair] for name, pair in told.items()}
    assert codes == {
        name: {"--columns": [2, 0], "--input-format": [2, 0], "--limit": [0, 1]}.get(name, [0, 0]) for name in words
    }
    assert "Name it with --columns task=COLUMN" in told["--columns"][0].err
    assert "Say what it is with --input-format" in told["--input-format"][0].err
    for name, pair in told.items():
        before, after = (figures(one.out) for one in pair)
        assert before != after, f"{name} changes nothing"
    assert "Labels and truth" in told["--quiet"][0].out
    assert told["--quiet"][1].out.startswith("Methods, the lowest error first\n")


def figures(out):
    """What was said, without seconds and memory, which are never twice the same."""
    return out if out.startswith("{") else re.sub(r"(\d\.\d{4}) .*|\d+ MB", r"\1", out)


def test_a_truth_with_the_columns_of_the_inputs_or_its_own_is_read(files, tmp_path):
    labels = write_rows(tmp_path / "renamed.csv", ("item", "worker", "answer"), ROWS)
    same = write_rows(tmp_path / "same.csv", ("item", "answer"), [(task, "c1") for task in TASKS])
    words = ("--columns", "task=item,label=answer", "--methods", "ddkr")
    assert {compared(labels, "--truth", truth, *words)[1]["ddkr"]["error"] for truth in (same, files[1])} == {
        compared(files[0], "--truth", files[1], "--methods", "ddkr")[1]["ddkr"]["error"]
    }


def test_a_method_that_fails_or_is_too_slow_says_so_and_the_others_go_on(files, monkeypatch):
    def run_some(path, method, seed, limit):
        given = {"kos": ("no-method", limit), "ghosh": (method, 0.001)}.get(method, (method, limit))
        return replace(run_method(path, given[0], seed, given[1]), method=method)

    monkeypatch.setattr(comparison, "run_method", run_some)
    done = run_command("compare", files[0], "--truth", files[1], "--methods", "kos,ghosh,pgd")
    assert done.code == 0
    assert re.search(r"pgd +0\.\d{4} ", done.out)
    assert re.search(r"kos +failed +- +- +-", done.out)
    assert re.search(r"ghosh +too slow +- +- +-", done.out)
    assert "kos: KeyError: 'no-method'" in done.out
    assert "ghosh: It was ended after 0.001 s; --limit gives it more." in done.out
    assert done.out.index("pgd ") < done.out.index("ghosh ") < done.out.index("kos ")


def test_a_terminal_sees_a_bar_and_a_log_sees_none(files):
    program = [sys.executable, "-c", "from pipelines.cli import main; main()"]
    command = [*program, "compare", files[0], "--truth", files[1], "--methods", "majority"]
    settings = {"stdout": subprocess.PIPE, "check": True, "env": {**os.environ, "TERM": "xterm"}}
    terminal, end = pty.openpty()
    on_terminal = subprocess.run(command, stderr=end, **settings)
    os.close(end)
    seen = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    in_log = subprocess.run(command, stderr=subprocess.PIPE, **settings)
    assert "0 of 1 methods  majority" in seen
    assert in_log.stderr == b""
    assert figures(on_terminal.stdout.decode()) == figures(in_log.stdout.decode())


def test_a_process_that_is_killed_is_a_failure(tmp_path, monkeypatch):
    labels, _ = coded(ROWS)
    write_crowd(str(tmp_path / "crowd.npz"), labels, np.zeros(labels.n_tasks, np.int64))
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    row = run_method(str(tmp_path / "crowd.npz"), "pgd", 0, 60.0)
    assert (row.status, row.error) == ("failed", None)
    assert "signal 9" in row.detail


def test_memory_is_that_of_the_method_and_not_of_the_process_that_started_it(files):
    held = np.ones(60_000_000)
    _, rows = compared(files[0], "--truth", files[1], "--methods", "majority")
    assert rows["majority"]["peak_memory_bytes"] < held.nbytes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--methods", "majorty"), "--methods names 'majorty', which is no method; did you mean majority?"),
        (("--methods", "xyz"), "which is no method; there are pgd, majority,"),
        (("--methods", "pgd,"), "--methods names '', which is no method"),
        (("--methods", "pgd,pgd"), "--methods names a method twice; name each once."),
        (("--limit", "0"), "--limit is 0; it takes a number of seconds above 0."),
        (("--limit", "nan"), "--limit is nan; it takes a number of seconds above 0."),
        (("--limit", "soon"), "--limit is 'soon'; it takes a number."),
        (("--seed", "-1"), "--seed is -1; it takes a number of at least 0."),
        (("--columns", "x=y"), "--columns is 'x'; it takes task, worker, label, time, op."),
        (("--input-format", "xml"), "--input-format is 'xml'; it takes auto"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(words, sentence, files):
    done = run_command("compare", files[0], "--truth", files[1], *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_inputs_that_cannot_be_used_are_refused(files, tmp_path):
    labels, truth = files
    strange = write_rows(tmp_path / "strange.csv", ("task", "label"), [("x", "c0")])
    empty = write_rows(tmp_path / "empty.csv", ("task", "label"), [])
    columns = write_rows(tmp_path / "columns.csv", ("task", "answer"), [("t00", "c0")])
    for words, sentence in [
        ((tmp_path / "none.csv", "--truth", truth), "names no file"),
        ((labels, "--truth", tmp_path / "none.csv"), "names no file"),
        ((labels, "--truth", strange), "has none of the 60 tasks with labels. Check the ids."),
        ((labels, "--truth", empty), "holds no data."),
        ((labels, "--truth", columns), "has no column 'label'"),
        ((labels,), "The following arguments are required: --truth."),
        (("--truth", truth), "The following arguments are required: INPUT."),
    ]:
        done = run_command("compare", *words)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


def test_without_a_usable_label_the_exit_code_is_3(files, tmp_path):
    labels = write_rows(tmp_path / "bad.csv", HEADER, [("", "w", "c0")])
    done = run_command("compare", labels, "--truth", files[1])
    assert (done.code, done.out) == (3, "")
    assert "no usable label" in done.err
