import pytest

from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import DRAIN, SNAPSHOT, Marker


@pytest.fixture
def control(tmp_path):
    return Control(str(tmp_path / "control"))


def test_requests_come_in_the_order_of_their_ids(control):
    markers = [Marker(SNAPSHOT, f"id-{number}", "/somewhere") for number in (3, 1, 2)]
    for marker in markers:
        control.request(marker)
    assert control.requests() == sorted(markers, key=lambda marker: marker.id)


def test_a_folder_that_is_not_there_yet_has_no_requests_and_no_status(control):
    assert control.requests() == []
    assert control.status() is None
    assert control.n_finished(Marker(DRAIN, "x")) == 0


def test_a_request_that_is_taken_back_is_gone(control):
    marker = Marker(SNAPSHOT, "one")
    control.request(marker)
    control.withdraw(marker)
    assert control.requests() == []


def test_a_new_stream_finds_nothing_of_an_earlier_one(control):
    for marker in (Marker(DRAIN, "old"), Marker(SNAPSHOT, "old too")):
        control.request(marker)
        control.finish(marker, 0)
    control.tell({"events": 1})
    control.clear()
    assert (control.requests(), control.status(), control.n_finished(Marker(DRAIN, "old"))) == ([], None, 0)


def test_the_status_is_what_was_told_last_and_when(control):
    control.tell({"events": 1})
    control.tell({"events": 2, "worst_workers": ["wé"]})
    status = control.status()
    assert (status["events"], status["worst_workers"]) == (2, ["wé"])
    assert status["at_s"] > 0


def test_those_who_have_done_what_was_asked_for_are_counted_once_each(control):
    asked, other = Marker(DRAIN, "drain-1"), Marker(DRAIN, "drain-2")
    for sender in (0, 1, 1):
        control.finish(asked, sender)
    control.finish(other, 0)
    assert control.n_finished(asked) == 2
