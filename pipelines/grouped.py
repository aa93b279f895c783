"""Task shards: all labels of some tasks, one per (task, worker), compact; counting and scoring both read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdcore.labels import GroupedLabels, Ints, TaskLabels, group_labels
from crowdcore.pairs import is_sampled
from pipelines.blocks import GOLD, NO_TIME, UNORDERED, LabelBlock, united
from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts


@dataclass(frozen=True)
class TaskShard:
    """The labels of some tasks.

    Attributes:
        number: of the shard.
        task: (tasks,) ids.
        labels: one label per (task, worker), in the shard's own codes.
        n_received: (tasks,) labels received, repeats included.
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
    blocks = sorted(blocks, key=lambda block: (block.source, block.sequence))
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


def gold_code(workers: pa.LargeStringArray) -> int:
    """The code of the gold answers among `workers`, or -1."""
    return int(pc.index(workers, pa.scalar(GOLD, pa.large_string())).as_py())


def _accounts(task: Ints, worker: Ints, grouped: GroupedLabels, gold: int) -> tuple[Ints, dict[str, int]]:
    """(tasks,) labels received, gold and contradictions left out; and what became of labels and gold answers."""
    labels, out = grouped.labels, grouped.contradictions
    n_out = len(out)
    if gold < 0:
        used = len(labels.worker)
        counts = {"labels_used": used, "labels_repeated": len(task) - used - n_out, "labels_rejected": n_out}
        counts["tasks"] = int((labels.sizes > 0).sum())
    else:
        by_gold, kept_gold = worker == gold, labels.worker == gold
        gold_used, gold_out = int(kept_gold.sum()), int(by_gold[out].sum())
        used, n_out = len(kept_gold) - gold_used, n_out - gold_out
        has_gold = np.bincount(labels.task[kept_gold], minlength=labels.n_tasks)
        received = np.bincount(task[~by_gold], minlength=labels.n_tasks)
        counts = {
            "labels_used": used,
            "labels_repeated": int(received.sum()) - used - n_out,
            "labels_rejected": n_out,
            "tasks": int((labels.sizes > has_gold).sum()),
            "gold_used": gold_used,
            "gold_repeated": int(by_gold.sum()) - gold_used - gold_out,
            "gold_rejected": gold_out,
            "gold_unmatched": int(((labels.sizes == has_gold) & (has_gold > 0)).sum()),
        }
        for role, count in (("labels", n_out), ("gold", gold_out)):
            if count:
                counts[f"{role}_rejected.contradicting-repeat"] = count
        out = out[~by_gold[out]]
        return received - np.bincount(task[out], minlength=labels.n_tasks), counts
    if n_out:
        counts["labels_rejected.contradicting-repeat"] = n_out
    return grouped.n_received, counts


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
