"""`crowdbeam reproduce`: what it writes, and what it refuses."""

import csv
import os
import re
import sys
from pathlib import Path

import pytest
from command_line import run_command, write_rows

from crowdcore.experiments.real_data import DATASETS
from pipelines.commands.reproduce import EXPERIMENTS, build_parser

CELL = ("row", "column", "mean_error", "std", "n_trials")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Small datasets in the shape of the real ones: four workers, of whom one is always wrong."""
    folder = tmp_path_factory.mktemp("data")
    for name in DATASETS:
        (folder / name).mkdir()
        truth = [(f"t{task}", str(task % 2)) for task in range(12)]
        said = [
            (task, worker, label if worker != "d" else str(1 - int(label)))
            for task, label in truth
            for worker in "abcd"
        ]
        write_rows(folder / name / "labels.csv", ("task", "worker", "label"), said)
        write_rows(folder / name / "truth.csv", ("task", "label"), truth)
    return folder


def rows(path):
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_an_experiment_writes_a_table_a_page_and_two_pictures(tmp_path):
    run = run_command("reproduce", "skills", "--output", tmp_path, "--trials", 3)
    assert (run.code, run.err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["skills.csv", "skills.md", "skills.png", "skills.svg"]
    found = rows(tmp_path / "skills.csv")
    assert tuple(found[0]) == CELL
    assert {row["n_trials"] for row in found} == {"3"}
    assert (tmp_path / "skills.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "skills.svg").read_text("utf-8")
    assert ".599 ± .486" in run.out  # the paper's, beside ours
    assert "What differs, and why" in run.out


def test_real_labels_give_the_errors_that_can_be_counted_by_hand(tmp_path, data):
    run = run_command("reproduce", "real", "--output", tmp_path, "--data", data, "--trials", 2)
    assert run.code == 0
    found = {(row["row"], row["column"]): float(row["mean_error"]) for row in rows(tmp_path / "real.csv")}
    assert {found[name, method] for name in DATASETS for method in ("MV", "PGD", "dawid-skene")} == {0.0}


@pytest.mark.parametrize("option", ["--seed", "--trials"])
def test_option_changes_the_numbers(option, tmp_path):
    given = {"--seed": ("--trials", 2, "--seed", 1), "--trials": ("--trials", 3)}[option]
    run_command("reproduce", "skills", "--output", tmp_path / "a", "--trials", 2, "--quiet")
    run_command("reproduce", "skills", "--output", tmp_path / "b", *given, "--quiet")
    assert rows(tmp_path / "a" / "skills.csv") != rows(tmp_path / "b" / "skills.csv")


def test_the_same_seed_gives_the_same_files(tmp_path):
    for name in ("a", "b"):
        run_command("reproduce", "skills", "--output", tmp_path / name, "--trials", 2, "--quiet")
    for kind in ("csv", "md", "svg"):
        one, other = ((tmp_path / name / f"skills.{kind}").read_bytes() for name in ("a", "b"))
        assert one == other


def test_quiet_prints_nothing_and_writes_the_same(tmp_path):
    run = run_command("reproduce", "skills", "--output", tmp_path, "--trials", 2, "--quiet")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert (tmp_path / "skills.csv").exists()


def test_every_option_is_in_a_test():
    options = {name for action in build_parser()._actions for name in action.option_strings} - {"-h", "--help"}
    assert options == {"--data", "--trials", "--seed", "--output", "--quiet"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fig2",), "'fig2' is no experiment; it takes fig1, weights,"),
        (("real",), "The experiment real needs --data FOLDER"),
        (("fig1", "--data", "x"), "--data is for the experiments real and all; fig1 takes none."),
        (("fig1", "--trials", "0"), "--trials is 0; it takes a number of at least 1."),
        (("fig1", "--seed", "-1"), "--seed is -1; it takes a number of at least 0."),
        (("real", "--data", "/nowhere"), "--data /nowhere is no folder"),
        (("all", "--data", "."), "has no rte1/labels.csv; it takes a folder with rte1, temp, dogs, web"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(words, sentence, tmp_path):
    run = run_command("reproduce", *words, "--output", tmp_path / "out")
    assert run.code == 2
    assert sentence in run.err
    assert not (tmp_path / "out").exists()


def test_a_missing_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = run_command("reproduce", "skills", "--output", tmp_path / "out")
    assert run.code == 2
    assert "pip install 'crowdbeam[plots]'" in run.err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("here")
    run = run_command("reproduce", "skills", "--output", tmp_path / "out")
    assert run.code == 2
    assert "cannot be used" in run.err


@pytest.mark.parametrize("broken", ["labels", "truth"])
def test_a_dataset_without_its_columns_is_refused(broken, tmp_path, data):
    for name in DATASETS:
        os.makedirs(tmp_path / "data" / name)
        for file in ("labels.csv", "truth.csv"):
            (tmp_path / "data" / name / file).write_bytes((data / name / file).read_bytes())
    write_rows(tmp_path / "data" / "dogs" / f"{broken}.csv", ("item", "answer"), [("t1", "0")])
    run = run_command("reproduce", "real", "--data", tmp_path / "data", "--output", tmp_path / "out")
    assert run.code == 2
    assert "has no column task" in run.err


def test_all_writes_a_page_that_shows_every_picture(tmp_path, data):
    run = run_command("reproduce", "--output", tmp_path, "--data", data, "--trials", 2, "--quiet")
    assert run.code == 0
    page = (tmp_path / "README.md").read_text("utf-8")
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert pictures == [f"{name}.svg" for name in EXPERIMENTS]
    assert all((tmp_path / picture).stat().st_size < 100_000 for picture in pictures)
    assert "crowdbeam reproduce all --output" in page
    assert "--trials 2 --seed 0" in page


def test_the_documented_page_shows_pictures_that_are_there_and_small():
    docs = Path(__file__).parents[2] / "docs"
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (docs / "paper.md").read_text("utf-8"))
    assert len(pictures) == len(EXPERIMENTS)
    assert all((docs / picture).stat().st_size < 100_000 for picture in pictures)
