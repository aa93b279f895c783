"""Every option of `crowdbeam stream` changes what comes out: the same events, without the option and with it.

The cases here run in this process, by the functions of the stages. Those of the model are in
`test_stream_options_model.py`, those of snapshots, of Kafka's options and of what only a whole stream shows in
`test_stream_options_whole.py`.
"""

import numpy as np
import pytest
from kafka_events import message
from sink_rows import score
from stream_options_run import NOW_US, ROWS, OptionRuns, answers, option_folders, settings_for
from test_sink_intervals import Writer, read
from test_stream_options_model import OF_MODEL
from test_stream_options_whole import OF_SNAPSHOTS, ON_KAFKA, ON_PRISM

from pipelines.arguments import option_table
from pipelines.commands.stream import build_parser
from pipelines.records import Origin
from pipelines.sources.messages import parse_messages
from pipelines.sources.source_addresses import source_of
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
    return OptionRuns(folder, tmp_path_factory)


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
        keeper.finished(100.0, run.stream.pool.submit, wait=True)
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
    for place, text, seconds in ("often", (), 60.0), ("rarely", ("--file-every", "5m"), 300.0):
        sinks = ("--sink", tmp_path / place / "sink", "--rejects", tmp_path / place / "rejects")
        plan = plan_of(settings_for(("--source", folder / "labels", *sinks, *text), tmp_path / "control"))
        for _, sink in (*plan.sinks, plan.rejects):
            writer = Writer(sink.folder, every_s=sink.every_s)
            writer.scores(score("a"))
            began = writer.now
            writer.pass_interval()
            assert (writer.now - began, [row["task"] for row in read(sink.folder)]) == (seconds, ["a"])


@pytest.mark.parametrize("option", sorted(CASES))
def test_option_changes_what_the_stream_says(option, run_once):
    given, without, source, check = CASES[option]
    check(*run_once.both(source, without, given))


@pytest.mark.parametrize("option", sorted(PLANS))
def test_option_changes_the_plan(option, folder, tmp_path):
    PLANS[option](folder, tmp_path)


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_every_option_has_a_case(option):
    known = {*CASES, *PLANS, *OF_MODEL, *OF_SNAPSHOTS, *ON_KAFKA, *ON_PRISM}
    assert option in known, f"{option} has no case here: add one that shows what it changes"


def test_cases_are_of_options_that_exist():
    assert {*CASES, *PLANS, *OF_MODEL, *OF_SNAPSHOTS, *ON_KAFKA, *ON_PRISM} <= OPTIONS
