"""Every option of `crowdbeam aggregate` changes what comes out: the same labels, without the option and with it."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest
from command_line import crowd_rows, run_command, write_rows

from pipelines.arguments import option_table
from pipelines.commands.aggregate import build_parser

ROWS = crowd_rows()
CASES = {}


@dataclass(frozen=True)
class Both:
    """A run without the option and one with it, and the folder of their inputs."""

    without: object
    given: object
    folder: object


def case(option, given, without=(), inputs=("labels.csv",)):
    """Registers a check of what `option` changes; words with a brace are paths in the input's folder."""

    def register(check):
        CASES[option] = (given, without, inputs, check)
        return check

    return register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs")
    header = ("task", "worker", "label")
    write_rows(path / "labels.csv", header, ROWS)
    write_rows(path / "labels.txt", header, ROWS)
    write_rows(path / "renamed.csv", ("item", "worker", "label"), ROWS)
    task, worker, label = ROWS[0]
    write_rows(path / "repeats.csv", header, [(task, worker, other(label)), *ROWS])
    write_rows(path / "gold.csv", ("task", "label"), [(task, other(majority(task)))])
    write_rows(path / "prior.csv", ("worker", "skill"), [("w0", -0.5)])
    return path


def other(label):
    return "c1" if label == "c0" else "c0"


def majority(task):
    return Counter(label for named, _, label in ROWS if named == task).most_common(1)[0][0]


def first_majority(task):
    votes = Counter(label for named, _, label in ROWS if named == task)
    return min(label for label, n in votes.items() if n == max(votes.values()))


@pytest.fixture(scope="module")
def run_once(folder, tmp_path_factory):
    """Runs with the same arguments are done once."""
    done = {}

    def run(words):
        if words not in done:
            output = tmp_path_factory.mktemp("run") / "run"
            words_given = [str(word).replace("{}", str(folder)) for word in words]
            done[words] = run_command("aggregate", "--output", output, *words_given, folder=output)
        return done[words]

    return run


@pytest.mark.parametrize("option", sorted(option_table(build_parser()).keys() - {"-h", "--help"}))
def test_option_changes_the_output(option, run_once, folder):
    assert option in CASES, f"{option} has no case here: add one that shows what it changes"
    given, without, inputs, check = CASES[option]
    inputs = tuple(f"{{}}/{name}" for name in inputs)
    check(Both(run_once((*inputs, *without)), run_once((*inputs, *given)), folder))


def test_cases_are_of_options_that_exist():
    assert CASES.keys() <= option_table(build_parser()).keys()


@case("--output", given=("--output", "{}/elsewhere"))
def _(both):
    assert (both.without.folder / "manifest.json").exists()
    assert (both.folder / "elsewhere" / "manifest.json").exists()
    assert not both.given.folder.exists()


@case("--overwrite", given=("--output", "{}/twice", "--overwrite"), without=("--output", "{}/twice"))
def _(both):
    assert both.given.code == 0
    again = run_command("aggregate", both.folder / "labels.csv", "--output", both.folder / "twice")
    assert again.code == 2
    assert "--overwrite" in again.err


@case("--columns", given=("--columns", "task=item"), inputs=("renamed.csv",))
def _(both):
    assert both.without.code == 2
    assert "has no column 'task'" in both.without.err
    assert {row["task"] for row in both.given.rows("scores")} == {task for task, _, _ in ROWS}


@case("--input-format", given=("--input-format", "csv"), inputs=("labels.txt",))
def _(both):
    assert both.without.code == 2
    assert "--input-format" in both.without.err
    assert both.given.manifest["counts"]["labels_used"] == len(ROWS)


@case("--gold", given=("--gold", "{}/gold.csv"))
def _(both):
    task = ROWS[0][0]
    assert both.without.column("scores", "task", "status")[task] != "gold"
    assert both.given.column("scores", "task", "status")[task] == "gold"
    assert both.given.column("scores", "task", "label")[task] == other(majority(task))


@case("--classes", given=("--classes", "c0,c1"))
def _(both):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    assert both.without.manifest["counts"]["labels_rejected"] == 0
    assert both.given.manifest["counts"]["labels_rejected.label-not-in-classes"] == strangers
    assert both.given.manifest["classes"] == ["c0", "c1"]


@case(
    "--class-prior",
    given=("--classes", "c0,c1,c2", "--class-prior", "c0=.01,c1=.01,c2=.98"),
    without=("--classes", "c0,c1,c2"),
)
def _(both):
    before, after = (Counter(run.column("scores", "task", "label").values()) for run in (both.without, both.given))
    assert after["c2"] > before["c2"]


@case("--repeats", given=("--repeats", "first"), inputs=("repeats.csv",))
def _(both):
    task, worker, label = ROWS[0]
    agreed = {run: run.rows("edges") for run in (both.without, both.given)}
    peers = {peer: said for named, peer, said in ROWS if named == task and peer != worker}
    for peer, said in peers.items():
        with_last, with_first = (
            next(row["n_agree"] for row in agreed[run] if {row["worker_a"], row["worker_b"]} == {worker, peer})
            for run in (both.without, both.given)
        )
        assert with_last - with_first == (said == label) - (said == other(label))
    assert both.given.manifest["counts"]["labels_repeated"] == 1


@case("--prior-skills", given=("--prior-skills", "{}/prior.csv"))
def _(both):
    assert both.given.column("skills", "worker", "skill")["w0"] < both.without.column("skills", "worker", "skill")["w0"]


@case(
    "--prior-strength",
    given=("--prior-skills", "{}/prior.csv", "--prior-strength", "1000"),
    without=("--prior-skills", "{}/prior.csv"),
)
def _(both):
    weak, strong = (run.column("skills", "worker", "skill")["w0"] for run in (both.without, both.given))
    assert abs(strong + 0.5) < 0.05 < abs(weak + 0.5)


@case("--output-format", given=("--output-format", "jsonl"))
def _(both):
    assert both.without.files("skills") == ["part-00000.parquet"]
    assert both.given.files("skills") == ["part-00000.jsonl"]
    assert both.given.rows("skills") == both.without.rows("skills")


@case("--probabilities", given=("--probabilities",))
def _(both):
    assert all(row["probabilities"] is None for row in both.without.rows("scores"))
    for row in both.given.rows("scores"):
        assert sum(row["probabilities"].values()) == pytest.approx(1)
        assert row["probabilities"][row["label"]] == pytest.approx(row["probability"])


@case("--confidence", given=("--confidence", "0.5"))
def _(both):
    for wide, narrow in zip(both.without.rows("skills"), both.given.rows("skills"), strict=True):
        assert narrow["skill_high"] - narrow["skill_low"] < wide["skill_high"] - wide["skill_low"]


@case("--min-labels", given=("--min-labels", "4"))
def _(both):
    assert "too-few-labels" not in set(both.without.column("scores", "task", "status").values())
    assert set(both.given.column("scores", "task", "status").values()) == {"too-few-labels"}


@case("--shards", given=("--shards", "3"))
def _(both):
    assert len(both.without.files("scores")) == 1
    assert len(both.given.files("scores")) == 3
    by_task = sorted(both.given.rows("scores"), key=lambda row: row["task"])
    assert by_task == sorted(both.without.rows("scores"), key=lambda row: row["task"])


@case("--json", given=("--json",))
def _(both):
    found = json.loads(both.given.out)
    assert found["counts"] == both.without.manifest["counts"]
    assert found["path"] == str(both.given.folder)
    assert found["graph"] == both.without.rows("graph")
    assert both.without.out.startswith("Labels\n")


@case("--quiet", given=("--quiet",))
def _(both):
    assert (both.given.code, both.given.out, both.given.err) == (0, "", "")
    assert both.without.out


@case("--fail-if", given=("--classes", "c0,c1", "--fail-if", "rejects-share>0.01"), without=("--classes", "c0,c1"))
def _(both):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    assert (both.without.code, both.without.manifest["gates"]) == (0, [])
    assert both.given.code == 11
    assert both.given.manifest["gates"] == [
        {"gate": "rejects-share", "limit": 0.01, "value": strangers / len(ROWS), "tripped": True}
    ]


@case("--lineage", given=("--lineage", "{}/event.json"))
def _(both):
    event = json.loads((both.folder / "event.json").read_text("utf-8"))
    assert event["run"]["runId"].replace("-", "") == both.given.manifest["run_id"]


@case("--method", given=("--method", "majority"))
def _(both):
    assert set(both.without.column("scores", "task", "model").values()) == {"one-coin"}
    assert set(both.given.column("scores", "task", "model").values()) == {"majority"}
    assert both.given.column("scores", "task", "label") == {task: first_majority(task) for task, _, _ in ROWS}
    assert both.given.manifest["settings"]["method"] == both.given.manifest["fit"]["method"] == "majority"


@case("--passes", given=("--method", "dawid-skene", "--passes", "1"), without=("--method", "dawid-skene"))
def _(both):
    assert [run.manifest["settings"]["passes"] for run in (both.without, both.given)] == ["10", "1"]
    assert [run.manifest["fit"]["passes"] for run in (both.without, both.given)] == ["10", "1"]
    assert differ_in_skills(both)


@case("--model", given=("--model", "two-coin"))
def _(both):
    assert set(both.without.column("scores", "task", "model").values()) == {"one-coin"}
    assert both.given.code == 2
    assert "--model is 'two-coin'; it takes one-coin" in both.given.err


@case("--weights", given=("--weights", "binary"))
def _(both):
    assert differ_in_skills(both)


@case(
    "--saturation",
    given=("--weights", "saturating", "--saturation", "0.5"),
    without=("--weights", "saturating"),
)
def _(both):
    assert differ_in_skills(both)


@case("--multiclass", given=("--multiclass", "one-vs-rest"))
def _(both):
    assert both.given.rows("skills") == both.without.rows("skills")
    assert both.given.column("scores", "task", "margin") != both.without.column("scores", "task", "margin")


@case("--solver", given=("--solver", "paper"))
def _(both):
    assert both.given.manifest["fit"]["rounds"] != both.without.manifest["fit"]["rounds"]
    assert not differ_in_skills(both, by=1e-4)


@case("--start", given=("--start", "spectral"), without=("--start", "half"))
def _(both):
    assert both.without.manifest["fit"]["start"] == "half"
    assert both.given.manifest["fit"]["start"] == "spectral"


@case(
    "--seed",
    given=("--solver", "paper", "--start", "random", "--seed", "1"),
    without=("--solver", "paper", "--start", "random"),
)
def _(both):
    assert both.given.manifest["fit"]["rounds"] != both.without.manifest["fit"]["rounds"]


def differ_in_skills(both, by=1e-3):
    before, after = (run.column("skills", "worker", "skill") for run in (both.without, both.given))
    return max(abs(before[worker] - after[worker]) for worker in before) > by
