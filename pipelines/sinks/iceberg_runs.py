"""What the table ``runs`` of Iceberg tells: which runs were loaded, of which ledgers, and which load is under way."""

import json

from pyiceberg.expressions import And, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from pipelines.sinks.warehouse import LoadedRun

RUN_ID = "crowdbeam.run-id"
REFILL = "crowdbeam.refill"  # of a table that was made after runs were loaded, and does not hold their state yet
LOADING = "crowdbeam.loading"
LAST_VERSION = "crowdbeam.last-version."  # and the ledger's id


def bears(table: Table, run: LoadedRun) -> bool:
    """Whether the table took the run's rows; the property still tells when its snapshot has expired."""
    told_by = (snapshot.summary for snapshot in table.metadata.snapshots if snapshot.summary)
    return table.properties.get(RUN_ID) == run.run_id or any(one[RUN_ID] == run.run_id for one in told_by)


def holds(runs: Table, run: LoadedRun) -> bool:
    """Whether the run was loaded to its end."""
    if run.ledger:
        return last_version(runs, run.ledger) >= run.version
    this = EqualTo(term=Reference("run_id"), value=literal(run.run_id))
    return bears(runs, run) or runs.scan(this, selected_fields=("run_id",)).count() > 0


def ledgers_in(runs: Table) -> frozenset[str]:
    """The ledgers whose runs were loaded, or began to be; "" for runs of none."""
    found = {name.removeprefix(LAST_VERSION) for name in runs.properties if name.startswith(LAST_VERSION)}
    if begun := announced(runs):
        found.add(begun.ledger)
    of_none = EqualTo(term=Reference("ledger"), value=literal(""))
    if runs.scan(of_none, selected_fields=("run_id",)).count():
        found.add("")
    return frozenset(found)


def last_version(runs: Table, ledger: str) -> int:
    """The last version of a ledger that was loaded; 0: none."""
    return int(runs.properties.get(f"{LAST_VERSION}{ledger}", "0"))


def run_at(runs: Table, ledger: str, version: int) -> str:
    """The id of the run of a version of a ledger; empty when there is none."""
    of_ledger = EqualTo(term=Reference("ledger"), value=literal(ledger))
    at_version = EqualTo(term=Reference("version"), value=literal(version))
    found = runs.scan(And(of_ledger, at_version), selected_fields=("run_id",)).to_arrow().column("run_id")
    return str(found[0]) if len(found) else ""


def announced(runs: Table) -> LoadedRun | None:
    """The run whose load has begun and has not come to its end."""
    text = runs.properties.get(LOADING)
    return LoadedRun(**json.loads(text)) if text else None
