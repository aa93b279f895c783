"""Signals: each ends a command by an exception, but not where that would leave Python's own lock of imports taken."""

import signal
import threading
from types import FunctionType

import pytest

from pipelines.cli import _signals_raise, _StoppedError


def raise_signal(number, finished):
    signal.raise_signal(number)
    finished.append(number)


def stopped_in(do, number, finished, received):
    with _signals_raise(received):
        do(number, finished)
        threading.Event().wait(60)  # until the signal comes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_an_import_waits_until_it_has_finished(number):
    code = raise_signal.__code__.replace(co_filename="<frozen importlib._bootstrap>")  # as the frames of imports say
    received, finished = [], []
    with pytest.raises(_StoppedError):
        stopped_in(FunctionType(code, globals()), number, finished, received)
    assert finished == [number] == received[:1]


def test_a_signal_anywhere_else_ends_at_once_what_is_done():
    received, finished = [], []
    with pytest.raises(_StoppedError):
        stopped_in(raise_signal, signal.SIGTERM, finished, received)
    assert (received, finished) == ([signal.SIGTERM], [])
