"""The steps that track and answer: what they send on, and what a rollback leaves of them."""

import json
from dataclasses import replace

from stages import TTL, Answering, Tracking, for_answers, labels
from test_answering import skills

from pipelines.blocks import LabelBlock
from pipelines.sinks import DRAINED
from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.streaming.envelopes import (
    CLOCK,
    CLOSING,
    DRAIN,
    REPORT,
    SNAPSHOT,
    Marker,
    pack_clock,
    pack_marker,
    pack_skills,
    unpack_marker,
)
from pipelines.streaming.inbox import seal, unseal
from pipelines.streaming.state_files import read_frame, state_path
from pipelines.tables import from_bytes


def test_answers_to_a_model_that_was_rolled_back_are_given_again():
    """The rows may never have reached the sink; and a new solution may have the lost one's version."""
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    checkpoint = answering.state.checkpoint()
    assert answering.tasks(pack_skills(skills(1, ann=1.0))) == ["t"]
    answering.state.roll_back(checkpoint)
    assert answering.tasks(pack_skills(skills(1, ann=1.0))) == ["t"]


def test_a_model_that_was_rolled_back_is_not_used_for_later_labels():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    answering(pack_skills(skills(1, ann=1.0)))
    checkpoint = answering.state.checkpoint()
    answering(pack_skills(skills(2, ann=-1.0)))
    answering.state.roll_back(checkpoint)
    answering(for_answers(("u", "ann", "yes", 1), number=2))
    ((_, data),) = answering(pack_skills(skills(2, ann=1.0)))
    assert {row["task"]: row["label"] for row in from_bytes(data).to_pylist()} == {"t": "yes", "u": "yes"}


def test_a_board_that_is_made_anew_knows_the_model():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    answering(pack_skills(skills(7, ann=1.0)))
    again = Answering()
    again.state = answering.state
    assert again(pack_skills(skills(7, ann=5.0))) == [], "it is no newer than the one it knows"
    assert again.tasks(pack_skills(skills(8, ann=1.0))) == ["t"]


def test_revisions_grow_over_rollbacks_even_when_the_clock_goes_back(monkeypatch):
    clock = [2000.0]
    monkeypatch.setattr("pipelines.streaming.answer.time.time", lambda: clock[0])
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    ((_, first),) = answering(pack_skills(skills(1, ann=1.0)))
    again = Answering()
    again.state, clock[0] = answering.state, 1000.0
    ((_, second),) = again(pack_skills(skills(2, ann=2.0)))
    revisions = [from_bytes(data)["revision"][0].as_py() for data in (first, second)]
    assert revisions == sorted(set(revisions))


def test_a_request_to_end_is_told_by_every_shard():
    (drained,) = Answering()(pack_marker(Marker(DRAIN, "d", sender=5)))
    assert (drained[0], unpack_marker(drained[1])) == (DRAINED, Marker(DRAIN, "d", sender=0))


def test_a_request_to_end_waits_for_labels_and_models_that_are_still_on_their_way():
    answering = Answering()
    marker = pack_marker(Marker(DRAIN, "d", sent=2, version=1))
    answering(for_answers(("t", "ann", "yes", 1)))
    assert answering(marker) == []
    assert [name for name, _ in answering(pack_skills(skills(1, ann=1.0)))] == ["scores"]
    late = answering(for_answers(("u", "ann", "yes", 1), number=2))
    assert late[-1][0] == DRAINED
    assert unpack_marker(late[-1][1]).sent == len(late), "one table with the model, and those with the late labels"


def test_a_request_to_end_waits_for_the_model_it_names():
    answering = Answering()
    answering(pack_skills(skills(1, ann=1.0)))
    assert answering(pack_marker(Marker(DRAIN, "d", version=2))) == []
    assert [name for name, _ in answering(pack_skills(skills(2, ann=1.0)))] == [DRAINED]


def test_a_request_to_end_without_a_model_does_not_wait_for_one():
    """No event was counted: what was sent is only how far the readers are, and that waits for a model."""
    answering = Answering()
    assert answering(seal(0, 1, CLOCK)) == []
    ((name, data),) = answering(pack_marker(Marker(DRAIN, "d", sent=2)))
    assert (name, unpack_marker(data).sent) == (DRAINED, 0)


def test_labels_that_the_model_knows_already_are_answered_at_once():
    """They arrive late on their way, and no other model need follow."""
    answering = Answering()
    model = replace(skills(1, ann=1.0), settled=True, sent=2)
    answering(pack_skills(model))
    assert answering.tasks(for_answers(("t", "ann", "yes", 1))) == ["t"]
    assert answering.tasks(for_answers(("u", "ann", "yes", 1), number=2)) == ["u"]
    assert answering.tasks(for_answers(("v", "ann", "yes", 1), number=3)) == [], "a backlog waits for its model"


def test_a_closing_that_overtakes_labels_waits_for_them():
    answering = Answering()
    answering(pack_skills(replace(skills(1, ann=1.0, bob=1.0), sent=9)))
    answering(for_answers(("t", "ann", "yes", 1)))
    assert answering(seal(0, 3, CLOSING + json.dumps(["t"]).encode())) == []
    rows = [
        row
        for _, data in answering(for_answers(("t", "bob", "yes", 1), number=2))
        for row in from_bytes(data).to_pylist()
    ]
    assert [(row["n_workers"], row["closed"]) for row in rows][-1] == (2, True)
    again = Answering()
    again.state = answering.state
    assert again(pack_skills(skills(2, ann=2.0, bob=2.0))) == [], "the task is gone"


def test_a_model_of_layout_1_is_forgotten_for_good():
    answering = Answering()
    answering(for_answers(("t", "ann", "yes", 1)))
    data = answering.state.cell.read()
    answering.state.cell.write(data.replace(b'"layout": 2', b'"layout": 1'))
    answering.state.skills.write(b"M" + bytes(17) + b"a model of another form")
    for number in (2, 3):
        again = Answering()
        again.state = answering.state
        again(for_answers((f"u{number}", "ann", "yes", 1), number=number))
    assert again.tasks(pack_skills(skills(1, ann=1.0))) == ["t", "u2", "u3"]


def test_a_task_that_closes_leaves_the_state():
    answering = Answering()
    answering(pack_skills(skills(1, ann=1.0)))
    answering(for_answers(("t", "ann", "yes", 1), ("u", "ann", "yes", 1)))
    assert answering.tasks(seal(0, 2, CLOSING + json.dumps(["t"]).encode())) == ["t"]
    again = Answering()
    again.state = answering.state
    assert again.tasks(pack_skills(skills(2, ann=1.0))) == ["u"]


def test_events_that_change_a_label_go_on_to_be_answered_and_others_do_not():
    tracking = Tracking(n_readers=1)
    assert [tag for tag, _ in tracking(labels(("t", "ann", "yes", 2)))] == ["labels", "changes"]
    assert [tag for tag, _ in tracking(labels(("t", "ann", "yes", 2)))] == ["changes"], "again, it is counted only"


def test_what_every_reader_has_read_may_close_tasks_without_an_event():
    tracking = Tracking()
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 10 * TTL)))
    ((_, (_, nothing)),) = tracking(pack_clock(1, 0), reader=1)
    assert unseal(nothing) == (3, 3, CLOCK)
    (tag, (shard, sealed)), _ = tracking(pack_clock(1, CAUGHT_UP), reader=1)
    assert (tag, shard, unseal(sealed)) == ("labels", 3, (3, 4, CLOSING + b'["t"]'))


def test_a_tracker_that_is_made_anew_still_knows_its_clock_and_what_is_closed():
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 2 * TTL)))
    again = Tracking(n_readers=1, sent=tracking.sent)
    again.state = tracking.state
    assert "rejects" in [tag for tag, _ in again(labels(("t", "bob", "yes", 2 * TTL)))]
    assert "rejects" in [tag for tag, _ in again(labels(("v", "bob", "yes", 2 * TTL - TTL - 1)))]


def test_what_a_clock_has_closed_stays_closed_after_a_crash():
    tracking = Tracking()
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 10 * TTL)))
    tracking(pack_clock(1, CAUGHT_UP), reader=1)
    again = Tracking(sent=tracking.sent)
    again.state = tracking.state
    closings = [unseal(sealed)[2] for tag, (_, sealed) in again(pack_clock(1, CAUGHT_UP), reader=1) if tag == "labels"]
    assert closings == [CLOCK], "nothing is closed a second time"
    assert "rejects" in [tag for tag, _ in again(labels(("t", "bob", "yes", 0)))]


def test_late_labels_are_counted_where_the_status_is_told():
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 0)))
    tracking(labels(("u", "ann", "yes", 10 * TTL)))
    told = [data for tag, data in tracking(labels(("t", "bob", "yes", 0))) if tag == "changes"]
    (report,) = [json.loads(data[1:]) for data in told if data[:1] == REPORT]
    assert report["counts"] == {"events_rejected": 1, "events_rejected.late-label": 1}


def test_a_request_goes_on_when_every_reader_has_passed_it_on():
    tracking = Tracking()
    assert tracking(pack_marker(Marker(DRAIN, "d", sender=0))) == []
    assert tracking(pack_marker(Marker(DRAIN, "d", sender=0))) == [], "the same reader again"
    ((tag, envelope),) = tracking(pack_marker(Marker(DRAIN, "d", sender=1)), reader=1)
    assert (tag, unpack_marker(envelope)) == ("changes", Marker(DRAIN, "d", sender=3))


def test_a_request_that_half_of_the_readers_have_passed_on_survives_a_crash():
    tracking = Tracking()
    tracking(pack_marker(Marker(DRAIN, "d", sender=0)))
    again = Tracking(sent=tracking.sent)
    again.state = tracking.state
    assert [tag for tag, _ in again(pack_marker(Marker(DRAIN, "d", sender=1)), reader=1)] == ["changes"]


def test_a_request_that_overtakes_events_waits_for_them():
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 2)))
    assert tracking.take(seal(0, 3, pack_marker(Marker(DRAIN, "d")))) == []
    *_, (tag, envelope) = tracking.take(seal(0, 2, labels(("u", "bob", "yes", 2))))
    assert (tag, unpack_marker(envelope).events) == ("changes", 2)


def test_a_snapshot_holds_the_labels_that_were_read_before_it(tmp_path):
    tracking = Tracking(n_readers=1)
    tracking(labels(("t", "ann", "yes", 2)))
    tracking(pack_marker(Marker(SNAPSHOT, "s", str(tmp_path / "state"))))
    tracking(labels(("t", "bob", "yes", 2)))
    block = LabelBlock.from_bytes(read_frame(state_path(str(tmp_path / "state"), 3)))
    assert (block.task.to_pylist(), block.workers.to_pylist()) == (["t"], ["ann"])
