"""Upkeep of a ledger: what it holds, whether that is sound, and how to go back, compact, export and forget."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from crowdcore.edges import EdgeCounts
from pipelines.addresses import refuse_warehouse
from pipelines.blocks import NO_TIME
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.ledger.closing import as_fields, closed_with_clock
from pipelines.ledger.counts_file import CountsChange, KeptCounts
from pipelines.ledger.folder import LedgerFolder, digest_of, refuse_inside
from pipelines.ledger.night import OpenLedger
from pipelines.ledger.segments import all_states, kept_segment, pack_state
from pipelines.ledger.task_state import TaskState
from pipelines.ledger.verdicts import verdicts_anew
from pipelines.ledger.version import FORMAT_VERSION, PRIOR, KeptSegment, Version, name_of, run_id_of
from pipelines.ledger.whole import prior_of, settings_of, solve_again, write_whole
from pipelines.run_tables import read_manifest
from pipelines.sources import storage


def verify(folder: LedgerFolder) -> list[str]:
    """What is wrong with the version that holds, in sentences: a file, or counts that are not those of the labels."""
    version = folder.existing()
    wrong = [sentence for file in version.files() if (sentence := _damage(folder, file.path, file.checksum))]
    wrong += _run_damage(folder.at(version.run)) if version.run else []
    if wrong:
        return wrong
    ledger, counted, n_tasks = OpenLedger(folder, version), CountsChange(), 0
    for number in range(version.shards):
        state = all_states(ledger.segments(number))
        counted.add(state)
        n_tasks += len(state)
    if counted.total() != ledger.counts().edges:
        wrong.append("The counts of worker pairs are not those of the labels. Go back: crowdbeam ledger rollback.")
    if n_tasks != version.n_tasks:
        wrong.append(f"There are {n_tasks:,} tasks, but version {version.number} says {version.n_tasks:,}.")
    return wrong


def _damage(folder: LedgerFolder, path: str, checksum: str) -> str:
    try:
        data = Path(folder.at(path)).read_bytes()
    except OSError as error:
        return f"{folder.at(path)} cannot be read: {error.strerror}."
    return "" if digest_of(data) == checksum else f"{folder.at(path)} has changed since it was written."


def _run_damage(run: str) -> list[str]:
    """What is wrong with a run's files: one is not there, or has another size than its manifest says."""
    try:
        manifest = read_manifest(run)
    except InputError as error:
        return [str(error)]
    wrong = []
    for output in manifest["outputs"]:
        path = os.path.join(run, output["path"])
        if not os.path.exists(path):
            wrong.append(f"{path} is missing.")
        elif os.path.getsize(path) != output["size_bytes"]:
            wrong.append(f"{path} has changed since it was written.")
    return wrong


def _refuse_damaged(folder: LedgerFolder, version: Version) -> None:
    """Raises `RunError` when a file of the version is not what was written: nothing is made of it."""
    for file in version.files():
        if sentence := _damage(folder, file.path, file.checksum):
            raise RunError(f"Version {version.number} is damaged. {sentence}")


def rollback(folder: LedgerFolder, number: int, keep: int) -> Version:
    """Makes an earlier version hold again, as a new one: the numbers of versions only grow."""
    last, earlier = folder.held()[0], folder.version(number)  # the one that holds may be damaged, or not be known
    if last and earlier.number >= last:
        raise InvalidSettingError(f"Version {number} is not earlier than {last}, which holds.")
    _refuse_damaged(folder, earlier)
    version = replace(_next(max(last, *folder.numbers()), "rollback", earlier), run="", whole=False, counts={})
    folder.publish(version, keep)
    return version


def compact(folder: LedgerFolder, keep: int) -> Version:
    """Writes each shard as one segment, without what newer states of tasks have replaced."""
    current = folder.existing()
    _refuse_damaged(folder, current)
    ledger = OpenLedger(folder, current)
    version = replace(_next(current.number, "compact", current), run="", whole=False, counts={})
    segments = tuple(_rewritten(folder, version, ledger, lambda state: state))
    version = replace(version, segments=segments)
    folder.publish(version, keep)
    return version


def export(folder: LedgerFolder, output: str, output_format: str) -> dict[str, Any]:
    """Writes everything as one run folder; returns its manifest."""
    refuse_warehouse(output, "--output", "Export to a folder RUN, then load it: crowdbeam load RUN --to {}")
    refuse_inside(output, folder.path)
    if advice := storage.missing_extra(output):
        told = f"--output {output} cannot be reached: its file system is not installed."
        raise InvalidSettingError(f"{told} Try: {advice}")
    if _is_taken(output):
        raise InvalidSettingError(f"--output {output} is there already. Give an empty or a new folder.")
    _refuse_damaged(folder, folder.existing())
    return write_whole(OpenLedger(folder, folder.existing()), output, output_format)


def _is_taken(output: str) -> bool:
    """Whether there is a file, or a folder with something in it."""
    if storage.is_local(output):
        return os.path.exists(output) and (not os.path.isdir(output) or bool(os.listdir(output)))
    return storage.exists(output) or bool(storage.match(storage.join(output, "**")))


def forget(folder: LedgerFolder, worker: str) -> tuple[Version, int]:
    """Removes a worker's labels and all that follows from them, also from earlier versions; tells how many labels.

    The ledger is then what it would be had it never seen the worker, but for verdicts: see `verdicts_anew`.
    """
    current = folder.existing()
    _refuse_damaged(folder, current)
    ledger, change, n_labels, n_rows = OpenLedger(folder, current), CountsChange(), 0, 0
    newest_us = NO_TIME
    version = _next(current.number, "forget", current, worker)

    def without(state: TaskState) -> TaskState:
        nonlocal n_labels, n_rows, newest_us
        code = int(pc.index(state.workers, worker).as_py())
        mine = state.worker == code
        newest_us = max(newest_us, _newest(state, mine))
        if code < 0 or not mine.any():
            return state
        touched = np.bincount(state.row_task[mine], minlength=len(state)) > 0
        left = state.without_rows(mine)
        change.add(state.chosen(touched), -1)
        change.add(left.chosen(touched))
        n_labels += int((mine & state.answered_rows).sum())
        n_rows += int(mine.sum())
        return _seen(replace(left, latest=_latest(left, touched)))

    segments = tuple(_rewritten(folder, version, ledger, without))
    kept = ledger.counts()
    if not n_rows:
        folder.sweep()
        raise InvalidSettingError(f"{folder.path} holds no label of the worker {worker!r}. Check the id.")
    prior = {who: skill for who, skill in prior_of(current).items() if who != worker}
    version = replace(version, settings={**version.settings, PRIOR: json.dumps(prior, ensure_ascii=False)})
    version = _without_time(version, newest_us)
    version = replace(version, segments=segments, n_tasks=sum(one.n_tasks for one in segments))
    version = _with_counts(folder, version, kept, change.total())
    write_whole(OpenLedger(folder, version), folder.at(version.run))
    folder.publish(version, keep=1)
    return version, n_labels


def _newest(state: TaskState, others: Any) -> int:
    """The time of the latest event, `others` left out; a task's `latest` tells which times were in the future."""
    counts = ~others & (state.time != NO_TIME) & (state.time <= state.latest[state.row_task])
    return int(state.time[counts].max(initial=NO_TIME))


def _without_time(version: Version, newest_us: int) -> Version:
    """The version with the clock that is left when a worker's events are gone, and with what that closes."""
    clock_us = min(version.clock_us, newest_us)
    return replace(version, clock_us=clock_us, **as_fields(closed_with_clock(version, clock_us), version.settings))


def _latest(state: TaskState, touched: Any) -> Any:
    """(tasks,) time of the latest event that is left, not later than it was; where one has no time, it stays."""
    found = np.full(len(state), NO_TIME)
    np.maximum.at(found, state.row_task, state.time)
    timed = np.ones(len(state), bool)
    timed[state.row_task[state.time == NO_TIME]] = False
    return np.where(touched & timed & (found != NO_TIME), np.minimum(found, state.latest), state.latest)


def _seen(state: TaskState) -> TaskState:
    """The tasks that have a row left."""
    there = np.diff(state.starts) > 0
    return state if there.all() else state.chosen(there)


def _with_counts(folder: LedgerFolder, version: Version, kept: KeptCounts, change: EdgeCounts) -> Version:
    """The version with changed counts, and with the skills and verdicts that follow."""
    solved = solve_again(kept, version, change)
    pairs, workers = KeptCounts(solved.edges, solved.fit.skills).to_files()
    name = name_of(version.number)
    return replace(
        version,
        edges=folder.write(f"edges/{name}.frame", pairs),
        workers=folder.write(f"workers/{name}.parquet", workers),
        classes=solved.edges.class_counts,
        n_sampled=solved.edges.n_sampled,
        closed=verdicts_anew(OpenLedger(folder, version), solved.model, settings_of(version).aggregate),
        whole=True,
        run=f"runs/{name}",
        counts={},
    )


def _rewritten(folder: LedgerFolder, version: Version, ledger: OpenLedger, change: Any) -> Iterator[KeptSegment]:
    for number in range(version.shards):
        state = change(all_states(ledger.segments(number)))
        if len(state):
            path = f"labels/{name_of(version.number)}/{number:05d}.frame"
            yield kept_segment(number, folder.write(path, pack_state(state)), state)


def _next(last: int, kind: str, like: Version, what: str = "") -> Version:
    """The version after `last`, with the content of `like`."""
    number = last + 1
    secret = hashlib.sha256(what.encode()).hexdigest()
    return replace(
        like,
        format_version=FORMAT_VERSION,
        number=number,
        parent=like.number,
        kind=kind,
        run_id=run_id_of(like.ledger, number, [like.run_id, kind, secret]),
        created_at_us=time.time_ns() // 1000,
    )
