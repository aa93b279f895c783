"""Sinks of a stream: rows that are written again, or late, change nothing.

Each row has an id and a revision (see `schemas/revision.avsc`). A sink keeps, for each id, the row with the highest
revision, or gives its readers what they need to do so. So a replay after a crash does no harm.

Beside tables travel "drained": a stage has sent its last table, write what waits; and the answer "written", with the
receipt of a table whose rows are safe.
"""

from typing import Protocol

import pyarrow as pa

DRAINED, WRITTEN = "drained", "written"
RECEIPT = b"receipt"  # in a table's metadata: who wants to know when its rows are safe
ARRIVED = b"arrived_us"  # when the first of the labels arrived that led to the rows; 0: no label did
KEYS = {"scores": ("task",), "skills": ("worker",), "graph": ("component",), "rejects": ("source", "position")}


class Sink(Protocol):
    """An open sink, in one worker process, whose threads share it.

    What it took may be lost when it raises `RunError`: it then stays failed, and the rows are written to a new one.

    Attributes:
        retries: how often it looked at what is away, or began anew.
    """

    retries: int

    def write(self, name: str, table: pa.Table) -> None:
        """Takes rows of `name`, one of `KEYS`; scores, skills and graph are `schemas.stream_schema`'s rows."""

    def flush(self) -> None:
        """Returns when everything taken is safe; waits for a sink that is away for a while."""

    def close(self) -> None:
        """Lets go of connections."""


class SinkTarget(Protocol):
    """Where rows go; it travels to the workers, so it holds settings and no connection."""

    def check(self) -> None:
        """Makes the sink's tables; raises `InvalidSettingError` or `InputError` when the sink cannot be used."""

    def open(self) -> Sink:
        """A connection."""
