"""Beginning with an earlier state: the labels of a finished run, of a ledger, or of a snapshot of a stream, by shard.

A run of the batch names its inputs; they are read again, and the labels that counted then are the stream's first
labels; withdrawals stay known, so that an older label that arrives later does not bring a withdrawn one back.

A ledger holds the last event of every (task, worker), withdrawals included, and known answers. The run of a night holds
only what that night has changed; it is refused.

A snapshot holds its labels itself, and what closed tasks have left in the counts. Labels that also arrive by the
stream's source change nothing, so that the two may overlap.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from pipelines.blocks import UNORDERED, LabelBlock, split_block
from pipelines.errors import InputError
from pipelines.grouped import Grouping, group_blocks, last_events
from pipelines.inputs import InputPlan, checksum_of, plan_inputs
from pipelines.ledger.folder import VERSIONS, LedgerFolder
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.segments import all_states
from pipelines.ledger.task_state import WITHDRAWN, TaskState
from pipelines.records import Origin, parse_chunk
from pipelines.run_folder import STATE
from pipelines.run_tables import read_manifest
from pipelines.settings import BatchSettings, parse_columns
from pipelines.sinks.loads import LEDGER as LEDGER_ID
from pipelines.sources.formats import chunks_of
from pipelines.sources.storage import is_local
from pipelines.sources.warehouse_addresses import is_address
from pipelines.streaming.control import Control
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger, pack_change
from pipelines.streaming.state_files import (
    LEDGER,
    RESIDUE,
    label_frames,
    read_frame,
    remove_frames,
    state_path,
    write_frame,
)
from pipelines.times import microseconds


def prepare(run: str, control: Control, shards: int, time_unit: str = "us") -> str:
    """Writes the state of the finished run, or ledger, in the folder `run` for so many shards; returns where it is.

    Times that are numbers are in `time_unit`.
    """
    ledger = FileSystems.join(run, STATE, LEDGER)
    blocks = _first_blocks(run, ledger, time_unit)
    tables = [LabelTable() for _ in range(shards)]
    held = Ledger()
    for block in blocks:
        for number, part in split_block(block, shards):
            applied = tables[number].apply(part)
            change = tables[number].change(applied)
            held.add(pack_change(change, tables[number].workers, tables[number].classes, len(part)))
    folder = control.path("bootstrap")
    remove_frames(folder)  # an earlier stream's residue would be added to these counts
    for number, table in enumerate(tables):
        write_frame(state_path(folder, number), table.block().to_bytes())
    if FileSystems.exists(ledger):
        residue = Ledger()
        residue.add(read_frame(ledger))
        residue.add(held.to_bytes(), -1)
        write_frame(FileSystems.join(folder, RESIDUE), residue.to_bytes())
    return folder


def _first_blocks(run: str, ledger: str, time_unit: str) -> list[LabelBlock]:
    """The labels to begin with, wherever they are kept; `ledger` is where a snapshot has its counts."""
    if _is_ledger(run):
        return _ledger_blocks(LedgerFolder(run))
    manifest = read_manifest(run)
    if LEDGER_ID in manifest["settings"]:
        raise InputError(
            f"--bootstrap {run} is a run of a ledger: it has answers, but only some of the labels, or none. "
            f"Give the folder of the ledger instead: --bootstrap {manifest['settings'].get('ledger', 'LEDGER')}"
        )
    return list(_kept_blocks(run) if FileSystems.exists(ledger) else _read_blocks(run, manifest, time_unit))


def _is_ledger(folder: str) -> bool:
    return is_local(folder) and os.path.isdir(os.path.join(folder, VERSIONS))


def _ledger_blocks(folder: LedgerFolder) -> list[LabelBlock]:
    """The labels in the version of a ledger that holds; nobody changes it meanwhile."""
    folder.existing()
    with folder.locked():
        version = folder.existing()
        ledger = OpenLedger(folder, version)
        return [_block_of_state(all_states(ledger.segments(number))) for number in range(version.shards)]


def _block_of_state(state: TaskState) -> LabelBlock:
    withdrawn = state.label == WITHDRAWN
    return LabelBlock(
        UNORDERED,
        0,
        state.task.take(pa.array(state.row_task)),
        state.worker,
        state.workers,
        np.where(withdrawn, 0, state.label),
        state.classes if len(state.classes) else pa.array([""], pa.large_string()),
        state.time,
        deleted=withdrawn,
    )


def _kept_blocks(run: str) -> Iterator[LabelBlock]:
    """The labels of a snapshot."""
    for path in label_frames(FileSystems.join(run, STATE)):
        yield LabelBlock.from_bytes(read_frame(path))


def _read_blocks(run: str, manifest: dict[str, Any], time_unit: str) -> Iterator[LabelBlock]:
    """The labels that counted in a run of the batch, from its inputs."""
    settings = manifest["settings"]
    inputs = {role: [one for one in manifest["inputs"] if one["role"] == role] for role in ("labels", "gold")}
    for one in (*inputs["labels"], *inputs["gold"]):
        if is_address(one["path"]):
            raise InputError(
                f"--bootstrap {run} was made from {one['path']}, which is in a warehouse and may have changed since. "
                "Write its rows to a file, and run the batch on that."
            )
        if not FileSystems.exists(one["path"]) or checksum_of(one["path"]) != one["checksum"]:
            raise InputError(
                f"--bootstrap {run} was made from {one['path']}, which is gone or has changed. Run the batch again."
            )
    columns = ",".join(f"{field}={column}" for field, column in _pairs(settings["columns"]))
    plan = plan_inputs(
        BatchSettings(
            tuple(one["path"] for one in inputs["labels"]),
            run,
            columns=parse_columns(columns),
            gold=tuple(one["path"] for one in inputs["gold"]),
            input_format=settings["input_format"],
        )
    )
    yield from _counted(plan, tuple(_pairs(settings["classes"])), settings["repeats"], time_unit)


def _pairs(text: str) -> Any:
    return json.loads(text) if text else []


def _counted(plan: InputPlan, classes: tuple[str, ...], repeats: str, time_unit: str) -> Iterator[LabelBlock]:
    blocks = []
    for part in plan.parts:
        for lazy in chunks_of(part):
            parsed = parse_chunk(lazy(), Origin(part.source, part.name, part.role), classes, microseconds(time_unit))
            if parsed.block is not None:
                blocks.append(parsed.block)
    if blocks and repeats == "last":
        yield last_events(blocks)
    elif blocks:
        yield from _settled(blocks, repeats)


def _settled(blocks: list[LabelBlock], repeats: str) -> Iterator[LabelBlock]:
    """The labels that count, and the last withdrawal of each (task, worker) that has none."""
    counted = block_of(group_blocks(0, blocks, repeats))
    yield counted
    deletions = [block.rows(block.deleted) for block in blocks if block.deleted is not None]
    if deletions:
        last, pairs = last_events(deletions), set(_pairs_of(counted))
        yield last.rows(np.array([pair not in pairs for pair in _pairs_of(last)], bool))


def _pairs_of(block: LabelBlock) -> Iterator[tuple[str, str]]:
    workers = block.workers.take(pa.array(block.worker)).to_pylist()
    return zip(block.task.to_pylist(), workers, strict=True)


def block_of(grouping: Grouping) -> LabelBlock:
    """The labels that count, as a block."""
    shard = grouping.shard
    labels = shard.labels
    return LabelBlock(
        0,
        0,
        shard.task.take(labels.task),
        labels.worker,
        shard.workers,
        labels.label,
        shard.classes,
        grouping.time,
    )
