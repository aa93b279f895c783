from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from histories import Event, block_of, cut, random_events, surviving

from crowdcore.edges import EdgeCounts
from crowdcore.labels import group_labels
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import Ledger, pack_change


def edges_of(labels):
    tasks, workers, classes = ({getattr(e, f): i for i, e in enumerate(())} for f in ("task", "worker", "label"))
    for table, field in ((tasks, "task"), (workers, "worker"), (classes, "label")):
        for name in sorted({getattr(label, field) for label in labels}):
            table[name] = len(table)
    grouped = group_labels(
        [tasks[e.task] for e in labels], [workers[e.worker] for e in labels], [classes[e.label] for e in labels],
        n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes),
    )  # fmt: skip
    return EdgeCounts.of(grouped.labels, list(workers), list(classes))


def fed(table, ledger, events):
    block = block_of(events)
    applied = table.apply(block)
    ledger.add(pack_change(table.change(applied), table.workers, table.classes, len(events)))
    return applied


@pytest.mark.parametrize("seed", range(30))
def test_after_any_history_the_ledger_equals_the_counts_of_the_labels_that_hold(seed):
    rng = np.random.default_rng(seed)
    events = random_events(rng, int(rng.integers(1, 400)))
    table, ledger = LabelTable(), Ledger()
    for piece in cut(rng, events, int(rng.integers(0, 20))):
        fed(table, ledger, piece)
    assert ledger.edges() == edges_of(surviving(events))
    assert ledger.n_events == len(events)


def test_a_worker_whom_the_block_names_twice_is_one_worker():
    """Where hardly any worker occurs twice, each label brings its own entry of the dictionary."""
    events = [
        Event("t", "ann", "x", 1),
        Event("u", "bob", "x", 1),
        Event("u", "ann", "x", 2),
        Event("t", "bob", "x", 3),
    ]
    block = block_of(events)
    spelled_out = replace(block, worker=np.arange(4), workers=block.workers.take(pa.array(block.worker)))
    table, ledger = LabelTable(), Ledger()
    ledger.add(pack_change(table.change(table.apply(spelled_out)), table.workers, table.classes, len(events)))
    assert ledger.edges() == edges_of(events)


def test_an_old_event_that_comes_late_does_not_make_its_task_older():
    table = LabelTable()
    table.apply(block_of([Event("t", "ann", "yes", 100)]))
    table.apply(block_of([Event("t", "bob", "yes", 0)]))
    assert table.latest.tolist() == [100]
