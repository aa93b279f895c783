"""The Pub/Sub source with the real client: what is confirmed is acknowledged, the rest comes again."""

import json
import sys

import grpc
import numpy as np
import pytest
from pubsub_stand_in import START, PubSubStandIn

from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.events import EventSettings
from pipelines.sources import pubsub_reader
from pipelines.sources.pubsub import pubsub_source_of
from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.tables import from_bytes

SOURCE = pubsub_source_of("pubsub://lab/labels")
NOON_US = int(START.timestamp()) * 1_000_000


@pytest.fixture
def service(monkeypatch):
    with PubSubStandIn("labels", "others") as running:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", running.host)
        yield running


@pytest.fixture
def opened(service, request):
    def open_reader(source=SOURCE):
        reader = source.reader(0)
        request.addfinalizer(reader.close)
        return reader

    return open_reader


def message(number, **more):
    return json.dumps({"task": f"t{number}", "worker": "ann", "label": "x", **more}).encode()


def tasks_of(polled):
    return [task for block in polled.blocks for task in block.task.to_pylist()]


def test_events_come_with_the_time_of_their_publication(service, opened):
    service.publish("labels", message(1), message(2, submitted_at_us=7), message(3, op="delete"))
    polled = opened().poll(b"", 100, 5)
    (block,) = polled.blocks
    assert tasks_of(polled) == ["t1", "t2", "t3"]
    assert (block.time.tolist(), block.arrived_us) == ([NOON_US, 7, NOON_US], NOON_US)
    assert (block.deleted.tolist(), block.path, block.source) == ([False, False, True], "pubsub://lab/labels", -1)
    assert (polled.counts["events_read"], polled.more, polled.watermark_us) == (3, False, CAUGHT_UP)


def test_a_batch_is_acknowledged_when_it_is_confirmed_and_not_before(service, opened):
    reader = opened()
    service.publish("labels", message(1))
    first = reader.poll(b"", 100, 5)
    service.publish("labels", message(2))
    second = reader.poll(first.position, 100, 5)
    assert service.waiting("labels") == [message(1), message(2)]
    reader.confirm(first.position)
    assert service.waiting("labels") == [message(2)]
    reader.confirm(second.position)
    reader.confirm(second.position)
    assert service.waiting("labels") == []


def test_what_was_acknowledged_is_neither_acknowledged_again_nor_leased_any_longer(service, opened, monkeypatch):
    service.publish("labels", message(1))
    reader = opened()
    first = reader.poll(b"", 100, 5)
    reader.confirm(first.position)
    service.calls.clear()
    monkeypatch.setattr(pubsub_reader, "LEASE_S", 0)  # every lease is due
    reader.confirm(first.position)
    reader.poll(first.position, 100, 0.1)
    assert service.calls == ["Pull"]


def test_what_was_not_acknowledged_comes_again_when_its_lease_ends(service, opened):
    service.publish("labels", message(1))
    reader = opened()
    first = reader.poll(b"", 100, 5)
    empty = reader.poll(first.position, 100, 0.2)
    assert (empty.blocks, empty.position, empty.more) == ((), first.position, False)
    other = opened()
    for _ in range(5):  # a pull that its reader gave up may still be waiting in the service, and take the message
        service.advance(pubsub_reader.LEASE_S + 1)
        again = other.poll(first.position, 100, 5)
        if again.blocks:
            break
    assert tasks_of(again) == ["t1"]
    assert again.position != first.position


def test_leases_are_renewed_while_a_batch_waits_to_be_confirmed(service, opened, monkeypatch):
    service.publish("labels", message(1))
    reader = opened()
    first = reader.poll(b"", 100, 5)
    service.advance(pubsub_reader.LEASE_S - 1)
    monkeypatch.setattr(pubsub_reader, "LEASE_S", 0)  # every lease is due
    service.calls.clear()
    reader.poll(first.position, 100, 0.1)
    assert service.calls[0] == "ModifyAckDeadline"


def test_a_reader_that_is_set_back_gives_back_what_it_pulled_since(service, opened):
    reader = opened()
    service.publish("labels", message(1))
    first = reader.poll(b"", 100, 5)
    service.publish("labels", message(2))
    second = reader.poll(first.position, 100, 5)
    again = reader.poll(first.position, 100, 5)
    assert tasks_of(again) == ["t2"]
    reader.confirm(second.position)
    assert service.waiting("labels") == [message(1), message(2)]
    reader.confirm(again.position)
    assert service.waiting("labels") == []


def test_a_word_on_batches_of_another_reader_acknowledges_nothing(service, opened):
    service.publish("labels", message(1))
    reader = opened()
    reader.poll(b"", 100, 5)
    for position in (b"", b'{"reader": "other", "batch": 9}'):
        reader.confirm(position)
    assert service.waiting("labels") == [message(1)]


def test_a_backlog_is_pulled_in_several_requests(service, opened, monkeypatch):
    monkeypatch.setattr(pubsub_reader, "_PULL_MESSAGES", 10)
    monkeypatch.setattr(pubsub_reader, "_ACK_IDS", 7)
    service.publish("labels", *[message(number, submitted_at_us=number) for number in range(45)])
    reader = opened()
    first = reader.poll(b"", 30, 5)
    assert (len(tasks_of(first)), first.more, first.watermark_us) == (30, True, 29)
    second = reader.poll(first.position, 30, 5)
    assert sorted(tasks_of(first) + tasks_of(second)) == sorted(f"t{number}" for number in range(45))
    reader.confirm(second.position)
    assert service.waiting("labels") == []


def test_bad_messages_are_rejected_and_acknowledged_like_others(service, opened):
    service.publish("labels", b"?", message(1, op="undo"), b"")
    reader = opened(pubsub_source_of("pubsub://lab/labels", EventSettings(classes=("x", "y"))))
    polled = reader.poll(b"", 100, 5)
    rows = [row for data in polled.rejects for row in from_bytes(data).to_pylist()]
    assert sorted(row["reason"] for row in rows) == ["empty-message", "malformed-message", "unknown-op"]
    assert {row["position"] for row in rows} == {-1}
    assert polled.blocks == ()
    reader.confirm(polled.position)
    assert service.waiting("labels") == []


def test_a_service_that_is_away_is_waited_for(service, opened, caplog):
    reader = opened()
    service.publish("labels", message(1))
    service.fail_with = dict.fromkeys(["Pull", "Acknowledge", "ModifyAckDeadline"], grpc.StatusCode.UNAVAILABLE)
    away = reader.poll(b"", 100, 1)
    assert reader.poll(away.position, 100, 1).blocks == ()
    assert caplog.text.count("is away") == 1
    assert "is away" in away.away
    del service.fail_with["Pull"]
    polled = reader.poll(away.position, 100, 5)
    assert (tasks_of(polled), polled.away) == (["t1"], "")
    reader.confirm(polled.position)
    assert service.waiting("labels") == [message(1)]
    service.fail_with = {}
    reader.confirm(polled.position)
    assert service.waiting("labels") == []


def test_an_idle_reader_does_not_hold_the_clock_back_and_one_whose_service_is_away_does(service, opened):
    reader = opened()
    idle = reader.poll(b"", 100, 0.2)
    assert (idle.blocks, idle.watermark_us) == ((), CAUGHT_UP)
    service.fail_with = {"Pull": grpc.StatusCode.UNAVAILABLE}
    assert reader.poll(idle.position, 100, 1).watermark_us == 0
    service.fail_with = {}
    assert reader.poll(idle.position, 100, 0.2).watermark_us == CAUGHT_UP


def test_a_pull_that_is_answered_with_nothing_tells_that_nothing_waits(service, opened):
    service.answers_at_once = True
    assert opened().poll(b"", 100, 5).watermark_us == CAUGHT_UP


@pytest.mark.parametrize("status", ["NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED"])
def test_what_never_heals_ends_the_run_with_a_sentence(service, opened, status):
    service.fail_with["Pull"] = grpc.StatusCode[status]
    with pytest.raises(RunError, match="no longer gives projects/lab/subscriptions/labels"):
        opened().poll(b"", 10, 1)


def test_a_missing_subscription_is_refused_before_anything_runs_with_a_guess(service):
    SOURCE.check()
    with pytest.raises(InputError, match=f"{service.host} has no subscription 'label' in 'lab'; did you mean 'labels'"):
        pubsub_source_of("pubsub://lab/label").check()
    with pytest.raises(InputError, match="Create it"):
        pubsub_source_of("pubsub://lab/zzz").check()
    service.fail_with = {"GetSubscription": grpc.StatusCode.PERMISSION_DENIED}
    SOURCE.check()
    service.fail_with = {"GetSubscription": grpc.StatusCode.UNAVAILABLE}
    with pytest.raises(InputError, match="does not answer"):
        SOURCE.check()


def test_settings_that_cannot_be_used_are_refused(monkeypatch):
    for url in ("pubsub://lab", "pubsub://lab/a/b", "kafka://lab/a", "pubsub://me:hush@lab/a"):
        with pytest.raises(InvalidSettingError, match="write pubsub://PROJECT/SUBSCRIPTION"):
            pubsub_source_of(url)
    with pytest.raises(InvalidSettingError, match="--readers"):
        pubsub_source_of("pubsub://lab/a", readers=0)
    assert pubsub_source_of("pubsub://lab/a", readers=2).n_readers == 2
    monkeypatch.setitem(sys.modules, "google.cloud.pubsub_v1", None)
    monkeypatch.delattr("google.cloud.pubsub_v1", raising=False)
    with pytest.raises(InvalidSettingError, match=r"pip install 'crowdbeam\[pubsub\]'"):
        SOURCE.check()


def test_missing_credentials_are_told_with_a_sentence(monkeypatch, tmp_path):
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="Set GOOGLE_APPLICATION_CREDENTIALS"):
        SOURCE.check()


def test_positions_of_a_batch_are_counted_from_nought(service, opened):
    service.publish("labels", message(1), message(2))
    (block,) = opened().poll(b"", 10, 5).blocks
    assert (block.sequence, np.asarray(block.offset).tolist()) == (0, [0, 1])
