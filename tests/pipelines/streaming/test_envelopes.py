import pytest

from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.streaming import envelopes
from pipelines.streaming.envelopes import (
    CLOCK,
    EVENTS,
    MARKER,
    MODEL,
    Marker,
    Skills,
    join,
    pack_clock,
    pack_events,
    pack_marker,
    pack_skills,
    split,
    unpack_clock,
    unpack_marker,
    unpack_skills,
)


@pytest.mark.parametrize("watermark_us", [0, -1, 1_700_000_000_000_000, CAUGHT_UP])
def test_events_carry_their_reader_and_how_far_it_has_read(watermark_us):
    envelope = pack_events(b"frame", 65_535, watermark_us)
    assert envelope[:1] == EVENTS
    reader, found, frame = unpack_clock(envelope)
    assert (reader, found, bytes(frame)) == (65_535, watermark_us, b"frame")


def test_a_clock_is_events_without_a_frame():
    envelope = pack_clock(3, 7)
    assert envelope[:1] == CLOCK
    reader, found, frame = unpack_clock(envelope)
    assert (reader, found, bytes(frame)) == (3, 7, b"")


@pytest.mark.parametrize("settled", [True, False])
def test_a_model_comes_out_as_it_went_in(settled):
    envelope = pack_skills(Skills(2**40, settled, 2**41, b"model"))
    assert envelope[:1] == MODEL
    found = unpack_skills(envelope)
    assert (found.version, found.settled, found.n_events, bytes(found.frame)) == (2**40, settled, 2**41, b"model")


def test_a_request_comes_out_as_it_went_in():
    marker = Marker("snapshot", "id-1", "/tmp/földer with blanks", 7)  # noqa: S108
    assert pack_marker(marker)[:1] == MARKER
    assert unpack_marker(pack_marker(marker)) == marker


def test_envelopes_that_were_joined_are_split_where_they_were_joined():
    parts = [b"", b"a", bytes(70_000), b"\x01\x00\x00\x00"]
    assert [bytes(part) for part in split(join(parts))] == parts
    assert split(join([])) == []


def test_kinds_of_envelopes_are_told_apart_by_their_first_byte():
    names = ("EVENTS", "CLOCK", "LABELS", "CLOSING", "MODEL", "MARKER", "CHANGES", "REPORT")
    kinds = [getattr(envelopes, name) for name in names]
    assert len(set(kinds)) == len(kinds)
    assert all(len(kind) == 1 for kind in kinds)
