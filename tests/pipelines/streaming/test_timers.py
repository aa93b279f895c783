"""The one private name of Beam's that the stream uses is still what it is taken for."""

from apache_beam.runners.worker.bundle_processor import OutputTimer
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from pipelines.streaming.timers import FAR_S, set_timer


class Sent(list):
    """Stands for the stream to the runner: what was written to it."""

    def maybe_flush(self):
        pass


class Written:
    def encode_to_stream(self, timer, stream, nested):
        stream.append(timer)


def timer_of(sent):
    """A timer as Beam's worker makes it, with the place for its input's time filled in."""
    return OutputTimer(
        b"key", GlobalWindow(), Timestamp.of(5), PANE_INFO_UNKNOWN, TimeDomain.REAL_TIME, "poll", Written(), sent
    )


def test_beam_still_calls_the_time_that_a_timer_holds_back_what_set_timer_changes():
    assert vars(timer_of(Sent()))["_input_timestamp"] == Timestamp.of(5), (
        "Beam has renamed what pipelines/streaming/timers.py sets: without it streams stand still on Prism"
    )


def test_a_timer_fires_when_it_should_and_holds_nothing_back():
    sent = Sent()
    set_timer(timer_of(sent), 7.5)
    set_timer(timer_of(sent), 8.0, 7.0)
    assert [(timer.fire_timestamp, timer.hold_timestamp) for timer in sent] == [
        (Timestamp.of(7.5), Timestamp.of(FAR_S)),
        (Timestamp.of(8.0), Timestamp.of(7.0)),
    ]


def test_without_it_a_timer_holds_its_step_back_where_its_input_was():
    sent = Sent()
    timer_of(sent).set(Timestamp.of(7.5))
    assert [timer.hold_timestamp for timer in sent] == [Timestamp.of(5)]
