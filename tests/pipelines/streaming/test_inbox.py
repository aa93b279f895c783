"""Whatever the order of delivery, envelopes are taken in the order in which they were sent."""

import itertools

from beam_state import Bag
from hypothesis import given
from hypothesis import strategies as st

from pipelines.streaming.inbox import in_turn, seal


@given(st.permutations([(sender, number) for sender in range(2) for number in range(1, 6)]))
def test_every_order_of_delivery_gives_the_order_of_sending(order):
    note, held, taken = {}, Bag(), []
    for sender, number in order:
        taken += in_turn(seal(sender, number, bytes([number])), note, held)
    for sender in range(2):
        assert [number for who, number, _ in taken if who == sender] == [1, 2, 3, 4, 5]
    assert all(envelope == bytes([number]) for _, number, envelope in taken)
    assert not note.get("held")
    assert held.frames == []


def test_what_comes_too_early_survives_in_state_and_note_alone():
    note, held = {}, Bag()
    assert in_turn(seal(0, 2, b"b"), note, held) == []
    again, bag = dict(note), held.copy()
    assert [envelope for _, _, envelope in in_turn(seal(0, 1, b"a"), again, bag)] == [b"a", b"b"]


def test_what_comes_again_is_taken_again_at_once_and_keeps_nothing_else_from_its_turn():
    note, held = {}, Bag()
    given = [(1, b"a"), (2, b"b"), (1, b"a again"), (4, b"d"), (2, b"b again"), (3, b"c"), (5, b"e")]
    taken = [envelope for number, data in given for *_, envelope in in_turn(seal(0, number, data), note, held)]
    assert taken == [b"a", b"b", b"a again", b"b again", b"c", b"d", b"e"]


def test_what_comes_again_does_not_set_the_count_back():
    note, held = {}, Bag()
    for number in (1, 2, 3, 1, 4):
        assert [taken for _, taken, _ in in_turn(seal(0, number, b"x"), note, held)] == [number]


def test_senders_do_not_wait_for_each_other():
    note, held = {}, Bag()
    numbers = itertools.count(1)
    assert in_turn(seal(0, 7, b"early"), note, held) == []
    assert all(in_turn(seal(1, next(numbers), b"x"), note, held) for _ in range(5))
