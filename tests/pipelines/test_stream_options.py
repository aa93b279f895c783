"""Every option of `crowdbeam stream` changes what comes out: the same events, without the option and with it.

The cases here run in this process, by the functions of the stages. Those of snapshots, of Kafka's options and of what
only a whole stream shows are in `test_stream_options_whole.py`.
"""

from collections import Counter

import numpy as np
import pytest
from kafka_events import message
from stream_options_run import NOW_US, ROWS, OptionRun, option_folders, settings_for
from test_stream_options_whole import OF_SNAPSHOTS, ON_KAFKA, ON_PRISM

from pipelines.arguments import option_table
from pipelines.commands.stream import build_parser
from pipelines.errors import InvalidSettingError
from pipelines.records import Origin
from pipelines.sources.endless import source_of
from pipelines.sources.messages import parse_messages
from pipelines.streaming.planning import plan_of
from pipelines.streaming.skill_keeping import SkillKeeper

OPTIONS = option_table(build_parser()).keys() - {"-h", "--help"}
CASES, PLANS = {}, {}


def case(option, given, without=(), source="labels"):
    """Registers a check of two runs in this process; words with braces are paths in the inputs' folder."""

    def register(check):
        CASES[option] = (given, without, source, check)
        return check

    return register


def plan_case(option):
    """Registers a check that needs no events."""

    def register(check):
        PLANS[option] = check
        return check

    return register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return option_folders(tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="module")
def run_once(folder, tmp_path_factory):
    """Runs with the same words are done once."""
    done = {}

    def run(source, words):
        if (source, words) not in done:
            place = tmp_path_factory.mktemp("run")
            start = ("--source", folder / source, "--sink", place / "sink")
            told = [str(word).replace("{}", str(folder)) for word in words]
            done[source, words] = OptionRun((*start, *told), place / "control")
        return done[source, words]

    return run


@case("--source", given=(), source=("labels", "others"))
def _(without, given):
    assert set(given.scores) == {f"other-{task}" for task in without.scores}


@case("--columns", given=("--columns", "task=item"), source="renamed")
def _(without, given):
    assert not without.scores
    assert set(given.scores) == {task for task, _, _ in ROWS}


@case("--time-unit", given=("--time-unit", "s"), source="seconds")
def _(without, given):
    latest = [max(t.table.latest.max() for t in run.stream.trackers) for run in (without, given)]
    assert latest == [NOW_US // 1_000_000 + len(ROWS) - 1, NOW_US + (len(ROWS) - 1) * 1_000_000]


@case("--max-ahead", given=("--max-ahead", "4h"), source="ahead")
def _(without, given):
    assert [row["reason"] for row in without.rejects] == ["time-in-the-future"]
    assert given.rejects == []
    assert given.scores.keys() - without.scores.keys() == {"late"}


@case("--block", given=("--block", "50"))
def _(without, given):
    assert [size for _, size in without.blocks] == [len(ROWS)]
    assert len(given.blocks) == -(-len(ROWS) // 50)
    assert max(size for _, size in given.blocks) == 50


@case("--readers", given=("--readers", "3"), without=("--readers", "1"), source="many")
def _(without, given):
    assert {reader for reader, _ in without.blocks} == {0}
    assert given.plan.track.n_readers == given.plan.source.n_readers == 3
    assert len({reader for reader, _ in given.blocks}) > 1


@case("--bootstrap", given=("--bootstrap", "{}/run"), source="others")
def _(without, given):
    assert given.scores.keys() - without.scores.keys() == {task for task, _, _ in ROWS}


@case("--emit-if", given=("--emit-if", "1"), without=("--emit-if", "0", "--block", "20"))
def _(without, given):
    assert without.plan.answers.emit_if == without.plan.skills.emit_if == 0
    assert without.stream.n_rows > given.stream.n_rows


ONE_CLOCK = ("--shards", "1", "--readers", "1")


@case("--task-ttl", given=(*ONE_CLOCK, "--task-ttl", "1h"), without=ONE_CLOCK, source="days")
def _(without, given):
    assert not any(row["closed"] for row in without.scores.values())
    assert [task for task, row in given.scores.items() if row["closed"]] == ["t"]
    assert [row["reason"] for row in given.rejects] == ["late-label"]


@case(
    "--late",
    given=(*ONE_CLOCK, "--task-ttl", "1h", "--late", "reopen"),
    without=(*ONE_CLOCK, "--task-ttl", "1h"),
    source="days",
)
def _(without, given):
    assert [row["reason"] for row in without.rejects] == ["late-label"]
    assert given.rejects == []
    assert given.scores["t"]["label"] == "c1", "the task began anew with the late label"
    assert without.scores["t"]["label"] == "c0"


def due_after(run, seconds, changed=True):
    """Whether the run's keeper, told of something new now, would solve again after so many seconds."""
    keeper = SkillKeeper(run.plan.skills)
    frame = run.ledger().to_bytes()
    keeper.add(frame, 100.0)
    keeper.begin(100.0, run.stream.pool.submit)
    while keeper.busy:
        keeper.finished(100.0, wait=True)
    keeper.seconds = 0.0
    if changed:
        keeper.add(frame, 100.1)
    return keeper.due(100.0 + seconds)


@case("--solve-every", given=("--solve-every", "20s", "--settle-after", "1h"), without=("--settle-after", "1h"))
def _(without, given):
    assert [due_after(without, seconds) for seconds in (1.9, 2.1)] == [False, True]
    assert [due_after(given, seconds) for seconds in (2.1, 19.9, 20.1)] == [False, False, True]


@case("--settle-after", given=("--settle-after", "1m"))
def _(without, given):
    assert [due_after(without, seconds, changed=False) for seconds in (4.9, 5.1)] == [False, True]
    assert [due_after(given, seconds, changed=False) for seconds in (5.1, 59, 61)] == [False, False, True]


@case("--shards", given=("--shards", "3"))
def _(without, given):
    assert (len(without.stream.trackers), len(given.stream.trackers)) == (8, 3)
    assert answers(given) == answers(without)


@case("--classes", given=("--classes", "c0,c1"))
def _(without, given):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    assert without.rejects == []
    assert Counter(row["reason"] for row in given.rejects) == {"label-not-in-classes": strangers}


@case(
    "--class-prior",
    given=("--classes", "c0,c1,c2", "--class-prior", "c0=.01,c1=.01,c2=.98"),
    without=("--classes", "c0,c1,c2"),
)
def _(without, given):
    before, after = (Counter(row["label"] for row in run.scores.values()) for run in (without, given))
    assert after["c2"] > before["c2"]


@case("--prior-skills", given=("--prior-skills", "{}/prior.csv"))
def _(without, given):
    assert given.skills["w0"] < without.skills["w0"]


@case(
    "--prior-strength",
    given=("--prior-skills", "{}/prior.csv", "--prior-strength", "1000"),
    without=("--prior-skills", "{}/prior.csv"),
)
def _(without, given):
    assert abs(given.skills["w0"] + 0.5) < 0.05 < abs(without.skills["w0"] + 0.5)


@case("--probabilities", given=("--probabilities",))
def _(without, given):
    assert all(row["probabilities"] is None for row in without.scores.values())
    for row in given.scores.values():
        assert sum(row["probabilities"].values()) == pytest.approx(1)


@case("--confidence", given=("--confidence", "0.5"))
def _(without, given):
    wide, narrow = (run.stream.skills for run in (without, given))
    for worker, row in narrow.items():
        assert row["skill_high"] - row["skill_low"] < wide[worker]["skill_high"] - wide[worker]["skill_low"]


@case("--min-labels", given=("--min-labels", "4"))
def _(without, given):
    assert "too-few-labels" not in {row["status"] for row in without.scores.values()}
    assert {row["status"] for row in given.scores.values()} == {"too-few-labels"}


@case("--weights", given=("--weights", "binary"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--saturation", given=("--weights", "saturating", "--saturation", "0.5"), without=("--weights", "saturating"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--multiclass", given=("--multiclass", "one-vs-rest"))
def _(without, given):
    assert given.skills == without.skills
    assert answers(given, "margin") != answers(without, "margin")


@case("--solver", given=("--solver", "paper"))
def _(without, given):
    assert fit(given)["rounds"] != fit(without)["rounds"]
    assert not differ_in_skills(without, given, by=1e-4)


@case("--start", given=("--start", "spectral"), without=("--start", "half"))
def _(without, given):
    assert (fit(without)["start"], fit(given)["start"]) == ("half", "spectral")


@case(
    "--seed",
    given=("--solver", "paper", "--start", "random", "--seed", "1"),
    without=("--solver", "paper", "--start", "random"),
)
def _(without, given):
    assert fit(given)["rounds"] != fit(without)["rounds"]


def answers(run, *names):
    return {
        task: [row[name] for name in names or ("label", "probability", "status")] for task, row in run.scores.items()
    }


def fit(run):
    return run.stream.solution.solved.account()


def differ_in_skills(without, given, by=1e-3):
    return max(abs(without.skills[worker] - given.skills[worker]) for worker in given.skills) > by


@plan_case("--model")
def _(folder, tmp_path):
    words = ("--source", folder / "labels", "--sink", tmp_path / "sink", "--model")
    assert settings_for((*words, "one-coin"), tmp_path).aggregate.model == "one-coin"
    with pytest.raises(InvalidSettingError, match="--model is 'two-coin'; it takes one-coin"):
        settings_for((*words, "two-coin"), tmp_path)


@plan_case("--message-format")
def _(folder, tmp_path):
    found = []
    for kind in ("json", "avro"):
        words = ("--source", "kafka://localhost:1/labels", "--sink", "sink", "--message-format", kind)
        events = source_of(settings_for(words, tmp_path)).events
        parsed = parse_messages([message(1)], np.zeros(1, np.int64), np.full(1, NOW_US), Origin(0, "k"), events)
        found.append((parsed.block is not None, parsed.counts.get("events_rejected.malformed-message", 0)))
    assert found == [(True, 0), (False, 1)]


@plan_case("--file-every")
def _(folder, tmp_path):
    words = ("--source", folder / "labels", "--sink", tmp_path / "sink", "--rejects", tmp_path / "rejects")
    for text, seconds in ((), 60.0), (("--file-every", "5m"), 300.0):
        plan = plan_of(settings_for((*words, *text), tmp_path / "control"))
        assert [sink.every_s for _, sink in (*plan.sinks, plan.rejects)] == [seconds, seconds]


@pytest.mark.parametrize("option", sorted(CASES))
def test_option_changes_what_the_stream_says(option, run_once):
    given, without, source, check = CASES[option]
    if isinstance(source, tuple):
        check(*(run_once(one, words) for one, words in zip(source, (without, given), strict=True)))
    else:
        check(run_once(source, without), run_once(source, given))


@pytest.mark.parametrize("option", sorted(PLANS))
def test_option_changes_the_plan(option, folder, tmp_path):
    PLANS[option](folder, tmp_path)


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_every_option_has_a_case(option):
    known = {*CASES, *PLANS, *OF_SNAPSHOTS, *ON_KAFKA, *ON_PRISM}
    assert option in known, f"{option} has no case here: add one that shows what it changes"


def test_cases_are_of_options_that_exist():
    assert {*CASES, *PLANS, *OF_SNAPSHOTS, *ON_KAFKA, *ON_PRISM} <= OPTIONS
