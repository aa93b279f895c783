"""Timers that do not hold the stream back."""

from typing import Any

from apache_beam.utils.timestamp import Timestamp

FAR_S = 4_000_000_000


def set_timer(timer: Any, at_s: float, hold_s: float = FAR_S) -> None:
    """Sets a processing-time timer whose output may be as late as `hold_s`.

    Until it fires, a timer holds back the watermark of its step. Python's timers hold it where it is, for good when
    each firing sets the next; Prism then gives the steps behind it nothing. Beam has no public way to say otherwise.
    """
    timer._input_timestamp = Timestamp.of(hold_s)
    timer.set(Timestamp.of(at_s))
