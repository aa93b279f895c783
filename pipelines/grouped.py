"""Task shards: all labels of some tasks, one per (task, worker), compact; counting and scoring both read them.

Of the events on one (task, worker) those that a deletion withdraws go first, then the rule for repeats chooses one: see
`crowdcore.labels`. A task whose labels were all withdrawn is in its shard without labels, as one that only gold knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.labels import GroupedLabels, Ints, TaskLabels, group_labels
from crowdcore.pairs import is_sampled
from pipelines.blocks import GOLD, NO_TIME, UNORDERED, LabelBlock, pruned, united
from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts

_WHEN_ANY = ("labels_withdrawn", "labels_rejected.contradicting-repeat", "gold_rejected.contradicting-repeat")


@dataclass(frozen=True)
class TaskShard:
    """The labels of some tasks.

    Attributes:
        number: of the shard.
        task: (tasks,) ids.
        labels: one label per (task, worker), in the shard's own codes.
        n_received: (tasks,) labels received: repeats and labels withdrawn since included, deletions not.
        workers, classes: the ids that the codes stand for; the classes are sorted.
    """

    number: int
    task: pa.LargeStringArray
    labels: TaskLabels
    n_received: Ints
    workers: pa.LargeStringArray
    classes: pa.LargeStringArray

    def to_bytes(self) -> bytes:
        """The shard as a frame."""
        sizes = self.labels.sizes
        repeated = np.flatnonzero(self.n_received != sizes)
        return pack(
            {
                "number": np.array([self.number]),
                **pack_texts("task", self.task),
                "size": narrow(sizes, int(sizes.max(initial=0)) + 1),
                "repeated": repeated,
                "received": self.n_received[repeated],
                "worker": narrow(self.labels.worker, len(self.workers)),
                **pack_texts("workers", self.workers),
                "label": narrow(self.labels.label, len(self.classes)),
                **pack_texts("classes", self.classes),
            }
        )

    @classmethod
    def from_bytes(cls, frame: Any) -> "TaskShard":
        """The shard of a frame."""
        arrays = unpack(frame)
        starts = np.zeros(len(arrays["size"]) + 1, np.int64)
        np.cumsum(arrays["size"], out=starts[1:])
        received = arrays["size"].astype(np.int64)
        received[arrays["repeated"]] = arrays["received"]
        workers, classes = unpack_texts("workers", arrays), unpack_texts("classes", arrays)
        labels = TaskLabels(
            starts, arrays["worker"].astype(np.int64), arrays["label"].astype(np.int64), len(workers), len(classes)
        )
        return cls(int(arrays["number"][0]), unpack_texts("task", arrays), labels, received, workers, classes)


@dataclass(frozen=True)
class Contradiction:
    """A label left out because another one by the same worker on the same task contradicts it."""

    task: str
    worker: str
    label: str
    path: str


@dataclass(frozen=True)
class Grouping:
    """What became of the blocks of one shard; the counts are those of `pipelines.counts`.

    `time`: (labels,) those of the shard's labels; None when no label has one.
    """

    shard: TaskShard
    contradictions: tuple[Contradiction, ...]
    counts: dict[str, int]
    time: Ints | None = None


def group_blocks(number: int, blocks: Sequence[LabelBlock], repeats: str) -> Grouping:
    """Groups the blocks of one shard by task and keeps one label per (task, worker)."""
    blocks = _in_order(blocks)
    coded = pa.concat_arrays([block.task for block in blocks]).dictionary_encode()
    task, n_tasks = coded.indices.to_numpy(), len(coded.dictionary)
    in_order = bool(is_sampled(np.bincount(task, minlength=n_tasks)).any())
    worker, workers = united([block.worker for block in blocks], [block.workers for block in blocks], in_order)
    label, classes = united([block.label for block in blocks], [block.classes for block in blocks], True)
    time = _times(blocks)
    grouped = group_labels(
        task,
        worker,
        label,
        n_tasks=n_tasks,
        n_workers=len(workers),
        n_classes=len(classes),
        time=time,
        position=_positions(blocks),
        deleted=_deletions(blocks),
        repeats=repeats,
    )
    gold = gold_code(workers)
    received, counts = _accounts(task, worker, grouped, gold)
    shard = TaskShard(number, coded.dictionary, grouped.labels, received, workers, classes)
    block_of_row = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    contradictions = tuple(
        Contradiction(
            coded.dictionary[int(task[row])].as_py(),
            workers[int(worker[row])].as_py(),
            classes[int(label[row])].as_py(),
            blocks[int(block_of_row[row])].path,
        )
        for row in grouped.contradictions
    )
    return Grouping(shard, contradictions, counts, None if time is None else time[grouped.kept])


def last_events(blocks: Sequence[LabelBlock]) -> LabelBlock:
    """One event, a label or a deletion, per (task, worker) of some blocks: the one that decides when the last does.

    It is the latest by time, then by place in the source; at the same place a deletion goes before a label, and among
    labels the class that sorts last. The events of the result are sorted by task and worker, in no other order than
    that of the ids' first appearance; they have times, `NO_TIME` where none is known. As many were dropped as there are
    fewer.

    >>> from functools import partial
    >>> texts, both = partial(pa.array, type=pa.large_string()), np.zeros(2, int)
    >>> blocks = [
    ...     LabelBlock(0, at, texts(["t", "u"]), both, texts(["ann"]), both, texts(["yes"]), deleted=deleted)
    ...     for at, deleted in ((0, None), (2, np.array([False, True])))
    ... ]
    >>> last = last_events(blocks)
    >>> last.task.to_pylist(), last.label.tolist(), last.deleted.tolist()
    (['t', 'u'], [0, 0], [False, True])
    """
    blocks = _in_order(blocks)
    coded = pa.concat_arrays([block.task for block in blocks]).dictionary_encode()
    worker, workers = united([block.worker for block in blocks], [block.workers for block in blocks])
    label, classes = united([block.label for block in blocks], [block.classes for block in blocks], True)
    time, deleted = _times(blocks), _deletions(blocks)
    kept = group_labels(
        coded.indices.to_numpy(),
        worker,
        label if deleted is None else np.where(deleted, len(classes), label),  # a class that sorts after all others
        n_tasks=len(coded.dictionary),
        n_workers=len(workers),
        n_classes=len(classes) + 1,
        time=time,
        position=_positions(blocks),
    ).kept
    found = LabelBlock(
        UNORDERED,
        0,
        coded.dictionary.take(coded.indices.take(pa.array(kept))),
        worker[kept],
        workers,
        label[kept],
        classes,
        np.full(len(kept), NO_TIME) if time is None else time[kept],
        deleted=None if deleted is None else deleted[kept],
    )
    return pruned(found)


def gold_code(workers: pa.LargeStringArray) -> int:
    """The code of the gold answers among `workers`, or -1."""
    return int(pc.index(workers, pa.scalar(GOLD, pa.large_string())).as_py())


def _accounts(task: Ints, worker: Ints, grouped: GroupedLabels, gold: int) -> tuple[Ints, dict[str, int]]:
    """(tasks,) labels received, gold and contradictions left out; and what became of labels and gold answers."""
    labels, received, out = grouped.labels, grouped.n_received, grouped.contradictions
    used, n_out, has_gold, of_gold = len(labels.worker), len(out), np.zeros(labels.n_tasks, np.int64), {}
    if gold >= 0:
        by_gold, kept_gold = worker == gold, labels.worker == gold
        gold_used, gold_out = int(kept_gold.sum()), int(by_gold[out].sum())
        used, n_out = used - gold_used, n_out - gold_out
        by_gold[out] = False
        received = received - np.bincount(task[by_gold], minlength=labels.n_tasks)
        has_gold = np.bincount(labels.task[kept_gold], minlength=labels.n_tasks)
        of_gold = {
            "gold_used": gold_used,
            "gold_repeated": int(by_gold.sum()) - gold_used,
            "gold_rejected": gold_out,
            "gold_unmatched": int(((labels.sizes == has_gold) & (has_gold > 0)).sum()),
            "gold_rejected.contradicting-repeat": gold_out,
        }
    n_withdrawn = len(grouped.withdrawn)
    counts = {
        "labels_used": used,
        "labels_repeated": int(received.sum()) - used - (n_withdrawn - grouped.n_deletions),
        "labels_rejected": n_out,
        "tasks": int((labels.sizes > has_gold).sum()),
        "labels_withdrawn": n_withdrawn,
        "labels_rejected.contradicting-repeat": n_out,
        **of_gold,
    }
    return received, {name: n for name, n in counts.items() if n or name not in _WHEN_ANY}


def _in_order(blocks: Sequence[LabelBlock]) -> list[LabelBlock]:
    return sorted(blocks, key=lambda block: (block.source, block.sequence))


def _deletions(blocks: Sequence[LabelBlock]) -> NDArray[np.bool_] | None:
    if all(block.deleted is None for block in blocks):
        return None
    return np.concatenate([np.zeros(len(block), bool) if block.deleted is None else block.deleted for block in blocks])


def _times(blocks: Sequence[LabelBlock]) -> Ints | None:
    if all(block.time is None for block in blocks):
        return None
    return np.concatenate([np.full(len(block), NO_TIME) if block.time is None else block.time for block in blocks])


def _positions(blocks: Sequence[LabelBlock]) -> Ints | None:
    """Places in the source; labels that came in no order are all at one place, before those that have one."""
    if all(block.source != UNORDERED for block in blocks):
        return None
    ends = np.cumsum([len(block) for block in blocks])
    return np.concatenate(
        [
            np.full(len(block), -1) if block.source == UNORDERED else np.arange(end - len(block), end)
            for block, end in zip(blocks, ends, strict=True)
        ]
    )
