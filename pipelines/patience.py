"""Patience: what cannot be reached for a while is tried again, and told."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pipelines.errors import RunError, first_line
from pipelines.waits import WAITS

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_WARN_EVERY_S = 30.0
_TELL_AFTER_S = 1.0  # a transaction that meets another one is no wait


def until_done(
    action: Callable[[], T],
    what: str,
    patience_s: float,
    tried: Callable[[], None] = lambda: None,
    away: tuple[type[Exception], ...] = (OSError,),
) -> T:
    """What `action` gives, which is tried again when it raises one of `away`; `tried` is called after each vain try.

    The errors of files, Beam's too, are `OSError`s. Raises `RunError` when the patience has ended. `what` begins its
    sentence, as "The folder out took nothing".
    """
    began, warned, pause, wait = time.monotonic(), 0.0, _FIRST_PAUSE_S, object()
    try:
        while True:
            try:
                return action()
            except away as error:
                failure = error
            tried()
            now = time.monotonic()
            if now - began > patience_s:
                raise RunError(
                    f"{what} for {now - began:.0f} s: {first_line(failure)}. Start again when it is back."
                ) from failure
            if not warned or now - warned > _WARN_EVERY_S:
                warned = now
                logging.getLogger(__name__).warning("%s: %s; trying again.", what, first_line(failure))
            if now - began >= _TELL_AFTER_S:
                WAITS.lasts(wait, f"{what}: {first_line(failure)}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    finally:
        WAITS.over(wait)
