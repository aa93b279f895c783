"""Loading: runs of a ledger that a warehouse does not have yet, in their order, or all at once where one is missing."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.ledger.night import OpenLedger
from pipelines.ledger.versions import WHOLE, LedgerFolder, Version, name_of
from pipelines.ledger.whole import write_whole
from pipelines.sinks.warehouse import LoadedRun, Warehouse


def load_pending(folder: LedgerFolder, warehouses: Sequence[Warehouse]) -> dict[str, dict[str, int]]:
    """Brings every warehouse to the version that holds; tells the rows written, by warehouse and table."""
    version = folder.existing()
    return {str(warehouse): _load(folder, version, warehouse) for warehouse in warehouses}


def _load(folder: LedgerFolder, version: Version, warehouse: Warehouse) -> dict[str, int]:
    last = warehouse.last_version(version.ledger)
    chain = _chain(folder, version, last)
    written: dict[str, int] = {}
    if chain is None:
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


def _chain(folder: LedgerFolder, version: Version, last: int) -> list[Version] | None:
    """The versions whose runs lead from `last` to `version`; None when they do not, or are no longer kept."""
    found = []
    for one in _ancestors(folder, version):
        if one.number == last:
            break
        if one.number < last or one.kind == "rollback":
            return None
        if one.run:
            found.append(one)
        if one.whole:
            break
        if one.parent == 0 or (one.parent != last and one.parent not in folder.numbers()):
            return None
    return found[::-1]


def _ancestors(folder: LedgerFolder, version: Version) -> Iterator[Version]:
    yield version
    while version.parent and version.parent in folder.numbers():
        version = folder.version(version.parent)
        yield version


def _add(total: dict[str, int], rows: Mapping[str, Any]) -> None:
    for name, n in rows.items():
        total[name] = total.get(name, 0) + int(n)
