"""Polling: where a reader goes on, what it sends to whom, and that it goes on only from a state that fits."""

import json
from types import SimpleNamespace

import pytest
from beam_state import Cell, gauges_set_by
from histories import Event, block_of
from polling_step import Polling, polled, tasks_in

from pipelines.blocks import LabelBlock
from pipelines.errors import RunError
from pipelines.sources.unbounded import CAUGHT_UP, NOT_KNOWN, Polled
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    BOOTSTRAP,
    CLOCK,
    DRAIN,
    EVENTS,
    MARKER,
    REPORT,
    Marker,
    unpack_clock,
    unpack_marker,
)
from pipelines.streaming.places import kinds_of
from pipelines.streaming.poll import PollSource, _PollFn


def polling(readers, shards, kinds=()):
    return _PollFn(PollSource(SimpleNamespace(n_readers=readers), shards, Control("none"), kinds=dict(kinds)))


@pytest.mark.parametrize(("readers", "shards"), [(3, 8), (2, 4)])
def test_readers_and_shards_cannot_change_while_a_stream_lives(readers, shards):
    shape = Cell()
    polling(2, 8)._check(shape)
    polling(2, 8)._check(shape)
    with pytest.raises(RunError, match=f"--readers 2 and --shards 8, and goes on with --readers {readers}"):
        polling(readers, shards)._check(shape)


ON_KAFKA = kinds_of("kafka://h:1/labels", ["kafka://h:1/crowd", "out"])


@pytest.mark.parametrize(
    ("source", "sinks", "told"),
    [
        ("labels", ["kafka://h:1/crowd", "out"], "a source of folder and sinks of kafka, folder;"),
        ("kafka://h:1/labels", ["kafka://h:1/crowd"], "a source of kafka and sinks of kafka;"),
        ("kafka://h:1/labels", ["kafka://h:1/crowd", "out", "logs"], "sinks of kafka, folder, folder;"),
        ("kafka://h:1/labels", ["out", "postgres://me@h/crowd"], "sinks of folder, postgres;"),
    ],
)
def test_kinds_of_source_and_sinks_cannot_change_while_a_stream_lives(source, sinks, told):
    shape = Cell()
    polling(2, 8, ON_KAFKA)._check(shape)
    polling(2, 8, kinds_of("kafka://new:1/labels", ["kafka://new:1/crowd", "gs://b/out"]))._check(shape)
    begun = "begun with .*, a source of kafka and sinks of kafka, folder, and goes on with"
    with pytest.raises(RunError, match=f"{begun} .*{told} they cannot change"):
        polling(2, 8, kinds_of(source, sinks))._check(shape)


def test_a_state_that_does_not_tell_the_kinds_is_gone_on_from_and_tells_them_then():
    shape = Cell()
    polling(2, 8)._check(shape)
    polling(2, 8, ON_KAFKA)._check(shape)
    with pytest.raises(RunError, match="a source of folder"):
        polling(2, 8, kinds_of("labels", ["kafka://h:1/crowd", "out"]))._check(shape)


def test_every_event_goes_to_the_shard_of_its_task_once_and_in_order(tmp_path, monkeypatch):
    names = [f"t{n}" for n in range(40)]
    polling = Polling(tmp_path, monkeypatch, polled(*names), polled(*names))
    first, second = polling.events(), polling.events()
    assert sorted(tasks_in(first[0]) + tasks_in(first[1])) == sorted(names)
    assert tasks_in(first[0]), "both shards have some"
    assert [tasks_in(second[shard]) for shard in (0, 1)] == [tasks_in(first[shard]) for shard in (0, 1)]
    numbers = [number for number, _ in first[0] + second[0]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_next_poll_goes_on_from_the_position_of_the_last_also_in_a_new_worker(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t", position=b"one"))
    polling()
    again = Polling(tmp_path, monkeypatch, polled("t", position=b"two"))
    again.cells = polling.cells
    numbers = [number for envelopes in again.events().values() for number, _ in envelopes]
    again()
    assert polling.reader.asked == [(b"", 77)]
    assert again.reader.asked == [(b"one", 77), (b"two", 77)]
    assert max(numbers) > 1, "envelopes are numbered on"


def test_a_reader_that_has_more_is_polled_at_once_and_one_that_has_not_a_little_later(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t"), Polled((), b"p", more=True))
    waits = []
    for _ in range(3):
        polling()
        waits.append(float(polling.timer.at) - polling.now)
    assert waits == pytest.approx([0.0, 0.0, 0.05])


def test_readers_wait_no_longer_together_when_they_are_many(tmp_path, monkeypatch):
    """One process polls them one after the other: an event waits for all of them."""
    together = set()
    for readers in (2, 4, 8):
        polling = Polling(tmp_path, monkeypatch, readers=readers)
        polling()
        together.add(round(readers * sum(polling.reader.waits), 6))
    assert together == {0.6}


def test_shards_hear_when_a_reader_has_caught_up_and_when_it_falls_behind(tmp_path, monkeypatch):
    quiet = Polled((), b"p", watermark_us=CAUGHT_UP)
    polling = Polling(tmp_path, monkeypatch, polled("t"), quiet, quiet, polled("t"))
    clocks = []
    for _ in range(4):
        told = [unpack_clock(e)[1] for _, e in polling.events().get(0, []) if e[:1] == CLOCK]
        clocks.append(told)
    assert clocks == [[9], [int(polling.now * 1e6)], [], [9]], "who has caught up has read what there was by now"


def marks_of(envelopes, kind=EVENTS):
    return [unpack_clock(envelope)[1] for _, envelope in envelopes if envelope[:1] == kind]


def test_only_the_last_events_of_a_poll_tell_how_far_it_goes(tmp_path, monkeypatch):
    """The others of the poll are still on their way, and may be much older."""
    blocks = tuple(block_of([Event(task, "ann", "yes", time)]) for task, time in (("t", 90), ("u", 10), ("v", 50)))
    polling = Polling(tmp_path, monkeypatch, Polled(blocks, b"p", watermark_us=90), shards=1, ttl_s=60)
    assert marks_of(polling.events()[0]) == [NOT_KNOWN, NOT_KNOWN, 90]


@pytest.mark.parametrize(("ttl_s", "told_after_s"), [(16, 1), (160, 10), (86_400, 60), (0, None)])
def test_where_tasks_close_a_quiet_reader_tells_again_and_again_how_far_it_is(
    tmp_path, monkeypatch, ttl_s, told_after_s
):
    polling = Polling(tmp_path, monkeypatch, ttl_s=ttl_s)
    assert marks_of(polling.events()[1], CLOCK) == [1000_000_000]
    told = []
    for polling.now in range(1001, 1125):
        told += marks_of(polling.events().get(1, []), CLOCK)
    every = range(1000 + told_after_s, 1125, told_after_s) if told_after_s else []
    assert told == [at * 1_000_000 for at in every]


def test_counts_lag_and_rejects_are_reported(tmp_path, monkeypatch):
    counts = {"events_read": 3, "events_rejected": 1, "events_rejected.unknown-op": 1}
    found = Polling(tmp_path, monkeypatch, polled("t", rejects=(b"table",), counts=counts, lag={"a-0": 4}))()
    assert [value for tag, value in found if tag == "rejects"] == [("rejects", b"table")]
    (report,) = [value for tag, value in found if tag == "reports"]
    assert report[:1] == REPORT
    assert json.loads(report[1:]) == {"lag": {"a-0": 4}, "counts": counts, "read_at_s": 1000.0, "arrived_s": 0.0}


def test_a_request_goes_to_every_shard_once_behind_the_events_and_to_end_stops_reading(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled(*"abcdefgh"))
    polling.events()
    polling.control.request(Marker(DRAIN, "d"))
    polling.now += 2
    for envelopes in polling.events().values():
        (number, envelope), *rest = envelopes
        marker = unpack_marker(envelope)
        assert (rest, marker.kind, marker.sender, number > 1) == ([], DRAIN, 1, True)
        assert envelope[:1] == MARKER
    n_asked = len(polling.reader.asked)
    polling.now += 2
    assert polling.events() == {}, "once is enough"
    assert len(polling.reader.asked) == n_asked, "nothing is read after a request to end"


def test_a_stream_that_begins_with_a_run_tells_every_shard_before_its_first_events(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled(*"abcdefgh"), bootstrap="folder")
    for envelopes in polling.events().values():
        marker = unpack_marker(envelopes[0][1])
        assert (envelopes[0][0], marker.kind, marker.folder) == (1, BOOTSTRAP, "folder")
    again = Polling(tmp_path, monkeypatch, bootstrap="folder")
    again.cells = polling.cells
    assert not any(envelope[:1] == MARKER for envelopes in again.events().values() for _, envelope in envelopes)


def test_the_source_hears_what_is_safe_half_a_minute_later(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t", position=b"one"), polled("t", position=b"two"))
    for _ in range(4):
        polling()
        polling.now += 16
    assert polling.reader.confirmed == [b"one"]
    polling.fn.teardown()
    assert polling.reader.closed


def test_few_events_of_several_partitions_travel_together_unless_their_places_matter(tmp_path, monkeypatch):
    blocks = tuple(block_of([Event(task, "ann", "yes", 5)], arrived_us=at) for task, at in (("t", 8), ("u", 6)))
    for ttl_s, together in ((60, [["t"], ["u"]]), (0, [["t", "u"]])):
        polling = Polling(tmp_path, monkeypatch, Polled(blocks, b"p"), shards=1, ttl_s=ttl_s)
        frames = [unpack_clock(e)[2] for _, e in polling.events()[0] if e[:1] == EVENTS]
        found = [LabelBlock.from_bytes(frame) for frame in frames]
        assert [block.task.to_pylist() for block in found] == together
        assert min(block.arrived_us for block in found) == 6


def test_many_events_of_several_partitions_travel_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.streaming.poll._FEW", 1)
    blocks = tuple(block_of([Event(task, "ann", "yes", 5)]) for task in "tu")
    polling = Polling(tmp_path, monkeypatch, Polled(blocks, b"p"), shards=1)
    assert [tasks_in([one]) for one in polling.events()[0] if one[1][:1] == EVENTS] == [["t"], ["u"]]


def test_a_report_of_events_that_wait_does_not_make_them_old(tmp_path, monkeypatch):
    (report,) = [
        json.loads(value[1:])
        for tag, value in Polling(tmp_path, monkeypatch, Polled((), b"p", lag={"a-0": 20_000}))()
        if tag == "reports"
    ]
    assert report["arrived_s"] == report["read_at_s"] == 1000.0


def test_what_is_waiting_is_told_by_partition(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t", lag={"labels.0": 7, "labels.1": 0}))
    assert gauges_set_by(polling) == {"lag.labels.0": 7, "lag.labels.1": 0}
