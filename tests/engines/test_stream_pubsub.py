"""The whole stream from Pub/Sub, by the real client and a stand-in of the service, ends with the batch's numbers."""

import threading
from contextlib import contextmanager

import pytest
from pubsub_stand_in import PubSubStandIn
from stream_runs import StreamRun, assert_equal_answers, batch_of, make_events

from pipelines.sinks.interval_files import read_intervals

N_EVENTS = 5_000


@contextmanager
def time_goes_by(service):
    """Messages whose answer came too late for the client are given again when their lease has ended."""
    done = threading.Event()

    def go_by():
        while not done.wait(1):
            service.advance(1)

    clock = threading.Thread(target=go_by)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


def test_messages_of_a_subscription_are_answered_and_broken_ones_rejected(prism, monkeypatch, tmp_path):
    events = make_events(N_EVENTS, n_workers=30)
    _, skills, scores = batch_of(events)
    with PubSubStandIn("labels") as service, time_goes_by(service):
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", service.host)
        service.publish("labels", b"{", *(value.encode() for _, value in events.messages()))
        words = ["--source", "pubsub://lab/labels", "--sink", tmp_path / "answers", "--file-every", "1s"]
        with StreamRun([*map(str, words), *prism.beam_args(streaming=True)], tmp_path / "control") as run:
            status = run.settle(len(events))
            assert (status["events"], status["counts"]["events_read"]) == (len(events), len(events) + 1), "each once"
            assert run.drain() == 0
    rows = {row["task"]: row for row in read_intervals(str(tmp_path / "answers"), "scores").to_pylist()}
    assert_equal_answers(rows, scores)
    found = {row["worker"]: row for row in read_intervals(str(tmp_path / "answers"), "skills").to_pylist()}
    assert {worker: row["skill"] for worker, row in found.items()} == pytest.approx(
        {worker: row["skill"] for worker, row in skills.items()}, abs=1e-6
    )
    (reject,) = read_intervals(str(tmp_path / "answers"), "rejects").to_pylist()
    assert (reject["source"], reject["reason"]) == ("pubsub://lab/labels", "malformed-message")
