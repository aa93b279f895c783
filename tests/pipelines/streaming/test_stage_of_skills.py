"""The step that keeps the skills: what it sends on, and what a rollback leaves of it."""

import json
import os
import time
from dataclasses import replace

from stages import TRIANGLE, Keeping, change

from pipelines.streaming.envelopes import (
    DRAIN,
    MARKER,
    MODEL,
    REPORT,
    SNAPSHOT,
    Marker,
    pack_marker,
    pack_shard_change,
    unpack_shard_change,
    unpack_skills,
)
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.rhythm import SNAPSHOT_S
from pipelines.streaming.state_files import LEDGER, read_frame


def test_a_stream_that_is_asked_to_end_settles_first_and_then_tells_every_shard(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(pack_marker(Marker(DRAIN, "d", sender=0)))
    keeping(pack_marker(Marker(DRAIN, "d", sender=1)))
    assert keeping.ticks_until_drained() == [0, 1]
    status = keeping.control.status()
    assert (status["settled"], status["events"], status["model_events"]) == (True, 27, 27)


def test_a_request_to_end_waits_for_changes_that_are_still_on_their_way(tmp_path):
    keeping = Keeping(tmp_path)
    half = len(TRIANGLE) // 2
    keeping(change(0, *TRIANGLE[:half]))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard, events=n)) for shard, n in ((0, len(TRIANGLE)), (1, 0))))
    assert not any(data[:1] == MARKER for _ in range(5) for tag, (_, data) in keeping.tick() if tag == "models")
    keeping(change(0, *TRIANGLE[half:], total=len(TRIANGLE)))
    assert keeping.ticks_until_drained() == [0, 1]
    assert keeping.control.status()["model_events"] == len(TRIANGLE)


def test_a_request_to_end_survives_a_crash_wherever_it_is(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(pack_marker(Marker(DRAIN, "d", sender=0)))
    for marker in (Marker(DRAIN, "d", sender=1), None):
        again = Keeping(tmp_path)
        again.state = keeping.state
        if marker is not None:
            again(pack_marker(marker))
        keeping = again
    assert keeping.ticks_until_drained() == [0, 1]


def test_the_end_tells_each_shard_how_much_was_sent_to_its_board_also_after_a_crash(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard, sent=n)) for shard, n in ((0, 4), (1, 7))))
    again = Keeping(tmp_path)
    again.state = keeping.state
    markers = again.markers_of_the_end()
    version = again.control.status()["model_version"]
    assert [(shard, marker.sent, marker.version) for shard, marker in markers] == [(0, 4, version), (1, 7, version)]


def test_a_model_that_went_out_is_known_after_a_crash_also_while_more_is_to_be_solved(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    while not any(tag == "models" for tag, _ in keeping.tick()):
        time.sleep(0.01)
    before = keeping.state_of().keeper
    assert not before.is_settled
    again = Keeping(tmp_path)
    again.state = keeping.state
    after = again.state_of().keeper
    assert (after.version, after.revision) == (before.version, before.revision)
    assert min(after.version, after.revision) > 0


def test_a_ledger_that_is_made_anew_goes_on_with_the_next_version(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard)) for shard in (0, 1)))
    keeping.ticks_until_drained()
    version = keeping.control.status()["model_version"]
    again = Keeping(tmp_path)
    again.state = keeping.state
    again(change(1, ("u", "ann", "yes", 1)))
    again(*(pack_marker(Marker(DRAIN, "e", sender=shard)) for shard in (0, 1)))
    again.ticks_until_drained()
    status = again.control.status()
    assert status["model_version"] > version
    assert status["events"] == 28


def test_the_ledger_of_a_snapshot_leaves_out_what_came_behind_a_shards_labels(tmp_path):
    keeping = Keeping(tmp_path)
    n = len(TRIANGLE)
    before, behind = change(0, *TRIANGLE), change(0, ("u", "ann", "yes", 1), total=n + 1)
    beside = change(1, ("v", "bob", "no", 1))
    folder = str(tmp_path / "state")
    keeping(before)
    keeping(pack_marker(Marker(SNAPSHOT, "s", folder, sender=0, events=n)))
    keeping(behind, beside)
    keeping(pack_marker(Marker(SNAPSHOT, "s", folder, sender=1, events=1)))
    found, wanted = Ledger(), Ledger()
    found.add(read_frame(f"{folder}/{LEDGER}"))
    for one in (before, beside):
        wanted.add(unpack_shard_change(one).frame)
    assert found.edges() == wanted.edges()
    assert found.n_events == wanted.n_events


def test_a_change_from_behind_the_cut_may_overtake_the_first_request_for_a_snapshot(tmp_path):
    keeping, n, folder = Keeping(tmp_path), len(TRIANGLE), str(tmp_path / "state")
    keeping(change(0, *TRIANGLE), change(0, ("u", "ann", "yes", 1), total=n + 1))
    keeping(*(pack_marker(Marker(SNAPSHOT, "s", folder, sender=shard, events=[n, 0][shard])) for shard in (0, 1)))
    found, wanted = Ledger(), Ledger()
    found.add(read_frame(f"{folder}/{LEDGER}"))
    wanted.add(unpack_shard_change(change(0, *TRIANGLE)).frame)
    assert (found.edges(), found.n_events) == (wanted.edges(), n)


def test_reports_of_readers_are_in_the_status(tmp_path):
    keeping = Keeping(tmp_path)
    report = {"read_at_s": 5.0, "lag": {"labels-0": 5}, "counts": {"events_read": 7, "events_rejected": 1}}
    keeping(REPORT + json.dumps(report).encode(), REPORT + json.dumps({**report, "lag": {"labels-0": 2}}).encode())
    keeping.tick()
    status = keeping.control.status()
    assert (status["lag"], status["counts"]["events_rejected"]) == ({"labels-0": 2}, 2)


BACKLOG = {"read_at_s": 100.0, "arrived_s": 10.0, "lag": {"labels-0": 20_000}, "counts": {"events_read": 27}}


def caught_up(keeping, *envelopes, **report):
    """Whether the stream settles at once when a backlog has been read."""
    keeping(REPORT + json.dumps({**BACKLOG, **report}).encode())
    keeping(REPORT + json.dumps({"lag": {"labels-0": 0}, "counts": {}}).encode(), *envelopes)
    keeping.state_of().keeper.changed_at -= 1.0
    until = time.monotonic() + 10
    while time.monotonic() < until:
        keeping.tick()
        if not keeping.state_of().keeper.busy:
            return keeping.control.status()["settled"]
    raise AssertionError("the solution did not end")


def test_at_the_end_of_a_backlog_the_stream_settles_at_once(tmp_path):
    assert caught_up(Keeping(tmp_path), change(0, *TRIANGLE))


def test_many_events_that_wait_for_a_moment_are_no_backlog(tmp_path):
    assert not caught_up(Keeping(tmp_path), change(0, *TRIANGLE), arrived_s=99.0)


def test_a_backlog_has_not_ended_while_something_that_was_read_is_on_its_way(tmp_path):
    assert not caught_up(Keeping(tmp_path), change(0, *TRIANGLE), counts={"events_read": 28})


def test_labels_that_the_stream_began_with_are_not_taken_for_what_was_read_also_after_a_restart(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(REPORT + json.dumps({"counts": {"events_bootstrapped": 2}}).encode())
    keeping(change(1, ("u", "ann", "yes", 1), ("u", "bob", "yes", 1)))
    again = Keeping(tmp_path)
    again.state = keeping.state
    assert not caught_up(again, change(0, *TRIANGLE[:-1]))
    again(change(0, TRIANGLE[-1]))
    again.state_of().keeper.changed_at -= 1.0
    assert again.state_of().has_caught_up(time.time())


def test_what_was_rejected_is_not_waited_for(tmp_path):
    counts = {"events_read": 28, "events_rejected": 1, "events_rejected.unknown-op": 1}
    assert caught_up(Keeping(tmp_path), change(0, *TRIANGLE), counts=counts)


def test_a_late_label_is_waited_for_like_any_other(tmp_path):
    """The shard that rejects it counts it."""
    counts = {"events_read": 28, "events_rejected": 1, "events_rejected.late-label": 1}
    assert not caught_up(Keeping(tmp_path), change(0, *TRIANGLE), counts=counts)


def test_while_there_is_a_backlog_models_are_as_rare_as_its_rounds(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(REPORT + json.dumps(BACKLOG).encode(), change(0, *TRIANGLE))
    keeper = keeping.state_of().keeper
    now = time.time()
    keeper._solved_at = now - 3
    assert keeper.due(now, behind=True), "the first labels get a model"
    keeper.version, keeper._solved_at, keeper.changed_at = 1, now - 29, now
    assert keeper.due(now)
    assert not keeper.due(now, behind=True)
    assert keeper.due(now + 1, behind=True)


def models(outputs):
    """The models among what a tick gave."""
    return [unpack_skills(data) for tag, (_, data) in outputs if tag == "models" and data[:1] == MODEL]


def ticks_until(keeping, wanted):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := wanted(keeping.tick()):
            return found
    raise AssertionError("it did not come out")


def sent(shard, n, *events, total=0):
    """A change of a shard that has sent `n` envelopes to its board."""
    return pack_shard_change(replace(unpack_shard_change(change(shard, *events, total=total)), sent=n))


def test_a_snapshot_waits_for_changes_that_are_on_their_way(tmp_path):
    keeping, n, folder = Keeping(tmp_path), len(TRIANGLE), str(tmp_path / "state")
    keeping(change(0, *TRIANGLE[:9]))
    keeping(*(pack_marker(Marker(SNAPSHOT, "s", folder, sender=shard, events=[n, 0][shard])) for shard in (0, 1)))
    assert not os.path.exists(folder)
    keeping(change(0, *TRIANGLE[9:], total=n))
    found = Ledger()
    found.add(read_frame(f"{folder}/{LEDGER}"))
    assert found.n_events == n


def test_a_snapshot_that_takes_too_long_is_given_up(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(pack_marker(Marker(SNAPSHOT, "s", str(tmp_path / "state"), sender=0, events=0)))
    (cut,) = keeping.state_of().snapshots.values()
    cut.begun_s -= SNAPSHOT_S - 60
    keeping(change(0, *TRIANGLE))
    assert keeping.state_of().snapshots
    cut.begun_s -= 61
    keeping(change(0, *TRIANGLE, total=2 * len(TRIANGLE)))
    assert not keeping.state_of().snapshots


def test_what_comes_after_a_rest_wakes_the_stream_up(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard)) for shard in (0, 1)))
    keeping.ticks_until_drained()
    keeping.timer.at = None
    keeping.tick()
    assert keeping.timer.at is None, "it rests"
    keeping(change(0, ("u", "ann", "yes", 1)))
    assert keeping.timer.at is not None


def test_a_request_to_end_is_fulfilled_once(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(change(0, *TRIANGLE))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard)) for shard in (0, 1)))
    keeping.ticks_until_drained()
    assert keeping.tick() == []


def test_a_solution_whose_instance_of_the_step_beam_has_ended_is_finished_by_the_next_one(tmp_path):
    keeping = Keeping(tmp_path)
    first, second = keeping.fn, keeping.instance()
    keeping(change(0, *TRIANGLE))
    keeping.tick()
    assert keeping.state_of().keeper.busy
    keeping.fn = second
    first.teardown()
    assert ticks_until(keeping, lambda outputs: [name for tag, (name, _) in outputs if tag == "rows"])


def test_a_model_tells_what_the_shards_had_sent_when_its_solution_began(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(sent(0, 5, *TRIANGLE[:9]))
    keeping.tick()
    assert keeping.state_of().keeper.busy
    keeping(sent(0, 8, *TRIANGLE[9:]))
    assert [model.sent for model in ticks_until(keeping, models)] == [5, 0]


def test_a_change_that_was_overtaken_takes_nothing_back_of_what_its_shard_has_sent(tmp_path):
    keeping = Keeping(tmp_path)
    keeping(sent(0, 5, *TRIANGLE[:9]), sent(0, 3, *TRIANGLE[9:]))
    assert [model.sent for model in ticks_until(keeping, models)] == [5, 0]
