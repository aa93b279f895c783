"""A request to end is noted when every table that was sent before it is safe, in whatever order that is told."""

import itertools

import pytest
from beam_state import Cell

from pipelines.sinks import DRAINED, WRITTEN
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import DRAIN, Marker, pack_marker
from pipelines.streaming.note_written import _ByStageFn, _NoteWrittenFn
from pipelines.waits import WAITS


@pytest.mark.parametrize("order", set(itertools.permutations(["written", "written", "drained"])))
def test_the_end_is_noted_with_the_last_of_receipts_and_request(tmp_path, order):
    control, cell = Control(str(tmp_path)), Cell()
    marker = Marker(DRAIN, "d", sender=3, sent=2)
    note = _NoteWrittenFn(control, first=10)
    for place, name in enumerate(order):
        notice = (WRITTEN, b"3") if name == "written" else (DRAINED, pack_marker(marker))
        ((stage, data),) = _ByStageFn(control).process(notice)
        assert stage == 3
        note.process((stage, data), cell)
        assert control.n_finished(marker) == (place == len(order) - 1)
    assert [path.name for path in (tmp_path / "done").iterdir()] == ["d-00013.json"]


def test_what_is_no_notice_is_nobodys(tmp_path):
    assert _ByStageFn(Control(str(tmp_path))).process(("scores", b"")) == []


def test_what_the_sink_before_it_waits_for_is_told_in_the_control_folder(tmp_path):
    control = Control(str(tmp_path))
    step = _ByStageFn(control)
    step.setup()
    try:
        WAITS.lasts("a sink", "The sink is away")
        assert control.waits() == ["The sink is away"]
        WAITS.over("a sink")
        assert control.waits() == []
    finally:
        step.teardown()
    WAITS.lasts("a sink", "The sink is away")
    WAITS.over("a sink")
    assert list((tmp_path / "waiting").iterdir()) == []
