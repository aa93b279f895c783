"""Beam's keyed state in memory, with checkpoints: what a step finds after a rollback."""

from apache_beam.metrics.execution import MetricsContainer
from apache_beam.runners.worker.statesampler import StateSampler, get_current_tracker, set_current_tracker
from apache_beam.utils.counters import CounterFactory


class Cell:
    def __init__(self, data=None):
        self.data = data

    def read(self):
        return self.data

    def write(self, data):
        self.data = data

    def clear(self):
        self.data = None

    def copy(self):
        return Cell(self.data)


class Bag:
    def __init__(self, frames=()):
        self.frames = list(frames)

    def read(self):
        return iter(self.frames)

    def add(self, frame):
        self.frames.append(frame)

    def clear(self):
        self.frames = []

    def copy(self):
        return Bag(self.frames)


class KeyedState:
    """The cell and the bags of one key, and other cells by name."""

    def __init__(self, **cells):
        self.states = {"cell": Cell(), "bag": Bag(), "held": Bag(), **{name: Cell() for name in cells}}

    def __getattr__(self, name):
        return self.states[name]

    def checkpoint(self):
        return {name: state.copy() for name, state in self.states.items()}

    def roll_back(self, checkpoint):
        self.states = {name: state.copy() for name, state in checkpoint.items()}


def gauges_set_by(work):
    """{name: value} of the gauges that are set while `work` is called, as a Beam worker would report them."""
    container, sampler = MetricsContainer("step"), StateSampler("", CounterFactory())
    before = get_current_tracker()
    set_current_tracker(sampler)
    try:
        sampler.start()
        with sampler.scoped_state("step", "work", metrics_container=container):
            work()
        sampler.stop()
    finally:
        set_current_tracker(before)
    return {key.metric.name: data.value for key, data in container.get_cumulative().gauges.items()}
