"""Beam's keyed state in memory, with checkpoints: what a step finds after a rollback."""


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
