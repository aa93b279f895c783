"""A stream takes over from a nightly job: it begins with the ledger, and goes on as if it had seen every night."""

import itertools
import os

import pytest
from histories import Event
from nights import BEGIN_US, aggregate, crowd_nights, ledger_command, nightly, rows_of, write_gold, write_nights
from test_snapshot import Stream

from pipelines.blocks import NO_TIME
from pipelines.errors import InputError, InvalidSettingError
from pipelines.ledger.folder import LedgerFolder
from pipelines.streaming.bootstrap import prepare
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import BOOTSTRAP, Marker

LATER_US = BEGIN_US + 30 * 86_400_000_000


@pytest.fixture
def control(tmp_path):
    return Control(str(tmp_path / "control"))


def begun_with(ledger, control, shards=3):
    return Stream(control, shards).ask(Marker(BOOTSTRAP, "bootstrap", prepare(str(ledger), control, shards)))


def assert_is_the_batch(found, expected):
    """Edges, skills and answers are the batch's; a stream does not count the repeats that were received."""
    pair = ("worker_a", "worker_b")
    assert rows_of(found, "edges", pair) == rows_of(expected, "edges", pair)
    assert rows_of(found, "skills", "worker") == rows_of(expected, "skills", "worker")
    scores = [rows_of(folder, "scores", "task") for folder in (found, expected)]
    for row in (*scores[0].values(), *scores[1].values()):
        del row["n_labels"]
    assert scores[0] == scores[1]


def fed(event):
    """A night's event as one of a stream."""
    task, worker, label, time = event
    return Event(task, worker, label or "c0", NO_TIME if time is None else time, label is None)


def untimed(event):
    return (*event[:3], None)


@pytest.mark.parametrize("shards", [1, 5])
def test_a_stream_that_begins_with_a_ledger_is_the_batch_on_all_nights(tmp_path, control, shards):
    nights = write_nights(tmp_path / "in", crowd_nights(2))
    for files in nights:
        nightly(tmp_path / "ledger", files)
    begun_with(tmp_path / "ledger", control, shards).taken(tmp_path / "snapshot")
    aggregate(tmp_path / "batch", itertools.chain(*nights))
    assert_is_the_batch(tmp_path / "snapshot", tmp_path / "batch")


def test_it_goes_on_exactly_with_corrections_and_withdrawals_of_old_labels(tmp_path, control):
    *nights, streamed = crowd_nights(3)
    old = [event for event in nights[0] if event[2]][:60]
    streamed += [(*event[:2], "c2", LATER_US) for event in old[:20]]
    streamed += [(*event[:2], None, LATER_US) for event in old[20:40]]
    streamed += [(*event[:2], "c2", BEGIN_US - 1) for event in old[40:]]  # older than what is known
    streamed += [("task-gone", "worker-000", "c0", BEGIN_US)]  # older than its withdrawal in the ledger
    files = write_nights(tmp_path / "in", [*nights, streamed])
    for night in files[:2]:
        nightly(tmp_path / "ledger", night)
    stream = begun_with(tmp_path / "ledger", control)
    stream.feed([fed(event) for event in streamed]).feed([fed(event) for event in old[:5]])
    stream.taken(tmp_path / "snapshot")
    aggregate(tmp_path / "batch", itertools.chain(*files))
    assert_is_the_batch(tmp_path / "snapshot", tmp_path / "batch")


def test_known_answers_and_labels_without_a_time_come_along(tmp_path, control):
    nights = [[untimed(event) for event in night] for night in crowd_nights(2) if night]
    files = write_nights(tmp_path / "in", nights)
    gold = str(write_gold(tmp_path / "gold.csv", [(f"task-{number:04d}", "c1") for number in range(40)]))
    nightly(tmp_path / "ledger", files[0])
    nightly(tmp_path / "ledger", files[1], "--gold", gold)
    counts = begun_with(tmp_path / "ledger", control).taken(tmp_path / "snapshot")["counts"]
    batch = aggregate(tmp_path / "batch", itertools.chain(*files), "--gold", gold).manifest["counts"]
    assert_is_the_batch(tmp_path / "snapshot", tmp_path / "batch")
    assert (counts["labels_used"], counts["gold_used"]) == (batch["labels_used"], batch["gold_used"])
    scores = rows_of(tmp_path / "snapshot", "scores", "task").values()
    assert all(row["n_labels"] == row["n_workers"] for row in scores), "a known answer is no label"


def test_labels_that_were_all_withdrawn_do_not_come_back(tmp_path, control):
    gone = [("t", worker, None, 5) for worker in ("ann", "bob")]
    given = [("u", worker, "c1", 5) for worker in ("ann", "bob")]
    files = write_nights(tmp_path / "in", [gone, given], files_a_night=1)
    for night in files:
        nightly(tmp_path / "ledger", night)
    stream = begun_with(tmp_path / "ledger", control, 2).feed([Event("t", "ann", "c1", 4), Event("t", "bob", "c1", 4)])
    assert stream.ledger.edges().n_common.tolist() == [1]


def test_a_run_of_a_ledger_is_refused_and_the_ledger_named(tmp_path, control):
    for files in write_nights(tmp_path / "in", crowd_nights(2)):
        nightly(tmp_path / "ledger", files)
    for run in ("000001", "000002"):
        with pytest.raises(InputError, match=rf"Give the folder of the ledger instead: --bootstrap {tmp_path}/ledger$"):
            prepare(str(tmp_path / "ledger" / "runs" / run), control, 2)
    ledger_command("export", tmp_path / "ledger", "--output", str(tmp_path / "exported"))
    with pytest.raises(InputError, match="Give the folder of the ledger instead"):
        prepare(str(tmp_path / "exported"), control, 2)
    assert not os.path.exists(control.path("bootstrap"))


def test_a_ledger_in_which_a_night_is_at_work_is_refused(tmp_path, control):
    nightly(tmp_path / "ledger", write_nights(tmp_path / "in", crowd_nights(1))[0])
    with LedgerFolder(str(tmp_path / "ledger")).locked(), pytest.raises(InvalidSettingError, match="is in use by"):
        prepare(str(tmp_path / "ledger"), control, 2)
