"""Warehouses: finished runs are loaded into tables that people query, each exactly once.

A run has an id that is the same whenever it is loaded again. A warehouse keeps the ids of the runs it holds in the same
transaction as their rows: loading a run twice changes nothing, and a load that was broken off leaves nothing, or is
completed by the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LoadedRun:
    """A finished run, to be loaded.

    Attributes:
        path: its run folder, with its manifest and its tables.
        run_id: the same at every attempt.
        version: of the ledger it comes from, which grows from night to night; 0: of no ledger.
        whole: whether it holds every answer and every pair of workers. One that does not, a night's run, holds those
            that changed: they take the place of earlier ones. A task whose status is no-labels has lost its answer, and
            a pair without common tasks has vanished.
    """

    path: str
    run_id: str
    version: int = 0
    whole: bool = True


class Warehouse(Protocol):
    """A place where runs are loaded; it holds settings and no connection."""

    def check(self) -> None:
        """Raises `InvalidSettingError` when the warehouse cannot be reached or used; makes what is missing."""

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there.

        Raises `RunError` when it could not be loaded: nothing has changed then, or the next load completes it.
        """

    def __str__(self) -> str:
        """The address, without anything secret."""
