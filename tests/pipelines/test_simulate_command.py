"""`crowdbeam simulate`: files of a crowd with a known truth; each of its options changes them."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import run_command

from pipelines.arguments import option_table
from pipelines.commands.simulate import _PARTS, _WRITERS, ENDINGS, build_parser

SMALL = ("--tasks", "300", "--workers", "12")
READERS = {"parquet": pl.read_parquet, "avro": pl.read_avro, "csv": pl.read_csv, "jsonl": pl.read_ndjson}


class Crowd:
    """What a run wrote."""

    def __init__(self, folder):
        self.folder = folder
        self.files = sorted((folder / "labels").iterdir()) if folder.exists() else []

    @property
    def labels(self):
        return pl.concat([READERS[path.suffix[1:]](path) for path in self.files]).rows()

    def rows(self, name):
        with open(self.folder / name, newline="", encoding="utf-8") as file:
            return list(csv.reader(file))[1:]

    @property
    def truth(self):
        return dict(self.rows("truth.csv"))

    @property
    def skills(self):
        return [float(skill) for _, skill in self.rows("skills.csv")]


@pytest.fixture
def simulate(tmp_path):
    made = []

    def make(*options):
        made.append(run_command("simulate", "--output", tmp_path / str(len(made)), *SMALL, *options))
        assert made[-1].code == 0, made[-1].err
        return Crowd(tmp_path / str(len(made) - 1))

    return make


def workload(crowd):
    return Counter(worker for _, worker, _ in crowd.labels)


CASES = {
    "--tasks": (("--tasks", "40"), lambda crowd: len(crowd.truth), 300, 40),
    "--workers": (("--workers", "7"), lambda crowd: len(crowd.skills), 12, 7),
    "--labels-per-task": (("--labels-per-task", "3"), lambda crowd: len(crowd.labels), 1500, 900),
    "--classes": (
        ("--classes", "3"),
        lambda crowd: sorted(set(crowd.truth.values())),
        ["c0", "c1"],
        ["c0", "c1", "c2"],
    ),
    "--skills": (("--skills", "fixed:0.25"), lambda crowd: set(crowd.skills) == {0.25}, False, True),
    "--graph": (("--graph", "bipartite"), lambda crowd: len(crowd.labels), 1500, 600),
    "--class-prior": (("--class-prior", "0,1"), lambda crowd: set(crowd.truth.values()) == {"c1"}, False, True),
    "--activity": (("--activity", "3"), lambda crowd: max(workload(crowd).values()) > 200, False, True),
    "--files": (("--files", "2"), lambda crowd: len(crowd.files), 4, 2),
    "--format": (("--format", "csv"), lambda crowd: {path.suffix for path in crowd.files}, {".parquet"}, {".csv"}),
    "--ragged-ids": (("--ragged-ids",), lambda crowd: f"t7{ENDINGS[7]}" in crowd.truth, False, True),
}


@pytest.mark.parametrize("option", CASES)
def test_option_changes_the_crowd(option, simulate):
    words, read, without, given = CASES[option]
    assert read(simulate()) == without
    assert read(simulate(*words)) == given


def test_the_seed_and_nothing_else_decides_what_chance_brings(simulate):
    first, again, other = simulate(), simulate(), simulate("--seed", "1")
    assert first.labels == again.labels
    assert first.labels != other.labels


def test_every_option_has_a_test():
    tested_below = {"--seed", "--output", "--overwrite"}
    assert option_table(build_parser()).keys() - {"-h", "--help"} == CASES.keys() | tested_below


def test_a_folder_with_files_is_refused_unless_it_may_be_overwritten(tmp_path):
    folder = tmp_path / "crowd"
    assert run_command("simulate", "--output", folder, *SMALL).code == 0
    before = Crowd(folder).labels
    refused = run_command("simulate", "--output", folder, *SMALL, "--seed", "1")
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert Crowd(folder).labels == before
    replaced = run_command("simulate", "--output", folder, *SMALL, "--files", "1", "--format", "csv", "--overwrite")
    assert replaced.code == 0
    assert [path.name for path in Crowd(folder).files] == ["part-00000.csv"]


@pytest.mark.parametrize("kind", READERS)
def test_every_format_holds_the_same_labels(kind, simulate):
    options = ("--ragged-ids", "--classes", "11")
    assert simulate(*options, "--format", kind).labels == simulate(*options).labels


def test_ids_sort_by_number_and_labels_are_of_known_tasks_and_workers(simulate):
    crowd = simulate("--classes", "12")
    tasks, workers, labels = (set(column) for column in zip(*crowd.labels, strict=True))
    assert sorted(tasks) == sorted(crowd.truth) == [f"t{n:06d}" for n in range(300)]
    assert sorted(workers) == [f"w{n:04d}" for n in range(12)]
    assert sorted(labels) == [f"c{n:02d}" for n in range(12)]


def test_labels_are_right_as_often_as_the_skills_say(simulate):
    """With K = 4 and skill 0.6 a label is right with probability (1 + 3 · 0.6) / 4 = 0.7: 1500 labels, σ = 0.012."""
    crowd = simulate("--skills", "fixed:0.6", "--classes", "4")
    truth = crowd.truth
    right = np.mean([truth[task] == label for task, _, label in crowd.labels])
    assert abs(right - 0.7) < 4 * 0.012


def test_what_is_simulated_can_be_aggregated_and_evaluated(tmp_path, simulate):
    crowd = simulate("--ragged-ids", "--format", "csv", "--skills", "fixed:0.8")
    done = run_command("aggregate", crowd.folder / "labels", "--output", tmp_path / "run", "--quiet")
    assert (done.code, done.err) == (0, "")
    told = run_command("evaluate", tmp_path / "run", "--truth", crowd.folder / "truth.csv", "--json")
    assert json.loads(told.out)["tasks_compared"] == 300


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--tasks", "0"), "--tasks is 0; it takes a number of at least 1."),
        (("--classes", "1"), "--classes is 1; it takes a number of at least 2."),
        (("--format", "xml"), "--format is 'xml'; it takes parquet, avro, csv, jsonl."),
        (("--class-prior", ".5,.6"), "--class-prior is '.5,.6'; it takes 2 frequencies that add up to 1."),
        (("--class-prior", "x,1"), "--class-prior is 'x'; it takes a number."),
        (("--skills", "good"), "There is no such crowd: skills is 'good'"),
        (("--graph", "tree"), "There is no such crowd: graph is 'tree'"),
        (("--labels-per-task", "13"), "There is no such crowd: labels_per_task is 13"),
        (
            ("--output", "gs://bucket/crowd"),
            "--output is gs://bucket/crowd; simulate writes to a folder of this machine.",
        ),
        (("--output", "/dev/null/x"), "--output /dev/null/x cannot be used: Not a directory."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_simulated_is_refused_before_anything_is_written(words, sentence, tmp_path):
    folder = tmp_path / "crowd"
    run = run_command("simulate", "--output", folder, *SMALL, *words)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"crowdbeam: {sentence}")
    assert not folder.exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_crowd_that_is_not_finished_leaves_nothing(tmp_path, monkeypatch, error):
    def break_off(part, path):
        path.write_bytes(b"half")
        raise error

    monkeypatch.setitem(_WRITERS, "parquet", break_off)
    run = run_command("simulate", "--output", tmp_path / "crowd", *SMALL)
    assert run.code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert not (tmp_path / "crowd").exists()


@pytest.mark.parametrize("broken", ["parquet", "exchange"])
def test_an_earlier_crowd_survives_one_that_is_broken_off(tmp_path, monkeypatch, broken):
    folder = tmp_path / "crowd"
    assert run_command("simulate", "--output", folder, *SMALL).code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}

    def break_off(*_):
        raise KeyboardInterrupt

    if broken == "parquet":
        monkeypatch.setitem(_WRITERS, "parquet", break_off)
    else:
        move = Path.rename
        monkeypatch.setattr(Path, "rename", lambda *two: break_off() if two[0].name == _PARTS[1] else move(*two))
    assert run_command("simulate", "--output", folder, *SMALL, "--seed", "1", "--overwrite").code == 130
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(_PARTS)


def test_a_killed_simulation_is_cleared_away_by_the_next(tmp_path):
    (tmp_path / "crowd" / "_new" / "labels").mkdir(parents=True)
    (tmp_path / "crowd" / "_new" / "labels" / "part-00000.csv").write_text("half", "utf-8")
    assert run_command("simulate", "--output", tmp_path / "crowd", *SMALL).code == 0
    assert sorted(path.name for path in (tmp_path / "crowd").iterdir()) == sorted(_PARTS)


@pytest.mark.parametrize("place", ["notes.txt", "manifest.json", "scores/part-00000.parquet", "labels/mine.csv"])
def test_a_crowd_is_not_mixed_into_anything_else(tmp_path, place):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("dear", "utf-8")
    run = run_command("simulate", "--output", tmp_path, "--overwrite", *SMALL)
    assert run.code == 2
    assert "which is no part of a crowd. Give an empty or a new folder." in run.err
    assert [path.read_text("utf-8") for path in tmp_path.rglob("*.*")] == ["dear"]
