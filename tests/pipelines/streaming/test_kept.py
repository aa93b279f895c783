"""State that is kept twice: what is at hand is used only while it belongs to what is safe."""

import itertools

import pytest
from beam_state import KeyedState, gauges_set_by

from pipelines.errors import RunError
from pipelines.streaming.kept import _MANY_FRAMES, LAYOUT, Kept

numbers = itertools.count()


class Words:
    """Opens a list of words kept as frames, and counts how often it had to be made from them."""

    def __init__(self, key="k"):
        self.state, self.place, self.n_made = KeyedState(), ("job", str(next(numbers)), key), 0

    def open(self):
        return Kept(self.place, self.state.cell, self.state.bag, self._made)

    def _made(self, frames, note):
        self.n_made += 1
        return [word for frame in frames for word in frame.decode().split()]

    def add(self, word, compact=False):
        kept = self.open()
        kept.value.append(word)
        kept.keep(word.encode(), lambda: " ".join(kept.value).encode(), compact)


def test_an_object_at_hand_is_used_again():
    words = Words()
    for word in "abc":
        words.add(word)
    kept = words.open()
    assert (kept.value, kept.rebuilt, words.n_made) == (["a", "b", "c"], False, 1)


def test_after_a_rollback_the_object_at_hand_is_stale_and_is_made_anew_from_the_frames():
    words = Words()
    words.add("a")
    earlier = words.state.checkpoint()
    words.add("b")
    words.state.roll_back(earlier)
    kept = words.open()
    assert (kept.value, kept.rebuilt) == (["a"], True)


def test_a_rollback_to_the_beginning_finds_nothing():
    words = Words()
    earlier = words.state.checkpoint()
    words.add("a")
    words.state.roll_back(earlier)
    assert words.open().value == []


def test_two_histories_with_as_many_frames_are_told_apart():
    words = Words()
    words.add("a")
    earlier = words.state.checkpoint()
    words.add("b")
    later = words.state.checkpoint()
    words.state.roll_back(earlier)
    words.add("c")
    words.state.roll_back(later)
    assert words.open().value == ["a", "b"]


def test_an_element_that_fails_half_way_leaves_nothing_half_changed():
    words = Words()
    words.add("a")
    words.open().value.append("half")  # and no keep: the element has failed
    assert words.open().value == ["a"]


def test_what_is_put_back_is_at_hand_and_leaves_the_state_as_it_is():
    words = Words()
    words.add("a")
    before = words.state.cell.read()
    words.open().put_back()
    assert words.state.cell.read() == before
    assert words.open().rebuilt is False


def test_many_frames_become_one_of_the_whole():
    words = Words()
    for number in range(_MANY_FRAMES - 1):
        words.add(f"w{number}")
    assert len(words.state.bag.frames) == _MANY_FRAMES - 1
    words.add("last")
    (frame,) = words.state.bag.frames
    assert frame.decode().split() == [*(f"w{number}" for number in range(_MANY_FRAMES - 1)), "last"]
    words.add("more")
    assert words.state.bag.frames[1:] == [b"more"]


def test_frames_are_replaced_by_the_whole_when_asked_for():
    words = Words()
    for word in "ab":
        words.add(word)
    words.add("c", compact=True)
    assert words.state.bag.frames == [b"a b c"]


def test_a_note_goes_back_with_the_state():
    words = Words()
    kept = words.open()
    kept.note["revision"] = 7
    kept.keep(None, bytes)
    earlier = words.state.checkpoint()
    kept = words.open()
    kept.note["revision"] = 8
    kept.keep(None, bytes)
    assert words.open().note["revision"] == 8
    words.state.roll_back(earlier)
    assert words.open().note["revision"] == 7


@pytest.mark.parametrize("part", range(3))
def test_keys_steps_and_jobs_have_objects_of_their_own(part):
    one, other = Words(), Words()
    other.place = tuple(f"{word}!" if place == part else word for place, word in enumerate(one.place))
    one.add("a")
    assert other.open().value == []


def test_a_state_of_a_later_layout_is_refused():
    words = Words()
    words.add("a")
    data = words.state.cell.read()
    words.state.cell.write(data.replace(b'"layout": %d' % LAYOUT, b'"layout": 99'))
    with pytest.raises(RunError, match="layout 99"):
        words.open()


def test_the_size_of_the_state_is_that_of_its_frames():
    words = Words()
    for number in range(2 * _MANY_FRAMES + 3):  # compacted on the way
        gauges = gauges_set_by(lambda word=f"word-{number}": words.add(word))
        assert list(gauges.values()) == [sum(len(frame) for frame in words.state.bag.read())]
        assert list(gauges) == [f"state_bytes.{words.place[1]}.k"]


def test_a_state_of_the_first_layout_is_told_once_and_then_has_the_present_one():
    words = Words()
    words.add("a")
    words.state.cell.write(words.state.cell.read().replace(b'"layout": %d' % LAYOUT, b'"layout": 1'))
    assert words.open().layout == 1
    words.add("b")
    assert words.open().layout == LAYOUT
