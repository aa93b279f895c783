"""--task-ttl: when tasks close, what becomes of late labels, last answers and verdicts, against the rule in plain."""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from command_line import run_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import (
    last_events,
    latest_of,
    ledger_command,
    nightly,
    rows_of,
    run_of,
    state_of,
    write_events,
    write_gold,
)

from pipelines import nightly as road
from pipelines.late import LATE
from pipelines.ledger import night
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.night_settings import NightSettings
from pipelines.run_tables import read_table
from pipelines.settings import BatchSettings

NO_TIME = -(1 << 63)
FUTURE = 4_070_908_800_000_000  # 2099


class ModelOfClosing:
    """The rule, one event at a time.

    The clock is the latest time of an event that was taken and is not in the future. When a night is over, tasks whose
    latest event is older than the clock less the time to live are closed; what is closed stays closed. An event without
    a time or from the future keeps its task open as long as events of today's date would. So does a known answer, which
    is an event of the worker "" without a time.
    """

    def __init__(self, today):
        self.today, self.clock, self.closed_before = today, NO_TIME, NO_TIME
        self.latest, self.taken = {}, []

    def is_closed(self, task):
        return task in self.latest and self.latest[task] < self.closed_before

    def night(self, files, ttl):
        """Takes a night's events; gives the late ones and the tasks that close."""
        shut = {task for task in self.latest if self.is_closed(task)}
        late = []
        for number, events in enumerate(files):
            for place, event in enumerate(events):
                task, _, _, time = event
                if task in shut:
                    late.append((number, place, event))
                    continue
                self.taken.append(event)
                is_past = time is not None and time < FUTURE
                self.latest[task] = max(self.latest.get(task, NO_TIME), time if is_past else self.today)
                self.clock = max(self.clock, time if is_past else NO_TIME)
        if ttl and self.clock != NO_TIME:
            self.closed_before = max(self.closed_before, self.clock - ttl)
        return late, {task for task in self.latest if self.is_closed(task)} - shut


events = st.tuples(
    st.sampled_from(["t", "u", "v", "x"]),
    st.sampled_from(["ann", "bob", "cem"]),
    st.sampled_from(["yes", "no", None]),
    st.sampled_from([None, *range(0, 60, 4), FUTURE, FUTURE + 1]),
)
answers = st.lists(st.tuples(st.sampled_from(["x", "own-0-0", "own-1-0"]), st.sampled_from(["yes", "no"])), max_size=2)
nights = st.lists(
    st.tuples(
        st.lists(st.lists(events, min_size=1, max_size=6), min_size=1, max_size=2),
        st.one_of(st.just([]), answers),
        st.sampled_from([0, 5, 20]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(nights=nights, rescore=st.sampled_from(["changed", "all"]))
def test_nights_go_by_the_rule(nights, rescore):
    """Labels without times and from the future, known answers, a time to live that changes or is taken away."""
    with tempfile.TemporaryDirectory() as folder:
        model, ledger, verdicts = ModelOfClosing(today=1 << 60), f"{folder}/ledger", Counter()
        for number, (files, answers, ttl) in enumerate(nights):
            files = [[*part, (f"own-{number}-{k}", "ann", "yes", 1)] for k, part in enumerate(files)]
            paths = [str(write_events(Path(folder, f"{number}-{k}.csv"), part)) for k, part in enumerate(files)]
            answers = answers and [*answers, (f"gold-{number}", "yes")]
            known = [(task, "", label, None) for task, label in answers]
            gold = [str(write_gold(Path(folder, f"{number}.csv"), [event[::2] for event in known]))] if known else []
            batch = BatchSettings(tuple(paths), "", gold=tuple(gold))
            road.run(NightSettings(batch, ledger, task_ttl_us=ttl, shards=2, rescore=rescore))
            late, closing = model.night([*files, known], ttl)
            version = LedgerFolder(ledger).existing()
            assert (version.clock_us, version.closed_before_us) == (model.clock, model.closed_before)
            sources, n_gold = [*paths, *gold], sum(not event[1] for *_, event in late)
            assert _rejected(run_of(ledger)) == sorted((sources[k], place, event[:2]) for k, place, event in late)
            assert version.counts.get(f"labels_rejected.{LATE}", 0) == len(late) - n_gold
            assert version.counts.get(f"gold_rejected.{LATE}", 0) == n_gold
            assert state_of(ledger)["rows"] == last_events(model.taken)
            scores = rows_of(run_of(ledger), "scores", "task")
            held = {task for (task, who), (label, *_) in last_events(model.taken).items() if label and who}
            assert closing & held <= scores.keys()  # a last answer
            verdicts.update(scores[task]["label"] for task in closing & held)
            assert dict(version.closed) == dict(verdicts)
            assert version.counts["tasks_closed"] == verdicts.total()


def _rejected(run):
    """(file, position, (task, worker)) of the late rejects of a run."""
    rows = read_table(run, "rejects").to_pylist()
    assert {row["reason"] for row in rows} <= {LATE}
    records = [json.loads(row["record"]) for row in rows]
    return sorted(
        (row["source"], row["position"], (record["task"], record.get("worker", "")))
        for row, record in zip(rows, records, strict=True)
    )


HOUR = 3_600_000_000


def test_the_command_closes_tasks_and_rejects_what_is_late(tmp_path):
    first = [
        ("old", "ann", "a", 0),
        ("old", "bob", "a", 0),
        ("new", "ann", "b", 30 * HOUR),
        ("new", "bob", "b", 30 * HOUR),
    ]
    ledger, ttl = tmp_path / "ledger", ("--task-ttl", "24h")
    told = nightly(ledger, [write_events(tmp_path / "1.csv", first)], *ttl)
    assert told["counts"]["tasks_closed"] == 1
    late = [("new", "cem", "b", 31 * HOUR), ("old", "cem", "b", 32 * HOUR), ("old", "ann", None, 33 * HOUR)]
    told = nightly(ledger, [write_events(tmp_path / "2.csv", late)], *ttl)
    assert told["counts"]["labels_rejected"] == told["counts"]["labels_rejected.late-label"] == 2
    assert LedgerFolder(str(ledger)).existing().clock_us == 31 * HOUR  # late labels do not move the clock
    rows = read_table(run_of(ledger), "rejects").to_pylist()
    assert [(row["reason"], row["source"], row["position"]) for row in rows] == [
        ("late-label", str(tmp_path / "2.csv"), 1),
        ("late-label", str(tmp_path / "2.csv"), 2),
    ]
    assert [json.loads(row["record"]) for row in rows] == [
        {"task": "old", "worker": "cem", "label": "b", "submitted_at_us": 32 * HOUR},
        {"task": "old", "worker": "ann", "op": "delete", "submitted_at_us": 33 * HOUR},
    ]
    assert "--task-ttl" in rows[0]["detail"]
    assert rows_of(run_of(ledger), "scores", "task").keys() == {"new"}


def test_a_task_closes_only_when_it_is_older_than_the_time_to_live(tmp_path):
    rows = [("edge", "ann", "a", HOUR), ("gone", "ann", "a", HOUR - 1), ("now", "ann", "a", 2 * HOUR)]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)], "--task-ttl", "1h")
    late = [("edge", "bob", "a", 2 * HOUR), ("gone", "bob", "a", 2 * HOUR)]
    told = nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", late)], "--task-ttl", "1h")
    assert (told["counts"]["labels_used"], told["counts"]["labels_rejected"]) == (1, 1)


def test_a_night_of_late_labels_alone_leaves_the_labels_as_they_were(tmp_path):
    rows = [("old", "ann", "a", 0), ("now", "ann", "a", 2 * HOUR)]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)], "--task-ttl", "1h")
    before = state_of(tmp_path / "ledger")
    late = write_events(tmp_path / "2.csv", [("old", "bob", "a", 3 * HOUR)])
    told = nightly(tmp_path / "ledger", [late], "--task-ttl", "1h", code=3)
    assert (told["counts"]["labels_rejected"], told["ledger_version"]) == (1, 1)
    assert state_of(tmp_path / "ledger") == before


def test_a_late_known_answer_is_a_reject_of_its_own_and_the_labels_of_its_night_get_in(tmp_path):
    rows, ttl = [("old", "ann", "a", 0), ("now", "ann", "a", 2 * HOUR)], ("--task-ttl", "1h")
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)], *ttl)
    gold = write_gold(tmp_path / "gold.csv", [("now", "a"), ("old", "b")])
    labels = write_events(tmp_path / "2.csv", [("now", "bob", "a", 2 * HOUR)])
    counts = nightly(tmp_path / "ledger", [labels], "--gold", gold, *ttl, "--fail-if", "rejects-share>0")["counts"]
    assert (counts["labels_used"], counts["labels_rejected"]) == (1, 0)
    assert (counts["gold_used"], counts["gold_rejected"], counts["gold_rejected.late-label"]) == (1, 1, 1)
    (row,) = read_table(run_of(tmp_path / "ledger"), "rejects").to_pylist()
    assert (row["reason"], row["source"], row["position"]) == (LATE, str(gold), 1)
    assert json.loads(row["record"]) == {"task": "old", "label": "b"}
    assert row["detail"] == "The task was closed before this known answer arrived: see --task-ttl."


def test_a_night_of_late_known_answers_alone_is_told_and_leaves_the_ledger_as_it_was(tmp_path):
    rows, ttl = [("old", "ann", "a", 0), ("now", "ann", "a", 2 * HOUR)], ("--task-ttl", "1h")
    first = write_events(tmp_path / "1.csv", rows)
    nightly(tmp_path / "ledger", [first], *ttl)
    before, gold = state_of(tmp_path / "ledger"), write_gold(tmp_path / "gold.csv", [("old", "b")])
    run = run_command("nightly", first, "--gold", gold, "--ledger", tmp_path / "ledger", *ttl)
    assert (run.code, run.err) == (
        3,
        "crowdbeam: There was no usable known answer among 1: 1 late-label. "
        "The ledger is as it was; the night can be run again.\n",
    )
    assert "late-label  1" in run.out.partition("Known answers of the night")[2]
    assert state_of(tmp_path / "ledger") == before


def test_a_task_that_closes_without_an_answer_is_not_counted_as_one_that_has_one(tmp_path):
    rows = [("gone", "ann", "a", 0), ("gone", "ann", None, 1), ("old", "ann", "a", 0), ("now", "ann", "a", 2 * HOUR)]
    ledger, ttl = tmp_path / "ledger", ("--task-ttl", "1h")
    assert nightly(ledger, [write_events(tmp_path / "1.csv", rows)], *ttl)["counts"]["tasks_closed"] == 1
    late = [("gone", "bob", "a", 2 * HOUR), ("now", "bob", "a", 2 * HOUR)]
    run = run_command("nightly", write_events(tmp_path / "2.csv", late), "--ledger", ledger, *ttl)
    assert "late-label  1" in run.out  # it is closed
    for told in (run, run_command("ledger", "show", ledger)):
        (line,) = [line for line in told.out.splitlines() if "closed" in line]
        assert line.split() == ["closed", "with", "an", "answer", "1"]


def test_what_an_older_segment_says_of_a_task_does_not_close_it(tmp_path, monkeypatch):
    """The task has had a label since, which stands in another segment."""
    monkeypatch.setattr(night, "_MERGED_ROWS", 0)
    ledger = tmp_path / "ledger"
    nightly(ledger, [write_events(tmp_path / "1.csv", [("t", "ann", "a", 0), ("u", "ann", "a", 0)])])
    nightly(ledger, [write_events(tmp_path / "2.csv", [("t", "bob", "a", 30 * HOUR)])])
    told = nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 40 * HOUR)])], "--task-ttl", "24h")
    assert told["counts"]["tasks_closed"] == 1
    assert rows_of(run_of(ledger), "scores", "task").keys() == {"u", "v"}
    assert nightly(ledger, [write_events(tmp_path / "4.csv", [("t", "cem", "a", 41 * HOUR)])])["ledger_version"] == 4


def test_a_task_at_the_very_edge_of_one_night_closes_in_the_next(tmp_path, monkeypatch):
    """It is alone in its segment, whose times tell whether it is looked at."""
    monkeypatch.setattr(night, "_MERGED_ROWS", 0)
    for number, told in ((1, 0), (2, 0), (3, 1), (4, 2)):
        file = write_events(tmp_path / f"{number}.csv", [(f"t{number}", "ann", "a", number * HOUR)])
        closed = nightly(tmp_path / "ledger", [file], "--task-ttl", "1h", "--shards", "1")["counts"]["tasks_closed"]
        assert closed == told, number


def test_a_label_from_the_future_closes_no_other_task(tmp_path):
    rows = [("t", "ann", "a", 10 * HOUR), ("u", "bob", "a", 11 * HOUR), ("v", "ann", "a", FUTURE)]
    ttl = ("--task-ttl", "24h")
    told = nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)], *ttl)
    assert told["counts"]["tasks_closed"] == 0
    assert LedgerFolder(str(tmp_path / "ledger")).existing().clock_us == 11 * HOUR
    told = nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("t", "bob", "a", 12 * HOUR)])], *ttl)
    assert (told["counts"]["labels_used"], told["counts"]["labels_rejected"]) == (1, 0)


def test_a_task_with_a_label_from_the_future_closes_later_like_others(tmp_path):
    ledger = str(tmp_path / "ledger")
    begun = time.time_ns() // 1000
    _night(ledger, write_events(tmp_path / "1.csv", [("t", "ann", "a", FUTURE)]))
    ended = time.time_ns() // 1000
    assert begun <= latest_of(ledger)["t"] <= ended
    _night(ledger, write_events(tmp_path / "2.csv", [("t", "ann", "b", ended)]))  # older than the label of 2099
    assert state_of(ledger)["rows"]["t", "ann"][:2] == ("a", FUTURE)
    _night(ledger, write_events(tmp_path / "3.csv", [("u", "ann", "a", time.time_ns() // 1000)]))
    assert LedgerFolder(ledger).existing().closed == {"a": 1}


def test_a_task_of_which_a_label_is_forgotten_keeps_no_time_from_the_future(tmp_path):
    rows = [("t", "ann", "a", FUTURE), ("t", "bob", "a", HOUR), ("t", "cem", "a", HOUR)]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)])
    ledger_command("forget", tmp_path / "ledger", "--worker", "bob")
    assert latest_of(tmp_path / "ledger")["t"] <= time.time_ns() // 1000


def _night(ledger, file):
    """A night with the shortest time to live that there is."""
    road.run(NightSettings(BatchSettings((str(file),), ""), ledger, task_ttl_us=1))
