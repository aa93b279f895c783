"""The step that writes to a sink, called as Beam calls it: instances of it share a sink, and the last one closes it."""

from dataclasses import dataclass, field

import pytest
from sink_rows import scores

from pipelines.errors import RunError
from pipelines.sinks.write import WriteRows, _WriteRowsFn
from pipelines.tables import to_bytes


class Sink:
    """Notes what is done with it."""

    def __init__(self):
        self.retries, self.n_flushed, self.closed, self.fails = 0, 0, False, False

    def write(self, name, table):
        assert not self.closed

    def flush(self):
        if self.fails:
            raise RunError("gone")
        self.n_flushed += 1

    def close(self):
        assert not self.closed
        self.closed = True


@dataclass(frozen=True)
class Target:
    """Where nothing is kept; two of one name are the same."""

    name: str
    opened: list = field(default_factory=list, compare=False)

    def check(self):
        """Nothing can be wrong."""

    def open(self):
        self.opened.append(Sink())
        return self.opened[-1]


def instance(target):
    step = _WriteRowsFn(WriteRows(target).target)
    step.setup()
    return step


def write(step):
    """A bundle of one row."""
    step.start_bundle()
    step.process(("scores", to_bytes(scores(["t1"]))))
    list(step.finish_bundle())


def test_a_sink_is_closed_when_the_last_instance_of_the_step_that_uses_it_has_ended():
    target = Target("mine")
    first, second, other = instance(target), instance(Target("mine")), instance(Target("another"))
    for step in (first, second, other):
        write(step)
    (sink,) = target.opened
    first.teardown()
    other.teardown()
    write(second)
    assert (sink.n_flushed, sink.closed, len(target.opened)) == (3, False, 1)
    second.teardown()
    assert sink.closed
    third = instance(target)
    write(third)
    assert len(target.opened) == 2, "who comes later has one of its own"
    third.teardown()
    assert target.opened[1].closed


def test_a_sink_that_failed_is_closed_once_and_another_takes_its_place():
    target = Target("failing")
    first, second = instance(target), instance(target)
    write(first)
    target.opened[0].fails = True
    with pytest.raises(RunError, match="gone"):
        write(first)
    first.teardown()
    assert target.opened[0].closed
    write(second)
    second.teardown()
    assert [sink.closed for sink in target.opened] == [True, True]


def test_an_instance_that_never_wrote_opens_and_closes_nothing():
    target = Target("idle")
    instance(target).teardown()
    assert not target.opened


def test_rows_are_told_safe_only_by_the_sink_that_they_were_written_to():
    """Another bundle on it fails, and a third opens a new one: that one's flush says nothing of these rows."""
    target = Target("shared")
    ours, failing, third = instance(target), instance(target), instance(target)
    for step in (ours, failing):
        step.start_bundle()
        step.process(("scores", to_bytes(scores(["t1"]))))
    (shared,) = target.opened
    shared.fails = True
    with pytest.raises(RunError):
        list(failing.finish_bundle())
    write(third)
    assert len(target.opened) == 2
    with pytest.raises(RunError):
        list(ours.finish_bundle())
