"""Runs into Apache Iceberg, by pyiceberg: one transaction a table, and its snapshots say which runs it holds.

Several tables cannot change in one transaction. So a load goes in steps, each of which is one commit:

1. ``runs`` says, in its property ``crowdbeam.loading``, which run is being loaded and where its folder is;
2. each table takes the run's rows, in a snapshot that bears the run's id, ledger and version;
3. ``runs`` takes the run's row, the version of its ledger goes to a property, and ``crowdbeam.loading`` goes away.

A table that holds the run already is passed over. A load that was broken off is completed by the next one, of the same
run or of any other: that finds ``crowdbeam.loading`` and does the rest first. Two that load at once help each other: of
two commits to a table one comes first; the other fails, looks again, and passes over what is there.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction

from pipelines.addresses import absolute
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.sinks.iceberg_commits import append, exchange, replace
from pipelines.sinks.iceberg_runs import (
    LAST_VERSION,
    LOADING,
    REFILL,
    RUN_ID,
    announced,
    bears,
    holds,
    last_version,
    ledgers_in,
    run_at,
)
from pipelines.sinks.iceberg_tables import identifier_of, lacking, make_tables, opened, secrets_of, table_of, told
from pipelines.sinks.loads import APPENDED, CURRENT, RUNS, LoadTables, loaded_run_of, table_schema
from pipelines.sinks.read_through import ReadThrough
from pipelines.sinks.warehouse import LastRun, LoadedRun, refuse_others, refuse_torn

VERSION, LEDGER = "crowdbeam.version", "crowdbeam.ledger"
TRIES = 8
_FIRST_PAUSE_S = 0.05
_Step: TypeAlias = Callable[[Table, Transaction], int]


@dataclass(frozen=True)
class IcebergWarehouse:
    """Tables in a namespace of an Iceberg catalog.

    Attributes:
        catalog: its name in pyiceberg's configuration, .pyiceberg.yaml or PYICEBERG_CATALOG__NAME__… in the
            environment, where its address and its credentials are.
        namespace: where the tables are; it is made when it is missing. Levels have dots between them.
    """

    catalog: str
    namespace: str

    def __post_init__(self) -> None:
        """Refuses names that are empty."""
        if not self.catalog.strip() or not all(part.strip() for part in self.namespace.split(".")):
            raise InvalidSettingError(
                f"{self} names no catalog or no namespace; the form is iceberg://CATALOG/NAMESPACE."
            )

    @property
    def local_path(self) -> str:
        """Nothing: it is no file."""
        return ""

    @property
    def has_state(self) -> bool:
        """Loads change the tables of the current state."""
        return True

    def check(self) -> None:
        """Opens the catalog and makes what is missing of the tables."""
        with (
            opened(self.catalog, InvalidSettingError) as catalog,
            told(f"{self} cannot be used", InvalidSettingError, secrets_of(catalog), ValueError),
        ):
            make_tables(catalog, self.namespace)
            for name in (*CURRENT, *APPENDED, RUNS):
                _refuse_other_types(name, table_of(catalog, self.namespace, name))

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded; its version is a property of ``runs``."""
        with opened(self.catalog, RunError) as catalog, told(f"{self} cannot be read", RunError, secrets_of(catalog)):
            if not catalog.table_exists(identifier_of(self.namespace, RUNS)):
                return LastRun()
            runs = table_of(catalog, self.namespace, RUNS)
            version = last_version(runs, ledger)
            torn = bool(lacking(catalog, self.namespace))
            return LastRun(version, run_at(runs, ledger, version), torn) if version else LastRun(torn=torn)

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded, "" for runs of none; empty when nothing was loaded."""
        with opened(self.catalog, RunError) as catalog, told(f"{self} cannot be read", RunError, secrets_of(catalog)):
            if not catalog.table_exists(identifier_of(self.namespace, RUNS)):
                return frozenset()
            return ledgers_in(table_of(catalog, self.namespace, RUNS))

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Completes what was broken off, and loads the run unless it is there."""
        loads = ReadThrough.of(run)
        with (
            opened(self.catalog, RunError) as catalog,
            told(
                f"Run {run.run_id} was not loaded into {self}",
                RunError,
                secrets_of(catalog),
                ValueError,
                advice="Load it again: what is there already is not written twice.",
            ),
        ):
            if any(not catalog.table_exists(identifier_of(self.namespace, name)) for name in (*CURRENT, RUNS)):
                make_tables(catalog, self.namespace)
            return _Loading(self, catalog).load(loads)

    def __str__(self) -> str:
        """The address."""
        return f"iceberg://{self.catalog}/{self.namespace}"


@dataclass(frozen=True)
class _Loading:
    """A load at work, on an open catalog."""

    warehouse: IcebergWarehouse
    catalog: Catalog

    def load(self, loads: LoadTables) -> Mapping[str, int]:
        """Announces the run, once nothing else is announced, and writes it."""
        for attempt in range(TRIES):
            runs = table_of(self.catalog, self.warehouse.namespace, RUNS)
            refuse_others(self.warehouse, ledgers_in(runs), loads.run)
            there, gone = holds(runs, loads.run), lacking(self.catalog, self.warehouse.namespace)
            last = LastRun(run_id=runs.properties.get(RUN_ID, ""))
            refuse_torn(self.warehouse, gone, loads.run, last, there=there)
            if there:
                return {name: self._commit(name, loads.run, _current_step(name, loads)) for name in gone}
            begun = announced(runs)
            is_ours = begun is not None and begun.run_id == loads.run.run_id
            if begun is not None and not is_ours and self._complete(begun, loads.run):
                continue
            if is_ours or self._announce(runs, loads.run):
                return self._write(loads)
            _pause(attempt)
        raise self._too_busy(RUNS)

    def _announce(self, runs: Table, run: LoadedRun) -> bool:
        """Whether `run` could be announced; else another one was quicker."""
        try:
            with runs.transaction() as change:  # the empty append fails when `runs` has changed since it was looked at
                change.append(table_schema(RUNS).empty_table())
                change.set_properties({LOADING: json.dumps(asdict(run) | {"path": absolute(run.path)})})
        except CommitFailedException:
            return False
        return True

    def _complete(self, run: LoadedRun, before: LoadedRun) -> bool:
        """Does the rest of a load that another one began, `before` the next; the run's folder must still be there.

        Tells whether it is done: a whole run of the same ledger takes the place of all that a lost one has left in the
        current state, so it may go on without.
        """
        try:
            self._write(_found_again(run))
        except InputError as error:
            if before.whole and before.ledger and before.ledger == run.ledger:
                return False
            raise RunError(
                f"The load of run {run.run_id} into {self.warehouse} was broken off and cannot be completed. {error} "
                "Load that run from where its folder is now; or, to leave it half loaded, remove the property "
                f"{LOADING} from the table runs."
            ) from error
        return True

    def _write(self, loads: LoadTables) -> Mapping[str, int]:
        """Brings the run to every table that does not hold it; gives the rows that this took."""
        steps = {name: _current_step(name, loads) for name in CURRENT}
        steps |= {name: _history_step(name, loads) for name in APPENDED}
        steps[RUNS] = _last_step(loads)
        return {name: self._commit(name, loads.run, step) for name, step in steps.items()}

    def _commit(self, name: str, run: LoadedRun, step: _Step) -> int:
        """Commits a step once; gives the rows it added, 0 when the table held the run already."""
        for attempt in range(TRIES):
            table = table_of(self.catalog, self.warehouse.namespace, name)
            if holds(table, run) if name == RUNS else bears(table, run):
                return 0
            try:
                with table.transaction() as change:
                    n_rows = step(table, change)
                    change.set_properties({RUN_ID: run.run_id})
            except CommitFailedException:
                _pause(attempt)
            else:
                return n_rows
        raise self._too_busy(name)

    def _too_busy(self, name: str) -> RunError:
        return RunError(
            f"The table {name} of {self.warehouse} was changed by others at each of {TRIES} tries. "
            "Load the run again when they are done: what is there already is not written twice."
        )


def _current_step(name: str, loads: LoadTables) -> _Step:
    schema, marks, key = table_schema(name), _marks(loads.run), list(CURRENT[name])

    def step(table: Table, change: Transaction) -> int:
        if loads.replaces(name):
            if REFILL in table.properties:
                change.remove_properties(REFILL)
            return replace(table, change, loads.upserts(name), schema, marks)
        keys = [part.select(key) for part in loads.upserts(name)]
        gone = pa.concat_tables([*keys, *loads.removals(name), schema.empty_table().select(key)])
        return exchange(table, change, gone, loads.upserts(name), schema, marks)

    return step


def _history_step(name: str, loads: LoadTables) -> _Step:
    return lambda _, change: append(change, loads.appends(name), table_schema(name), _marks(loads.run))


def _last_step(loads: LoadTables) -> _Step:
    run = loads.run

    def step(_: Table, change: Transaction) -> int:
        n_rows = append(change, [loads.run_row()], table_schema(RUNS), _marks(run))
        if run.ledger:
            change.set_properties({f"{LAST_VERSION}{run.ledger}": str(run.version)})
        change.remove_properties(LOADING)
        return n_rows

    return step


def _marks(run: LoadedRun) -> dict[str, str]:
    return {RUN_ID: run.run_id, VERSION: str(run.version), LEDGER: run.ledger}


def _found_again(run: LoadedRun) -> LoadTables:
    if loaded_run_of(run.path).run_id != run.run_id:
        raise InputError(f"The folder {run.path} holds another run now.")
    return ReadThrough.of(run)


def _refuse_other_types(name: str, table: Table) -> None:
    found = table.schema().as_arrow()
    for field in table_schema(name):
        other = found.field(field.name).type
        if str(other).replace("large_", "") != str(field.type):
            raise ValueError(f"column {field.name} of the table {name} is {other}, not {field.type}")


def _pause(attempt: int) -> None:
    time.sleep(_FIRST_PAUSE_S * 2**attempt * (1 + random.random()))  # noqa: S311 - no secret depends on it
