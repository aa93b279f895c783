"""A snapshot is a run like any other; a stream that begins with a run has its counts, and overlap does no harm."""

import csv
import itertools
import json
import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from beam_state import KeyedState
from histories import Event, block_of, cut, random_events, surviving
from test_label_table import edges_of

from pipelines.batch import run
from pipelines.blocks import split_block
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.run_tables import read_table
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.streaming import snapshot
from pipelines.streaming.bootstrap import prepare
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    BOOTSTRAP,
    CHANGES,
    REPORT,
    SNAPSHOT,
    Marker,
    pack_events,
    pack_marker,
    unpack_shard_change,
)
from pipelines.streaming.inbox import seal
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.planning import described
from pipelines.streaming.settings import StreamSettings
from pipelines.streaming.state_files import LEDGER, write_frame
from pipelines.streaming.track import _TrackTasksFn
from pipelines.streaming.tracking import TrackRules

jobs = map(str, itertools.count())
SHARDS = 3


class Stream:
    """The tracking steps of all shards, and the ledger of their changes; no skills, no answers."""

    def __init__(self, control, shards=SHARDS, ttl=0):
        self.shards, self.control = shards, control
        self.fn = _TrackTasksFn(TrackRules(1, ttl), f"snapshot-{next(jobs)}")
        self.states, self.sent = [KeyedState() for _ in range(shards)], Counter()
        self.ledger, self.tags, self.counts = Ledger(), Counter(), Counter()

    def _send(self, shard, envelope):
        self.sent[shard] += 1
        state, sealed = self.states[shard], seal(0, self.sent[shard], envelope)
        for out in self.fn.process((shard, sealed), state.cell, state.bag, state.held):
            self.tags[out.tag] += 1
            if out.tag == "changes" and out.value[:1] == CHANGES:
                self.ledger.add(unpack_shard_change(out.value).frame)
            elif out.tag == "changes" and out.value[:1] == REPORT:
                self.counts.update(json.loads(out.value[1:])["counts"])

    def feed(self, events):
        for shard, part in split_block(block_of(events), self.shards):
            self._send(shard, pack_events(part.to_bytes(), 0, CAUGHT_UP))
        return self

    def ask(self, marker):
        for shard in range(self.shards):
            self._send(shard, pack_marker(marker))
        return self

    def write_state(self, folder):
        """What a snapshot has the stream write."""
        self.ask(Marker(SNAPSHOT, f"s-{next(jobs)}", folder))
        write_frame(f"{folder}/{LEDGER}", self.ledger.to_bytes())

    def taken(self, output, **options):
        """A snapshot of it, taken as the command takes it, while the stream runs beside."""
        source = StreamSettings("kafka://nowhere:1/labels", ("sink",), self.control.folder, shards=self.shards)
        self.control.describe(described(source))
        done = threading.Event()

        def answer():
            while not done.wait(0.01):
                for marker in self.control.requests():
                    self.write_state(marker.folder)
                    return

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            return snapshot.take(self.control, str(output), **options)
        finally:
            done.set()
            thread.join()


@pytest.fixture
def control(tmp_path):
    return Control(str(tmp_path / "control"))


def history(seed=0, n_events=400):
    return random_events(np.random.default_rng(seed), n_events)


def batch_on(tmp_path, events, timed=False, repeats="last"):
    """The folder of a run of the batch on these events."""
    labels = tmp_path / "labels.csv"
    with labels.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "worker", "label", "op", *(["time"] if timed else [])])
        writer.writerows(
            (e.task, e.worker, *(("", "delete") if e.deleted else (e.label, "")), *([e.time] if timed else []))
            for e in events
        )
    folder = tmp_path / "batch"
    run(BatchSettings((str(labels),), str(folder), AggregateSettings(repeats=repeats)))
    return folder


def rows_of(folder, table, key):
    rows = read_table(str(folder), table).to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_is_the_run_of_the_batch_on_the_labels_that_hold(seed, control, tmp_path):
    rng = np.random.default_rng(seed)
    events = history(seed)
    stream = Stream(control)
    for piece in cut(rng, events, 6):
        stream.feed(piece)
    manifest = stream.taken(tmp_path / "snapshot")
    batch = batch_on(tmp_path, surviving(events))
    for table, key in (
        ("scores", ["task"]),
        ("skills", ["worker"]),
        ("edges", ["worker_a", "worker_b"]),
        ("graph", ["component"]),
    ):
        assert rows_of(tmp_path / "snapshot", table, key) == rows_of(batch, table, key), table
    assert manifest["counts"]["labels_used"] == len(surviving(events))
    assert control.requests() == [], "the request is taken back"


def test_a_snapshot_in_another_format_holds_the_same(control, tmp_path):
    stream = Stream(control).feed(history())
    stream.taken(tmp_path / "one")
    stream.taken(tmp_path / "two", output_format="jsonl")
    assert list((tmp_path / "two" / "scores").glob("*.jsonl"))
    assert rows_of(tmp_path / "one", "scores", ["task"]) == rows_of(tmp_path / "two", "scores", ["task"])


def test_a_snapshot_replaces_an_earlier_run_only_when_told_to(control, tmp_path):
    stream = Stream(control).feed(history())
    stream.taken(tmp_path / "run")
    with pytest.raises((InputError, InvalidSettingError), match="--overwrite"):
        stream.taken(tmp_path / "run")
    stream.feed([Event("new", "ann", "yes", 1)])
    stream.taken(tmp_path / "run", overwrite=True)
    assert "new" in {row["task"] for row in rows_of(tmp_path / "run", "scores", ["task"])}


def test_a_snapshot_is_asked_for_by_a_path_that_every_worker_understands(control, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    stream = Stream(control).feed(history())
    monkeypatch.setattr(
        stream, "write_state", lambda folder: asked.append(folder) or Stream.write_state(stream, folder)
    )
    stream.taken("run")
    assert asked == [str(tmp_path / "run" / "_staging" / "state")]
    assert (tmp_path / "run" / "manifest.json").exists()


def test_a_snapshot_that_cannot_be_written_leaves_the_stream_as_it_was(control, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    events = history()
    stream = Stream(control).feed(events[:200])
    stream.ask(Marker(SNAPSHOT, "in-vain", str(tmp_path / "file" / "state")))
    stream.feed(events[200:])
    assert stream.ledger.edges() == edges_of(surviving(events))


def test_a_snapshot_of_no_stream_is_refused(control, tmp_path):
    with pytest.raises(InputError, match=r"is no control folder of a stream: it has no stream\.json"):
        snapshot.take(control, str(tmp_path / "run"))


def test_a_stream_that_does_not_answer_leaves_neither_a_run_nor_a_request(control, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "SNAPSHOT_S", 0.3)
    control.describe(described(StreamSettings("kafka://nowhere:1/labels", ("sink",), "c")))
    with pytest.raises(RunError, match=r"did not answer within 0\.3 s"):
        snapshot.take(control, str(tmp_path / "run"))
    assert control.requests() == []
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize("shards", [1, SHARDS, 5])
def test_a_stream_that_begins_with_a_snapshot_has_its_counts_with_any_number_of_shards(shards, control, tmp_path):
    events = history(3)
    stream = Stream(control).feed(events)
    stream.taken(tmp_path / "run")
    other = Control(str(tmp_path / "other"))
    again = Stream(other, shards).ask(Marker(BOOTSTRAP, "bootstrap", prepare(str(tmp_path / "run"), other, shards)))
    assert again.ledger.edges() == stream.ledger.edges() == edges_of(surviving(events))
    assert again.counts["events_bootstrapped"] == again.ledger.n_events == stream.ledger.n_events
    assert again.feed(events).ledger.edges() == stream.ledger.edges(), "events that come again change nothing"


@pytest.mark.parametrize("shards", [1, SHARDS, 5])
def test_what_closed_tasks_have_counted_is_in_the_stream_that_begins_with_the_snapshot(shards, control, tmp_path):
    events = [replace(event, time=event.time * 100) for event in history(4)]
    events.sort(key=lambda event: event.time)
    stream = Stream(control, ttl=1000)
    for piece in cut(np.random.default_rng(4), events, 20):
        stream.feed(piece)
    manifest = stream.taken(tmp_path / "run")
    assert stream.tags["labels"] > 0
    tasks = {event.task for event in events}
    assert manifest["counts"]["tasks"] < len(tasks), "some are closed"
    other = Control(str(tmp_path / "other"))
    folder = prepare(str(tmp_path / "run"), other, shards)
    again = Stream(other, shards, ttl=1000).ask(Marker(BOOTSTRAP, "bootstrap", folder))
    assert again.ledger.edges() == stream.ledger.edges()
    assert again.counts["events_bootstrapped"] == again.ledger.n_events == stream.ledger.n_events


def test_a_control_folder_that_was_begun_in_before_adds_nothing_to_what_a_stream_begins_with(control, tmp_path):
    events = sorted((replace(event, time=event.time * 100) for event in history(4)), key=lambda event: event.time)
    stream = Stream(control, ttl=1000)
    for piece in cut(np.random.default_rng(4), events, 20):
        stream.feed(piece)
    stream.taken(tmp_path / "snapshot")
    other = Control(str(tmp_path / "other"))
    prepare(str(tmp_path / "snapshot"), other, 5)
    labels = surviving(history(5))
    folder = prepare(str(batch_on(tmp_path, labels)), other, SHARDS)
    again = Stream(other).ask(Marker(BOOTSTRAP, "bootstrap", folder))
    assert again.ledger.edges() == edges_of(labels)
    assert again.counts["events_bootstrapped"] == len(labels)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_stream_that_begins_with_a_run_of_the_batch_has_its_counts(shards, control, tmp_path):
    labels = surviving(history(5))
    folder = prepare(str(batch_on(tmp_path, labels)), control, shards)
    stream = Stream(control, shards).ask(Marker(BOOTSTRAP, "bootstrap", folder))
    assert stream.ledger.edges() == edges_of(labels)


def test_labels_of_the_run_and_of_the_stream_may_overlap_and_the_later_time_holds(control, tmp_path):
    first = [Event("t", "ann", "yes", 5), Event("t", "bob", "yes", 5), Event("u", "ann", "no", 5)]
    folder = prepare(str(batch_on(tmp_path, first, timed=True)), control, 2)
    stream = Stream(control, 2)
    overlap = [first[0], Event("t", "bob", "no", 4), Event("u", "ann", "yes", 6)]
    stream.feed(overlap[:1]).ask(Marker(BOOTSTRAP, "bootstrap", folder)).feed(overlap[1:])
    assert stream.ledger.edges() == edges_of(surviving([*first, *overlap]))


@pytest.mark.parametrize("repeats", ["last", "first", "error"])
def test_a_stream_that_begins_with_a_run_knows_its_withdrawals(control, tmp_path, repeats):
    first = [
        Event("t", "ann", "yes", 5), Event("t", "bob", "yes", 5), Event("t", "cat", "no", 5),
        Event("t", "ann", "yes", 6, True), Event("t", "cat", "no", 6, True), Event("t", "cat", "yes", 6),
    ]  # fmt: skip
    folder = prepare(str(batch_on(tmp_path, first, True, repeats)), control, 2)
    stream = Stream(control, 2).ask(Marker(BOOTSTRAP, "bootstrap", folder))
    held = [first[1], first[5]]  # in a file a label of the same time that stands later is given again
    assert stream.ledger.edges() == edges_of(held)
    assert stream.feed([Event("t", "ann", "no", 4)]).ledger.edges() == edges_of(held)
    again = Event("t", "ann", "no", 7)
    assert stream.feed([again]).ledger.edges() == edges_of([*held, again])


def test_a_run_whose_inputs_have_changed_cannot_be_begun_with(control, tmp_path):
    folder = batch_on(tmp_path, surviving(history(6)))
    (tmp_path / "labels.csv").write_text("task,worker,label\nt,ann,x\n", "utf-8")
    with pytest.raises(InputError, match=r"which is gone or has changed\. Run the batch again"):
        prepare(str(folder), control, 2)
