"""A snapshot of a stream: its state now, as a run folder like any other, and enough to begin another stream with.

The stream writes down its labels and counts, cut between two events of each shard. Skills and answers follow from them
by the batch's own functions, so that a snapshot is what the batch would say of the labels that hold.
"""

import time
import uuid
from collections import Counter
from typing import Any

import numpy as np
from apache_beam.io.filesystems import FileSystems

from pipelines.addresses import absolute
from pipelines.blocks import LabelBlock
from pipelines.errors import RunError
from pipelines.grouped import TaskShard, gold_code
from pipelines.manifest import Clock, manifest_of
from pipelines.prior import read_prior_skills
from pipelines.run_folder import STATE, RunFolder
from pipelines.scoring import score_shard
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.solving import Solved, solve
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import SNAPSHOT, Marker
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.rhythm import SNAPSHOT_S
from pipelines.streaming.state_files import LEDGER, frames, read_frame, state_path
from pipelines.table_files import write_table
from pipelines.worker_tables import edge_tables

_PAUSE_S = 0.2


def take(control: Control, output: str, *, output_format: str = "parquet", overwrite: bool = False) -> dict[str, Any]:
    """Writes the state of the stream of a control folder as a run to `output`; returns its manifest."""
    described = control.described()
    clock = Clock()
    aggregate = AggregateSettings.from_json(described["aggregate"])
    settings = BatchSettings(
        (described["source"],), output, aggregate, output_format=output_format, overwrite=overwrite
    )
    folder = RunFolder(output)
    folder.open(overwrite)
    try:
        state = FileSystems.join(folder.staging, STATE)
        _ask(control, absolute(state), described["shards"])
        clock.lap("stream")
        counts, fit = _write_run(settings, described, state, folder.staging)
        manifest = manifest_of(settings, folder.staging, counts, fit, [], {}, clock)
        folder.commit(manifest)
    except BaseException:
        folder.abandon()
        raise
    return manifest


def _ask(control: Control, state: str, shards: int) -> None:
    """Has the stream write its state to the folder `state`, and waits for all of it."""
    marker = Marker(SNAPSHOT, f"snapshot-{uuid.uuid4().hex[:12]}", state)
    control.request(marker)
    try:
        until = time.monotonic() + SNAPSHOT_S
        while len(frames(state)) < shards + 1:
            if time.monotonic() > until:
                raise RunError(
                    f"The stream of {control.folder} did not answer within {SNAPSHOT_S:g} s. "
                    "Is it running, and does it reach the control folder and --output?"
                )
            time.sleep(_PAUSE_S)
    finally:
        control.withdraw(marker)


def _write_run(
    settings: BatchSettings, described: dict[str, Any], state: str, staging: str
) -> tuple[Counter[str], dict[str, str]]:
    """Writes the tables; returns the counts, and how the skills were found."""
    ledger = Ledger()
    ledger.add(read_frame(FileSystems.join(state, LEDGER)))
    solved = solve(ledger.edges(), settings.aggregate, read_prior_skills(described["prior_skills"]))
    writer = _Writer(settings.output_format, staging)
    for number in range(described["shards"]):
        writer.score(number, LabelBlock.from_bytes(read_frame(state_path(state, number))), solved, settings.aggregate)
    for number, table in enumerate(edge_tables(solved.edges)):
        writer.write("edges", number, table)
    writer.write("skills", 0, solved.skill_table())
    writer.write("graph", 0, solved.graph_table())
    for path in frames(state):
        writer.counts[f"rows:{STATE}/{path.rpartition('/')[2]}"] = 0
    counts = Counter(solved.counts())
    counts.update(writer.counts)
    return counts, solved.account()


class _Writer:
    """Writes tables, and counts what is in them."""

    def __init__(self, kind: str, staging: str) -> None:
        self._kind, self._staging = kind, staging
        self.counts: Counter[str] = Counter()

    def score(self, number: int, block: LabelBlock, solved: Solved, aggregate: AggregateSettings) -> None:
        table = LabelTable()
        table.apply(block)
        _, labels = table.labels_of()
        names = [codes.names(range(len(codes))) for codes in (table.tasks, table.workers, table.classes)]
        by_gold = labels.worker == gold_code(names[1])
        received = labels.sizes - np.bincount(labels.task[by_gold], minlength=labels.n_tasks)
        shard = TaskShard(number, names[0], labels, received, names[1], names[2])
        rows, counts = score_shard(shard, solved.model, aggregate)
        self.counts.update(counts)
        used, known = int(received.sum()), int(by_gold.sum())
        self.counts.update(labels_read=used, labels_used=used, tasks=counts["scores"])
        if known:
            self.counts.update(gold_read=known, gold_used=known)
        self.write("scores", number, rows)

    def write(self, name: str, number: int, table: Any) -> None:
        path = f"{name}/part-{number:05d}.{self._kind}"
        write_table(table, FileSystems.join(self._staging, path), self._kind, name)
        self.counts[f"rows:{path}"] = table.num_rows
