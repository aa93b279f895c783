"""The nightly road: new labels and a ledger in; the next version of the ledger, and what has changed, out.

Night k reads the new labels, and of the ledger only what is known of their tasks. It writes version k + 1 aside and
exchanges one pointer, then loads what has changed into the warehouses. A night that is run again changes nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines import progress
from pipelines.errors import CrowdbeamError, InvalidSettingError, RunError
from pipelines.gates import GateResult, check_gates, facts_of
from pipelines.inputs import InputFile, checksum_of, plan_inputs
from pipelines.ledger.folder import FETCHED, LedgerFolder, refuse_inside
from pipelines.ledger.known_inputs import known_as, known_inputs
from pipelines.ledger.loading import Loads, load_pending
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.night_settings import NightSettings
from pipelines.ledger.night_work import NightWork
from pipelines.ledger.version import Version
from pipelines.lineage import check_lineage, completed, event_in, lineage_event, write_lineage
from pipelines.manifest import Clock
from pipelines.prior import prior_files
from pipelines.run_tables import read_manifest
from pipelines.sinks.warehouse import Warehouse, other_runs


@dataclass(frozen=True)
class NightResult:
    """What came of a night.

    Attributes:
        version: the version of the ledger that holds now; None: there is no ledger yet.
        manifest: of the night's run; None when there was nothing new.
        known: inputs that were in the ledger already, and in which version.
        gates: what became of the gates.
        loaded: rows written, by warehouse and table.
        unusable: whether the night was left out of the ledger because no label of it could be used.
    """

    version: Version | None
    manifest: Mapping[str, Any] | None
    known: Mapping[str, int] = field(default_factory=dict)
    gates: tuple[GateResult, ...] = ()
    loaded: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unusable: bool = False

    @property
    def held(self) -> bool:
        """Whether a gate kept the night out of the ledger."""
        return self.manifest is not None and any(gate.tripped for gate in self.gates)


def run(settings: NightSettings) -> NightResult:
    """Runs one night; raises a `CrowdbeamError` when it cannot be done.

    Before the version is published nothing has changed; after that, warehouses that could not be loaded are brought up
    to date by the next run. A night that a gate holds loads the versions before it that a warehouse lacks.
    """
    clock = Clock()
    progress.reset()
    warehouses = settings.warehouses()
    for warehouse in warehouses:
        refuse_inside(warehouse.local_path, settings.ledger)
    if settings.lineage:
        refuse_inside(settings.lineage, settings.ledger, "--lineage")
        check_lineage(settings.lineage)
    prior_files(settings.batch.prior_skills)
    folder = LedgerFolder(settings.ledger)
    with folder.locked():
        try:
            result = _night(settings, folder, warehouses, clock)
        finally:
            folder.sweep()
        if result.version is None:
            return result
        loads = load_pending(folder, warehouses)
        result = replace(result, loaded=loads.rows)
        event = _event_to_write(settings, folder, result)
        if result.manifest is None and (event or any(result.loaded.values())):
            result = replace(result, gates=())  # it has completed an earlier night: that is not nothing
    _finish(result, loads, settings.lineage, event)
    return result


def _event_to_write(settings: NightSettings, folder: LedgerFolder, result: NightResult) -> dict[str, Any] | None:
    """What --lineage shall hold and does not: the event of the night, or of the one that made its inputs known."""
    if not settings.lineage or result.held or result.unusable:
        return None
    manifest = result.manifest or _manifest_of(folder, max(result.known.values(), default=0))
    if not manifest:
        return None
    held = event_in(settings.lineage) or {}
    event = completed(lineage_event(manifest, loaded=result.loaded, job_name="nightly"), held)
    return None if event == held else event


def _manifest_of(folder: LedgerFolder, number: int) -> Mapping[str, Any] | None:
    """Of a night of the ledger; None of one that is no longer kept, or is damaged, which is no harm."""
    with suppress(CrowdbeamError):
        version = folder.version(number)
        return read_manifest(folder.at(version.run)) if version.run else None
    return None


def _finish(result: NightResult, loads: Loads, lineage: str, event: Mapping[str, Any] | None) -> None:
    """Writes an event, if one is to be written; raises a `RunError` that tells all that was not done."""
    wrong = []
    try:
        if event:
            write_lineage(lineage, event)
    except RunError as error:
        wrong.append(f"{error} The next run of the night writes it.")
    tripped = [gate.sentence for gate in result.gates if gate.tripped] if result.held else []
    before = " ".join([*tripped, "The night is not in the ledger, and"]) if tripped else "The ledger is up to date, but"
    try:
        loads.raise_failures(before)
    except RunError as error:
        wrong.insert(0, str(error))
    if wrong:
        raise RunError(" ".join(wrong))


def _night(settings: NightSettings, folder: LedgerFolder, warehouses: Sequence[Warehouse], clock: Clock) -> NightResult:
    ledger = OpenLedger(folder, folder.current())
    _refuse_fewer_classes(settings, ledger.version)
    plan = plan_inputs(settings.batch, folder.at(FETCHED), may_be_empty=True)
    plan = replace(plan, files=tuple(file for file in plan.files if file.columns))
    if ledger.version is None and not plan.files:  # there is no ledger to make, nor anything in a warehouse
        return NightResult(None, None, gates=check_gates(settings.gates, facts_of({}, new_labels=0)))
    for warehouse in warehouses:  # they make what is missing: after a look at the inputs
        warehouse.check()
        _refuse_another_ledger(warehouse, ledger.version.ledger if ledger.version else None)
    known_to = [one.last_run(ledger.version.ledger).version for one in warehouses] if ledger.version else []
    inputs = known_inputs(ledger)
    checksums = {file: file.checksum or checksum_of(file.path) for file in plan.files}
    known = {file: inputs[name] for file, one in checksums.items() if (name := known_as(file, one)) in inputs}
    if ledger.version is not None and len(known) == len(plan.files):
        gates = check_gates(settings.gates, facts_of({}, new_labels=0))
        return NightResult(ledger.version, None, _named(known), gates)
    clock.lap("check")
    left_out = {(file.path, file.role) for file in known}
    fresh = replace(
        plan,
        files=tuple(file for file in plan.files if file not in known),
        parts=tuple(part for part in plan.parts if (part.path, part.role) not in left_out),
    )
    work = NightWork(settings, ledger, fresh, {file: checksums[file] for file in fresh.files}, max(known_to, default=0))
    version, manifest = work.run(clock, inputs)
    gates = tuple(GateResult(**one) for one in manifest["gates"])
    if any(gate.tripped for gate in gates):
        return NightResult(ledger.version, manifest, _named(known), gates)
    if not is_usable(manifest["counts"]):  # nor does it make its inputs known: with other options they may be of use
        return NightResult(ledger.version, manifest, _named(known), gates, unusable=True)
    folder.publish(version, settings.keep)
    return NightResult(version, manifest, _named(known), gates)


def is_usable(counts: Mapping[str, int]) -> bool:
    """Whether a night brought anything: a label or a withdrawal, repeats too; gold alone if it had no labels.

    >>> is_usable({"labels_read": 3, "labels_rejected": 3, "gold_read": 1}), is_usable({"labels_read": 0})
    (False, False)
    >>> is_usable({"labels_read": 0, "gold_read": 2, "gold_rejected": 1})
    True
    """
    what = "labels" if counts["labels_read"] else "gold"
    return counts.get(f"{what}_read", 0) > counts.get(f"{what}_rejected", 0)


def _refuse_fewer_classes(settings: NightSettings, version: Version | None) -> None:
    held = {name for name, n in version.classes.items() if n} if version else set()
    left_out = sorted(held - set(settings.aggregate.classes))
    if settings.aggregate.classes and left_out:
        raise InvalidSettingError(
            f"--classes leaves out {left_out[0]!r}, of which the ledger holds labels. Name it, or begin a new ledger."
        )


def _refuse_another_ledger(warehouse: Warehouse, ledger: str | None) -> None:
    """Two ledgers in one place would take turns in overwriting each other's answers."""
    if others := other_runs(warehouse.ledgers(), ledger):
        raise InvalidSettingError(f"--output {warehouse} {others}. Check --ledger, or give a place of its own.")


def _named(known: Mapping[InputFile, int]) -> dict[str, int]:
    return {file.address or file.path: number for file, number in known.items()}
