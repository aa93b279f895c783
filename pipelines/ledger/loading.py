"""Loading: runs of a ledger that a warehouse does not have yet, in their order, or all at once where one is missing."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.errors import InputError, RunError
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.versions import WHOLE, LedgerFolder, Version, name_of
from pipelines.ledger.whole import write_whole
from pipelines.sinks.loads import runs_before
from pipelines.sinks.warehouse import LastRun, LoadedRun, Warehouse


def load_pending(folder: LedgerFolder, warehouses: Sequence[Warehouse]) -> dict[str, dict[str, int]]:
    """Brings every warehouse to the version that holds; tells the rows written, by warehouse and table."""
    version = folder.existing()
    return {str(warehouse): _load(folder, version, warehouse) for warehouse in warehouses}


def _load(folder: LedgerFolder, version: Version, warehouse: Warehouse) -> dict[str, int]:
    last = warehouse.last_run(version.ledger)
    chain = _chain(folder, version, last)
    written: dict[str, int] = {}
    if chain is None:
        _refuse_older(version, last)
        with_everything = folder.at("runs", f"{name_of(version.number)}{WHOLE}")
        run = LoadedRun(with_everything, version.run_id, version.number, True, version.ledger)
        try:
            write_whole(OpenLedger(folder, version), with_everything)
            _add(written, warehouse.load(run))
        finally:
            shutil.rmtree(with_everything, ignore_errors=True)
        return written
    for one in chain:
        run = LoadedRun(folder.at(one.run), one.run_id, one.number, one.whole, one.ledger)
        _add(written, warehouse.load(run))
    return written


def _refuse_older(version: Version, last: LastRun) -> None:
    """A warehouse drops what is not newer than its last run, so that everything cannot be loaded anew."""
    if version.number <= last.version:
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
    for one in _ancestors(folder, version):
        if one.number == last.version:
            return found[::-1] if one.run_id == last.run_id else None
        if one.number < last.version or one.kind == "rollback":
            return None
        if one.run:
            found.append(one)
        if one.whole:
            return found[::-1]
    return found[::-1] if last.run_id in _runs_before(folder, one) else None


def _runs_before(folder: LedgerFolder, version: Version) -> frozenset[str]:
    """The runs that led to a version whose parent is no longer kept; none where that is not known."""
    try:
        return runs_before(folder.at(version.run)) if version.run else frozenset()
    except InputError:
        return frozenset()


def _ancestors(folder: LedgerFolder, version: Version) -> Iterator[Version]:
    yield version
    while version.parent and version.parent in folder.numbers():
        version = folder.version(version.parent)
        yield version


def _add(total: dict[str, int], rows: Mapping[str, Any]) -> None:
    for name, n in rows.items():
        total[name] = total.get(name, 0) + int(n)
