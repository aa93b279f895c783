"""Loading: runs of a ledger that a warehouse does not have yet, in their order, or all at once where one is missing."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import CrowdbeamError, InputError, RunError
from pipelines.ledger.folder import EVERYTHING, LedgerFolder
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.version import Version, name_of
from pipelines.ledger.whole import write_whole
from pipelines.sinks.loads import runs_before
from pipelines.sinks.warehouse import LastRun, LoadedRun, Warehouse


@dataclass(frozen=True)
class Loads:
    """What became of warehouses.

    Attributes:
        rows: rows written, by warehouse and table, of those that are up to date now.
        failures: why others are not, by warehouse.
    """

    rows: Mapping[str, Mapping[str, int]]
    failures: Mapping[str, str]

    def raise_failures(self, before: str) -> None:
        """Raises a `RunError` that names every warehouse that is not up to date; `before` begins its sentence."""
        if self.failures:
            told = " ".join(f"{place}: {sentence}" for place, sentence in self.failures.items())
            share = f"{len(self.failures)} of {len(self.rows) + len(self.failures)}"
            raise RunError(f"{before} {share} outputs could not be loaded; the next run tries again. {told}")


def load_pending(folder: LedgerFolder, warehouses: Sequence[Warehouse]) -> Loads:
    """Brings every warehouse to the version that holds; one that fails keeps no other from it."""
    version = folder.existing()
    found = {str(one): _tried(folder, version, one) for one in warehouses}
    return Loads(
        {place: rows for place, rows in found.items() if not isinstance(rows, CrowdbeamError)},
        {place: str(error) for place, error in found.items() if isinstance(error, CrowdbeamError)},
    )


def _tried(folder: LedgerFolder, version: Version, warehouse: Warehouse) -> dict[str, int] | CrowdbeamError:
    try:
        return _load(folder, version, warehouse)
    except CrowdbeamError as error:
        return error


def _load(folder: LedgerFolder, version: Version, warehouse: Warehouse) -> dict[str, int]:
    last = warehouse.last_run(version.ledger)
    chain = None if last.torn else _chain(folder, version, last)
    written: dict[str, int] = {}
    try:
        for one in chain or ():
            run = LoadedRun(folder.at(one.run), one.run_id, one.number, one.whole, one.ledger)
            _add(written, warehouse.load(run))
    except InputError:  # a run is damaged: nothing of it was loaded, and the ledger can do without
        chain = None
    if chain is None:
        _refuse_older(version, last)
        _add(written, _load_whole(folder, version, warehouse))
    return written


def _load_whole(folder: LedgerFolder, version: Version, warehouse: Warehouse) -> Mapping[str, int]:
    with_everything = folder.at("runs", f"{name_of(version.number)}{EVERYTHING}")
    try:
        write_whole(OpenLedger(folder, version), with_everything)
        return warehouse.load(LoadedRun(with_everything, version.run_id, version.number, True, version.ledger))
    finally:
        shutil.rmtree(with_everything, ignore_errors=True)


def _refuse_older(version: Version, last: LastRun) -> None:
    """A warehouse drops what is not newer than its last run, unless that very run fills a table that was dropped."""
    refills = last.torn and (version.number, version.run_id) == (last.version, last.run_id)
    if version.number <= last.version and not refills:
        raise RunError(
            f"It holds version {last.version} of the ledger, which is not one of those that led to version "
            f"{version.number}, the one that holds: the ledger was restored from a copy. Run the next night with it as "
            "--output: that gets a later number, and everything is loaded anew."
        )


def _chain(folder: LedgerFolder, version: Version, last: LastRun) -> list[Version] | None:
    """The versions whose runs lead from `last` to `version`; None when they do not, or are no longer kept.

    The numbers alone do not tell: a ledger that was restored from a copy gives them again.
    """
    found: list[Version] = []
    for one in folder.ancestors(version):
        if one.number == last.version:
            return found[::-1] if one.run_id == last.run_id else None
        if one.number < last.version or one.kind == "rollback":
            return None
        if one.run:
            found.append(one)
        if one.whole:
            return found[::-1]
    return found[::-1] if last.run_id in _runs_before(folder, one) else None


def _runs_before(folder: LedgerFolder, version: Version) -> tuple[str, ...]:
    """The runs that led to a version whose parent is no longer kept; none where that is not known."""
    try:
        return runs_before(folder.at(version.run)) if version.run else ()
    except InputError:
        return ()


def _add(total: dict[str, int], rows: Mapping[str, Any]) -> None:
    for name, n in rows.items():
        total[name] = total.get(name, 0) + int(n)
