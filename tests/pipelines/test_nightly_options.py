"""Every option of `crowdbeam nightly` and `crowdbeam ledger` changes what comes out: two nights without and with it."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from command_line import Run, crowd_rows, run_command, write_rows

from pipelines.arguments import option_table
from pipelines.commands.ledger import build_parser as ledger_parser
from pipelines.commands.nightly import build_parser

HEADER = ("task", "worker", "label", "time", "op")
MONDAY, TUESDAY, LATER = "2026-11-16T10:00:00Z", "2026-11-17T10:00:00Z", "2026-11-17T22:00:00Z"
ROWS = crowd_rows()
FIRST, SECOND = ROWS[:120], ROWS[120:]
CORRECTED = next((task, worker, "c1" if label == "c0" else "c0") for task, worker, label in FIRST)
CASES, LEDGER_CASES = {}, {}


@dataclass(frozen=True)
class Nights:
    """A ledger after two nights, what each said, and the folder of the inputs."""

    ledger: Path
    said: tuple[Run, ...]
    inputs: Path

    def night(self, number):
        """The run of a night in the ledger, with what was said of it."""
        said = self.said[number - 1]
        return Run(said.code, said.out, said.err, self.ledger / "runs" / f"{number:06d}")

    @property
    def versions(self):
        return sorted(path.stem for path in (self.ledger / "versions").iterdir())


def case(option, given, without=(), inputs=("monday.csv", "tuesday.csv")):
    """Registers a check of what `option` changes; {} stands for the inputs' folder, [] for the ledger's parent."""

    def register(check):
        CASES[option] = (given, without, inputs, check)
        return check

    return register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs")
    first = [(*row, MONDAY, "") for row in FIRST]
    second = [*[(*row, TUESDAY, "") for row in SECOND], (*CORRECTED, TUESDAY, ""), ("t", "", "c0", TUESDAY, "")]
    write_rows(path / "monday.csv", HEADER, first)
    write_rows(path / "monday.txt", HEADER, first)
    write_rows(path / "tuesday.csv", HEADER, second)
    write_rows(path / "renamed.csv", ("item", *HEADER[1:]), first)
    for day, rows in enumerate((FIRST, SECOND)):
        timed = [(*row, 1_700_000_000 + 86_400 * day, "") for row in rows]
        write_rows(path / f"seconds-{day}.csv", HEADER, timed)
    write_rows(path / "late.csv", HEADER, [(FIRST[0][0], "w8", "c0", LATER, "")])
    write_rows(path / "gold.csv", ("task", "label"), [(FIRST[0][0], "c2")])
    write_rows(path / "prior.csv", ("worker", "skill"), [("w0", -0.5)])
    return path


def two_nights(folder, where, words, inputs=("monday.csv", "tuesday.csv")):
    """Runs the nights of `inputs`, one after the other, with the same words."""
    told = [str(word).replace("{}", str(folder)).replace("[]", str(where)) for word in words]
    ledger = [] if "--ledger" in told else ["--ledger", where / "ledger"]
    said = [run_command("nightly", folder / name, *ledger, *told) for name in inputs]
    return Nights(where / "ledger", tuple(said), folder)


@pytest.fixture(scope="module")
def run_once(folder, tmp_path_factory):
    """Nights with the same arguments are run once."""
    done = {}

    def run(words, inputs):
        if (words, inputs) not in done:
            done[words, inputs] = two_nights(folder, tmp_path_factory.mktemp("nights"), words, inputs)
        return done[words, inputs]

    return run


def options_of(parser):
    return option_table(parser).keys() - {"-h", "--help"}


@pytest.mark.parametrize("option", sorted(options_of(build_parser())))
def test_option_changes_the_output(option, run_once):
    assert option in CASES, f"{option} has no case here: add one that shows what it changes"
    given, without, inputs, check = CASES[option]
    check(run_once(without, inputs), run_once(given, inputs))


def test_cases_are_of_options_that_exist():
    assert CASES.keys() <= options_of(build_parser())
    assert LEDGER_CASES.keys() <= options_of(ledger_parser())


@case("--ledger", given=("--ledger", "[]/elsewhere"))
def _(without, given):
    assert without.versions == ["000001", "000002"]
    assert not given.ledger.exists()
    assert (given.ledger.parent / "elsewhere" / "CURRENT").read_text("utf-8") == "2\n"


@case("--columns", given=("--columns", "task=item"), inputs=("renamed.csv",))
def _(without, given):
    assert without.said[0].code == 2
    assert "has no column 'task'" in without.said[0].err
    assert {row["task"] for row in given.night(1).rows("scores")} == {task for task, _, _ in FIRST}


@case("--input-format", given=("--input-format", "csv"), inputs=("monday.txt",))
def _(without, given):
    assert without.said[0].code == 2
    assert "--input-format" in without.said[0].err
    assert given.night(1).manifest["counts"]["labels_used"] == len(FIRST)


@case("--gold", given=("--gold", "{}/gold.csv"))
def _(without, given):
    task = FIRST[0][0]
    assert without.night(1).column("scores", "task", "status")[task] != "gold"
    assert given.night(1).column("scores", "task", "status")[task] == "gold"
    assert given.night(1).column("scores", "task", "label")[task] == "c2"
    assert given.night(2).manifest["counts"].get("gold_read", 0) == 0, "the second night knows the file"


@case(
    "--time-unit",
    given=("--task-ttl", "12h", "--time-unit", "s"),
    without=("--task-ttl", "12h"),
    inputs=("seconds-0.csv", "seconds-1.csv"),
)
def _(without, given):
    assert without.night(2).manifest["counts"]["tasks_closed"] == 0
    assert given.night(2).manifest["counts"]["tasks_closed"] > 0


@case("--task-ttl", given=("--task-ttl", "12h"))
def _(without, given):
    here = {task for task, _, _ in SECOND} | {CORRECTED[0]}
    assert without.night(2).manifest["counts"]["tasks_closed"] == 0
    assert given.night(2).manifest["counts"]["tasks_closed"] == len({task for task, _, _ in FIRST} - here)
    late = FIRST[-3][0]
    write_rows(given.ledger.parent / "late.csv", HEADER, [(late, "w8", "c0", LATER, "")])
    for nights, rejected in ((without, 0), (given, int(late not in here))):
        done = run_command("nightly", given.ledger.parent / "late.csv", "--ledger", nights.ledger, "--json")
        assert json.loads(done.out)["counts"].get("labels_rejected.late-label", 0) == rejected


@case("--rescore", given=("--rescore", "all"))
def _(without, given):
    every, changed = {task for task, _, _ in ROWS}, {task for task, _, _ in SECOND} | {CORRECTED[0]}
    assert changed < every
    assert {row["task"] for row in without.night(2).rows("scores")} == changed
    assert {row["task"] for row in given.night(2).rows("scores")} == every


@case("--warm-start", given=("--warm-start",))
def _(without, given):
    first, second = ([one.night(number).manifest["fit"]["start"] for one in (without, given)] for number in (1, 2))
    assert first[0] == first[1] != "given"
    assert second[0] != second[1] == "given"
    assert not differ_in_skills(without, given, by=1e-6)


@case("--keep-versions", given=("--keep-versions", "1"))
def _(without, given):
    assert without.versions == ["000001", "000002"]
    assert given.versions == ["000002"]
    assert not (given.ledger / "runs" / "000001").exists()


@case("--shards", given=("--shards", "3"))
def _(without, given):
    found = [{path.name for path in nights.ledger.glob("labels/*/*")} for nights in (without, given)]
    assert len(found[0]) > len(found[1]) == 3
    assert given.night(2).column("skills", "worker", "skill") == pytest.approx(
        without.night(2).column("skills", "worker", "skill"), abs=1e-9
    )


@case("--output", given=("--output", "[]/answers", "--output", "duckdb:[]/crowd.duckdb"))
def _(without, given):
    assert sorted(path.name for path in without.ledger.parent.iterdir()) == ["ledger"]
    place = given.ledger.parent
    assert sorted(path.name for path in (place / "answers").iterdir()) == ["run-000001", "run-000002"]
    with duckdb.connect(str(place / "crowd.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM scores").fetchall() == [(60,)]


@case("--output-format", given=("--output-format", "jsonl"))
def _(without, given):
    assert without.night(2).files("skills") == ["part-00000.parquet"]
    assert given.night(2).files("skills") == ["part-00000.jsonl"]
    assert given.night(2).rows("skills") == without.night(2).rows("skills")


@case("--json", given=("--json",))
def _(without, given):
    assert without.said[1].out.startswith("Labels of the night\n")
    found = json.loads(given.said[1].out)
    assert found["counts"] == given.night(2).manifest["counts"]
    assert (found["ledger_version"], found["held"], found["known_inputs"], found["loaded"]) == (2, False, {}, {})


@case("--quiet", given=("--quiet",))
def _(without, given):
    assert all(said.out for said in without.said)
    assert [(said.code, said.out, said.err) for said in given.said] == [(0, "", "")] * 2


@case("--fail-if", given=("--fail-if", "rejects-share>0.001"))
def _(without, given):
    assert [said.code for said in without.said] == [0, 0]
    assert [said.code for said in given.said] == [0, 11]
    assert given.versions == ["000001"], "nothing is committed"
    assert not (given.ledger / "runs" / "000002").exists()
    assert given.said[1].err.endswith("Nothing was changed.\n")


@case("--lineage", given=("--lineage", "[]/event.json"))
def _(without, given):
    event = json.loads((given.ledger.parent / "event.json").read_text("utf-8"))
    assert event["run"]["runId"].replace("-", "") == given.night(2).manifest["run_id"]
    assert event["job"]["name"] == "nightly"
    assert not (without.ledger.parent / "event.json").exists()


@case("--model", given=("--model", "two-coin"))
def _(without, given):
    assert set(without.night(2).column("scores", "task", "model").values()) == {"one-coin"}
    assert given.said[0].code == 2
    assert "--model is 'two-coin'; it takes one-coin" in given.said[0].err


@case("--weights", given=("--weights", "binary"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--saturation", given=("--weights", "saturating", "--saturation", "0.5"), without=("--weights", "saturating"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--multiclass", given=("--multiclass", "one-vs-rest"))
def _(without, given):
    assert given.night(2).rows("skills") == without.night(2).rows("skills")
    assert given.night(2).column("scores", "task", "margin") != without.night(2).column("scores", "task", "margin")


@case("--classes", given=("--classes", "c0,c1"))
def _(without, given):
    strangers = sum(label == "c2" for _, _, label in SECOND)
    assert "labels_rejected.label-not-in-classes" not in without.night(2).manifest["counts"]
    assert given.night(2).manifest["counts"]["labels_rejected.label-not-in-classes"] == strangers


@case(
    "--class-prior",
    given=("--classes", "c0,c1,c2", "--class-prior", "c0=.01,c1=.01,c2=.98"),
    without=("--classes", "c0,c1,c2"),
)
def _(without, given):
    before, after = (Counter(one.night(2).column("scores", "task", "label").values()) for one in (without, given))
    assert after["c2"] > before["c2"]


@case("--prior-skills", given=("--prior-skills", "{}/prior.csv"))
def _(without, given):
    before, after = (one.night(2).column("skills", "worker", "skill")["w0"] for one in (without, given))
    assert after < before


@case(
    "--prior-strength",
    given=("--prior-skills", "{}/prior.csv", "--prior-strength", "1000"),
    without=("--prior-skills", "{}/prior.csv"),
)
def _(without, given):
    weak, strong = (one.night(2).column("skills", "worker", "skill")["w0"] for one in (without, given))
    assert abs(strong + 0.5) < 0.05 < abs(weak + 0.5)


@case("--solver", given=("--solver", "paper"))
def _(without, given):
    assert given.night(1).manifest["fit"]["rounds"] != without.night(1).manifest["fit"]["rounds"]
    assert not differ_in_skills(without, given, by=1e-4)


@case("--start", given=("--start", "spectral"), without=("--start", "half"))
def _(without, given):
    assert [one.night(1).manifest["fit"]["start"] for one in (without, given)] == ["half", "spectral"]


@case(
    "--seed",
    given=("--solver", "paper", "--start", "random", "--seed", "1"),
    without=("--solver", "paper", "--start", "random"),
)
def _(without, given):
    before, after = (one.night(1).column("skills", "worker", "skill") for one in (without, given))
    assert before != after
    assert before == pytest.approx(after, abs=1e-3)


@case("--confidence", given=("--confidence", "0.5"))
def _(without, given):
    for wide, narrow in zip(without.night(2).rows("skills"), given.night(2).rows("skills"), strict=True):
        assert narrow["skill_high"] - narrow["skill_low"] < wide["skill_high"] - wide["skill_low"]


@case("--probabilities", given=("--probabilities",))
def _(without, given):
    assert all(row["probabilities"] is None for row in without.night(2).rows("scores"))
    for row in given.night(2).rows("scores"):
        assert sum(row["probabilities"].values()) == pytest.approx(1)


@case("--min-labels", given=("--min-labels", "5"))
def _(without, given):
    assert "too-few-labels" not in set(without.night(2).column("scores", "task", "status").values())
    assert set(given.night(2).column("scores", "task", "status").values()) == {"too-few-labels"}


def differ_in_skills(without, given, by=1e-3):
    before, after = (one.night(2).column("skills", "worker", "skill") for one in (without, given))
    return max(abs(before[worker] - after[worker]) for worker in before) > by


def ledger_case(option):
    """Registers a check of an option of `crowdbeam ledger`; it gets two nights of its own."""

    def register(check):
        LEDGER_CASES[option] = check
        return check

    return register


@pytest.mark.parametrize("option", sorted(options_of(ledger_parser())))
def test_option_of_the_ledger_changes_the_output(option, folder, tmp_path):
    assert option in LEDGER_CASES, f"{option} has no case here: add one that shows what it changes"
    LEDGER_CASES[option](two_nights(folder, tmp_path, ()))


@ledger_case("--json")
def _(nights):
    assert run_command("ledger", "show", nights.ledger).out.startswith("Version 2\n")
    found = json.loads(run_command("ledger", "show", nights.ledger, "--json").out)
    assert [one["number"] for one in found["versions"]] == [1, 2]
    for action in ("verify", "compact"):
        assert json.loads(run_command("ledger", action, nights.ledger, "--json").out)["version"] >= 2


@ledger_case("--to")
def _(nights):
    assert run_command("ledger", "rollback", nights.ledger).code == 2
    assert run_command("ledger", "rollback", nights.ledger, "--to", "1").code == 0
    found = json.loads(run_command("ledger", "show", nights.ledger, "--json").out)["versions"]
    assert [(one["number"], one["kind"], one["parent"]) for one in found[1:]] == [(2, "night", 1), (3, "rollback", 1)]
    assert found[2]["classes"] == found[0]["classes"] != found[1]["classes"]


@ledger_case("--worker")
def _(nights):
    assert run_command("ledger", "forget", nights.ledger).code == 2
    assert run_command("ledger", "forget", nights.ledger, "--worker", "w0").code == 0
    run_command("ledger", "export", nights.ledger, "--output", nights.ledger.parent / "all")
    done = Run(0, "", "", nights.ledger.parent / "all")
    assert {row["worker"] for row in done.rows("skills")} == {f"w{number}" for number in range(1, 9)}


@ledger_case("--output")
def _(nights):
    assert run_command("ledger", "export", nights.ledger).code == 2
    done = run_command("ledger", "export", nights.ledger, "--output", nights.ledger.parent / "all")
    assert done.code == 0
    exported = Run(0, "", "", nights.ledger.parent / "all")
    assert len(exported.rows("scores")) == len({task for task, _, _ in ROWS})


@ledger_case("--output-format")
def _(nights):
    for words, name in (((), "part-00000.parquet"), (("--output-format", "csv"), "part-00000.csv")):
        output = nights.ledger.parent / name
        assert run_command("ledger", "export", nights.ledger, "--output", output, *words).code == 0
        assert Run(0, "", "", output).files("skills") == [name]


@ledger_case("--keep-versions")
def _(nights):
    assert run_command("ledger", "compact", nights.ledger).code == 0
    assert nights.versions == ["000001", "000002", "000003"]
    assert run_command("ledger", "compact", nights.ledger, "--keep-versions", "2").code == 0
    assert nights.versions == ["000003", "000004"]
