"""Warehouses: finished runs are loaded into tables that people query, each exactly once.

A run has an id that is the same whenever it is loaded again. A warehouse keeps the ids of the runs it holds in the same
transaction as their rows: loading a run twice changes nothing, and a load that was broken off leaves nothing, or is
completed by the next one.

| table | what | key |
|---|---|---|
| scores, skills, edges, graph | the current state | task; worker; worker_a and worker_b; component |
| score_history, skill_history | every row ever loaded, appended | |
| rejects | every reject, appended | |
| runs | one row a run: run_id, ledger, version, whole, counts, when | run_id |

Rows have the columns of their schema, then ``run_id`` and ``version``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipelines.errors import InvalidSettingError, RunError

FILL_AGAIN = (
    "Run crowdbeam nightly, which loads the whole state; without a ledger load the last whole run again, or a new one."
)


@dataclass(frozen=True)
class LoadedRun:
    """A finished run, to be loaded.

    Attributes:
        path: its run folder, with its manifest and its tables.
        run_id: the same at every attempt.
        version: of the ledger it comes from, which grows from night to night; 0: of no ledger.
        whole: whether it holds every answer and every pair of workers. One that does not, a night's run, holds those
            that changed: they take the place of earlier ones. A task whose status is no-labels has lost its answer, and
            a pair without common tasks has vanished: neither stays in the current state. Skills and graph are whole in
            every run: what is not in it is no more.
        ledger: the id of the ledger; empty: of none.
    """

    path: str
    run_id: str
    version: int = 0
    whole: bool = True
    ledger: str = ""


class LastRun(NamedTuple):
    """The last run of a ledger that a warehouse holds; without any, version 0.

    `torn`: a table of the current state was dropped since, so that only the whole state makes it good.
    """

    version: int = 0
    run_id: str = ""
    torn: bool = False


class Warehouse(Protocol):
    """A place where runs are loaded; it holds settings and no connection."""

    @property
    def local_path(self) -> str:
        """The file or folder that it is, which may be on this machine; empty: it is none."""

    @property
    def has_state(self) -> bool:
        """Whether loads change a current state: it is then of one ledger, or of runs of none."""

    def check(self) -> None:
        """Raises `InvalidSettingError` when the warehouse cannot be reached or used; makes what is missing."""

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded: of its highest version."""

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded.

        A warehouse without a current state tells no runs of none.
        """

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there.

        A run of a ledger that is not newer than its last version is there already. Tables of the current state that
        were dropped after runs were loaded are made by a whole run alone, also by the last one loaded again.
        Raises `RunError` when it could not be loaded: nothing has changed then, or the next load completes it. So it
        does when the current state is of another ledger than the run, which it looks at in the same transaction.
        Raises what `check` does when the tables are not as they must be, and `InputError` for a run that is damaged.
        """

    def __str__(self) -> str:
        """The address, without anything secret."""


def other_runs(ledgers: frozenset[str], ledger: str | None) -> str:
    """What keeps runs of `ledger` out of a place that holds those of `ledgers`; empty: nothing. None: a new ledger.

    >>> other_runs(frozenset({""}), "a")
    'holds runs of no ledger'
    """
    others = ledgers - {ledger}
    if others == {""}:
        return "holds runs of no ledger"
    return f"holds the runs of {'another' if ledger != '' else 'a'} ledger" if others else ""


def refuse_others(place: object, ledgers: frozenset[str], run: LoadedRun) -> None:
    """Raises `RunError` when the current state at `place` is of others than the ledger of `run`, and not its own."""
    if others := other_runs(ledgers, run.ledger):
        raise RunError(f"{place} {others}, whose answers run {run.run_id} would overwrite; give it a place of its own.")


def refuse_torn(place: object, gone: Sequence[str], run: LoadedRun, last: LastRun, *, there: bool) -> None:
    """Raises `RunError` when the tables `gone` were dropped and `run` is not what they held; `there`: it was loaded."""
    if gone and (not run.whole or (there and run.run_id != last.run_id)):
        raise RunError(
            f"The table {gone[0]} of {place} was dropped after run {last.run_id} was loaded, and run {run.run_id} "
            f"does not hold all of its rows. {FILL_AGAIN}"
        )


def refuse_strange(table: str, strange: Sequence[str], missing: Sequence[str]) -> None:
    """Raises `InvalidSettingError` when a table has columns, not crowdbeam's, without which no row can be added.

    >>> refuse_strange("scores", [], ["label"])
    """
    if strange:
        renamed = f"If it was {' or '.join(missing)}, rename it back. Else let" if missing else "Let"
        raise InvalidSettingError(
            f"The table {table} has the column {strange[0]}, which is not crowdbeam's and takes no null, so that no "
            f"row can be added. {renamed} it take nulls, or drop it."
        )
