"""What a process waits for is told again while it lasts, and when it is over."""

import pytest

from pipelines import patience
from pipelines.errors import RunError
from pipelines.waits import AGAIN_S, Waits


class Notices:
    """A board that keeps what it is told."""

    def __init__(self):
        self.told = []

    def tell_waits(self, sentences):
        self.told.append(sentences)


class Clock:
    """A time that moves when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def waits(clock):
    return Waits(clock)


def test_a_wait_is_told_at_once_again_from_time_to_time_and_at_its_end(waits, clock):
    board = Notices()
    waits.tell(board)
    waits.lasts("sink", "The sink is away")
    waits.lasts("sink", "The sink is away")
    assert board.told == [["The sink is away"]]
    clock.now += AGAIN_S
    waits.lasts("sink", "The sink is still away")
    waits.over("sink")
    waits.over("sink")
    assert board.told[1:] == [["The sink is still away"], []]


def test_all_that_is_waited_for_is_told_together(waits):
    board = Notices()
    waits.tell(board)
    waits.lasts("sink", "a")
    waits.lasts("reader 0", "b")
    waits.over("sink")
    assert board.told[1:] == [["a", "b"], ["b"]]


def test_a_board_is_told_until_it_is_left_as_often_as_it_was_named(waits):
    board = Notices()
    for _ in range(2):
        waits.tell(board)
    waits.leave(board)
    waits.lasts("sink", "a")
    waits.leave(board)
    waits.over("sink")
    assert board.told == [["a"]]


@pytest.fixture
def told(monkeypatch, waits):
    """What a board is told of the waits of `patience`, whose seconds pass at once."""
    board, now = Notices(), Clock()
    waits.tell(board)

    def sleep(seconds):
        now.now += seconds

    monkeypatch.setattr(patience, "WAITS", waits)
    monkeypatch.setattr(patience.time, "monotonic", now)
    monkeypatch.setattr(patience.time, "sleep", sleep)
    return board.told


def failing(n_times):
    left = [OSError("it is gone")] * n_times

    def action():
        if left:
            raise left.pop()
        return "done"

    return action


def test_what_is_tried_again_for_a_while_is_told_and_so_is_its_end(told):
    assert patience.until_done(failing(6), "The sink took nothing", 60) == "done"
    assert told == [["The sink took nothing: it is gone"], []]


def test_what_works_the_second_time_is_no_wait(told):
    assert patience.until_done(failing(1), "The sink took nothing", 60) == "done"
    assert told == []


def test_a_wait_is_over_when_patience_is(told):
    with pytest.raises(RunError, match="The sink took nothing for"):
        patience.until_done(failing(100), "The sink took nothing", 60)
    assert told[-1] == []


def test_of_two_that_wait_for_the_same_the_other_waits_on_when_one_is_done(told, waits):
    waits.lasts("the other", "The sink took nothing: it is gone")
    patience.until_done(failing(6), "The sink took nothing", 60)
    assert told[-1] == ["The sink took nothing: it is gone"]
