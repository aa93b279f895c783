"""Polling by several instances of the step: Beam gives one key to one after the other."""

import json

import pytest
from beam_state import Cell
from polling_step import Polling, Reader, polled

from pipelines.errors import RunError
from pipelines.sources.unbounded import CAUGHT_UP, Polled
from pipelines.streaming.envelopes import DRAIN, Marker, unpack_clock
from pipelines.streaming.inbox import unseal


def clocks_in(found):
    return [unpack_clock(unseal(value[1])[2])[1] for tag, value in found if tag == "events" and not value[0]]


def lags_in(found):
    return [json.loads(value[1:])["lag"] for tag, value in found if tag == "reports"]


def test_instances_of_the_step_that_are_polled_in_turn_have_one_reader(tmp_path, monkeypatch):
    polls = [polled("t", position=position) for position in (b"one", b"two", b"three")]
    polling = Polling(tmp_path, monkeypatch, *polls)
    first, second = polling.fn, polling.instance()
    for _ in polling.in_turn(first, second, first):
        polling.now += 16
    assert (polling.n_opened, [at for at, _ in polling.reader.asked]) == (1, [b"", b"one", b"two"])
    list(polling.in_turn(second))
    assert polling.reader.confirmed == [b"one"]
    first.teardown()
    assert not polling.reader.closed
    second.teardown()
    assert polling.reader.closed


def test_no_clock_and_no_lag_is_lost_between_instances_of_the_step(tmp_path, monkeypatch):
    behind = Polled((), b"p", watermark_us=9, lag={"a-0": 5})
    quiet = Polled((), b"p", watermark_us=CAUGHT_UP, lag={"a-0": 0})
    polling = Polling(tmp_path, monkeypatch, behind, quiet, behind, behind, quiet)
    first, second = polling.fn, polling.instance()
    found = list(polling.in_turn(first, second, first, second, first))
    assert [clocks_in(one) for one in found] == [[9], [1000_000_000], [9], [], [1000_000_000]]
    assert [lags_in(one) for one in found] == [[{"a-0": 5}], [{"a-0": 0}], [{"a-0": 5}], [], [{"a-0": 0}]]


def test_no_instance_reads_on_when_another_has_passed_a_request_to_end_on(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch)
    first, second = polling.fn, polling.instance()
    list(polling.in_turn(first, second))
    polling.now += 0.9
    list(polling.in_turn(second))
    polling.control.request(Marker(DRAIN, "d"))
    polling.now += 0.9
    list(polling.in_turn(first))
    n_asked = len(polling.reader.asked)
    list(polling.in_turn(second))
    assert len(polling.reader.asked) == n_asked


def test_a_job_that_was_asked_to_end_reads_no_more_though_the_next_stream_takes_the_request_away(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t"))
    polling.control.request(Marker(DRAIN, "d"))
    polling()
    polling.control.clear()
    polling.now += 2
    restarted = polling.instance()
    found = list(polling.in_turn(polling.fn, restarted))
    assert (found, polling.reader.asked) == ([[], []], [])


def test_a_job_that_goes_on_from_the_savepoint_of_one_that_was_asked_to_end_reads_on(tmp_path, monkeypatch):
    ended = Polling(tmp_path, monkeypatch)
    ended.control.request(Marker(DRAIN, "d"))
    ended()
    ended.control.clear()
    resumed = Polling(tmp_path, monkeypatch, polled("t"))
    resumed.cells = ended.cells
    resumed()
    assert len(resumed.reader.asked) == 1


def test_a_state_that_does_not_say_what_was_told_is_gone_on_from(tmp_path, monkeypatch):
    quiet = Polled((), b"p", watermark_us=CAUGHT_UP, lag={"a-0": 0})
    polling = Polling(tmp_path, monkeypatch, polled("t"), quiet, quiet)
    polling()
    polling.cells["told"] = Cell()
    found = polling()
    assert (clocks_in(found), lags_in(found)) == ([1000_000_000], [{"a-0": 0}])
    assert polling() == []


def test_what_was_read_before_the_state_went_back_is_not_confirmed(tmp_path, monkeypatch):
    polls = [polled("t", position=position) for position in (b"one", b"two", b"two again")]
    polling = Polling(tmp_path, monkeypatch, *polls)
    polling()
    checkpoint = {name: cell.copy() for name, cell in polling.cells.items()}
    polling()
    polling.now += 1
    polling()
    polling.cells = checkpoint
    polling.now += 31
    polling()
    assert polling.reader.confirmed == []


def test_a_reader_that_fails_is_not_gone_on_with(tmp_path, monkeypatch):
    polling = Polling(tmp_path, monkeypatch, polled("t", position=b"one"))
    polling()
    failing, polling.reader.fails = polling.reader, True
    with pytest.raises(RunError, match="gone"):
        polling()
    polling.reader = Reader()
    polling()
    assert (failing.closed, polling.reader.asked) == (True, [(b"one", 77)])
