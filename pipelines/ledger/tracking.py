"""Tracking: the events of one night and one shard in; what their tasks were and what they are now out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.labels import GroupedLabels, Ints, group_labels
from pipelines.blocks import NO_TIME, LabelBlock, united
from pipelines.grouped import gold_code
from pipelines.late import LATE, late_rejects
from pipelines.ledger.segments import Segment, find_states
from pipelines.ledger.task_state import WITHDRAWN, TaskState


@dataclass(frozen=True)
class NightRules:
    """What a night goes by.

    Attributes:
        closed_before_us: tasks whose latest event is older are closed.
        night_us: when the night began: where tasks are closed, the time of events that have none or a later one.
    """

    closed_before_us: int
    night_us: int


@dataclass(frozen=True)
class TrackedShard:
    """What one night did to one shard.

    Attributes:
        before: the tasks that events came for, as they were; those that are new are not in it.
        after: the same tasks, and the new ones, as they are now.
        counts: what became of the events, as `pipelines.counts` says.
        rejects: late events, as a table; None when there is none.
        newest_us: the latest time of an event that is not after the night began; `NO_TIME` when none has one.
    """

    before: TaskState
    after: TaskState
    counts: Counter[str]
    rejects: pa.Table | None
    newest_us: int


@dataclass(frozen=True)
class _Events:
    """The events of a shard in the order of their places; `task` are codes of `tasks`."""

    task: Ints
    tasks: pa.LargeStringArray
    time: Ints
    deleted: NDArray[np.bool_]
    blocks: Sequence[LabelBlock]

    @classmethod
    def of(cls, blocks: Sequence[LabelBlock]) -> "_Events":
        blocks = sorted(blocks, key=lambda block: (block.source, block.sequence))
        coded = pa.concat_arrays([block.task for block in blocks]).dictionary_encode()
        time = [np.full(len(block), NO_TIME) if block.time is None else block.time for block in blocks]
        deleted = [np.zeros(len(block), bool) if block.deleted is None else block.deleted for block in blocks]
        task = coded.indices.to_numpy().astype(np.int64)
        return cls(task, coded.dictionary, np.concatenate(time), np.concatenate(deleted), blocks)

    def without(self, out: NDArray[np.bool_]) -> "_Events":
        """The events that are not marked, with the tasks they are of."""
        ends = np.cumsum([len(block) for block in self.blocks])
        blocks = [block.rows(~out[end - len(block) : end]) for block, end in zip(self.blocks, ends, strict=True)]
        return self.of(blocks)


def track_shard(blocks: Sequence[LabelBlock], segments: Sequence[Segment], rules: NightRules) -> TrackedShard:
    """Takes the events of `blocks`; `segments`, the newest first, hold what is known of the shard's tasks.

    Of several events by one worker on one task the latest by time holds; at the same time the one that came in a later
    night, then the one that stands later in the input.
    """
    events = _Events.of(blocks)
    before = find_states(segments, events.tasks)
    rejects, late_counts = None, Counter[str]()
    if rules.closed_before_us != NO_TIME and len(before):
        closed = before.task.filter(pa.array(before.latest < rules.closed_before_us))
        late = is_among(events.tasks, closed)[events.task]
        if late.any():
            rejects, late_counts = _late_rejects(events, late), _late_counts(events, late)
            events = events.without(late)
            before = before.chosen(before.latest >= rules.closed_before_us)
    after, counts = _merged(before, events, rules)
    counts.update(late_counts)
    return TrackedShard(before, after, counts, rejects, _newest(events.time, rules.night_us))


def is_among(texts: pa.LargeStringArray, known: pa.LargeStringArray) -> NDArray[np.bool_]:
    """(texts,) which are among `known`."""
    found: NDArray[np.bool_] = pc.is_in(texts, value_set=known).to_numpy(zero_copy_only=False)
    return found


def _newest(time: Ints, night_us: int) -> int:
    """The latest of some times that is not after the night began: one label of a wrong clock would close everything."""
    newest = int(time.max(initial=NO_TIME))
    return newest if newest <= night_us else int(time[time <= night_us].max(initial=NO_TIME))


@dataclass(frozen=True)
class _Rows:
    """What was known of the tasks of some events, and behind it the events.

    Attributes:
        task: (rows,) codes of the tasks of the events.
        worker, workers: (rows,) codes, and the ids they stand for.
        label, classes: (rows,) codes, the one after the last where there is no label any more, and the classes.
        time: (rows,) when, `NO_TIME` where unknown.
        n_known: so many rows were known.
    """

    task: Ints
    worker: Ints
    workers: pa.LargeStringArray
    label: Ints
    classes: pa.LargeStringArray
    time: Ints
    n_known: int

    @classmethod
    def of(cls, before: TaskState, events: _Events, place: Ints) -> "_Rows":
        blocks = events.blocks
        worker, workers = united(
            [before.worker, *(b.worker for b in blocks)], [before.workers, *(b.workers for b in blocks)]
        )
        label, classes = _labels(before, events)
        time = np.concatenate([before.time, events.time])
        task = np.concatenate([place[before.row_task], events.task])
        return cls(task, worker, workers, label, classes, time, len(before.worker))

    def grouped(self, n_tasks: int) -> GroupedLabels:
        """The rows that hold: of each task and worker the latest by time, then the one that came later."""
        return group_labels(
            self.task,
            self.worker,
            self.label,
            n_tasks=n_tasks,
            n_workers=len(self.workers),
            n_classes=len(self.classes) + 1,
            time=self.time,
        )


def _merged(before: TaskState, events: _Events, rules: NightRules) -> tuple[TaskState, Counter[str]]:
    """The tasks of the events as they are now, and what became of the events."""
    place = _places(before.task, events.tasks)
    rows = _Rows.of(before, events, place)
    grouped = rows.grouped(len(events.tasks))
    holds = _holding(grouped, rows.task, rows.worker)
    latest = np.full(len(events.tasks), NO_TIME)
    latest[place] = before.latest
    np.maximum.at(latest, events.task, np.where(events.time == NO_TIME, rules.night_us, events.time))
    labels, received = grouped.labels, np.concatenate([before.received, ~events.deleted])
    state = TaskState(
        events.tasks,
        labels.starts,
        np.minimum(latest, rules.night_us),
        labels.worker,
        rows.workers,
        np.where(labels.label == len(rows.classes), WITHDRAWN, labels.label),
        rows.classes,
        rows.time[grouped.kept],
        np.bincount(holds, received, len(grouped.kept)).astype(np.int64),
    )
    return state, _account(events, rows, grouped, holds)


def _account(events: _Events, rows: _Rows, grouped: GroupedLabels, holds: Ints) -> Counter[str]:
    """What became of the events, and how many labels are others than before."""
    first, kept = rows.n_known, grouped.kept
    known = np.zeros(len(kept), bool)
    known[holds[:first]] = True
    old_label, old_time = np.full(len(kept), len(rows.classes)), np.full(len(kept), NO_TIME)
    old_label[holds[:first]], old_time[holds[:first]] = rows.label[:first], rows.time[:first]
    changed = grouped.labels.label != old_label
    is_used = (kept >= first) & (changed | ~known | (rows.time[kept] != old_time))
    used = np.zeros(len(events.task), bool)
    used[kept[is_used] - first] = True
    worker, label = rows.worker[first:], rows.label[first:]
    withdrawn = _withdrawn(events, worker, label, len(rows.workers), len(rows.classes) + 1)
    counts = _counted(used & ~events.deleted, withdrawn, worker == gold_code(rows.workers))
    counts["labels_changed"] = int(changed.sum())
    return counts


def _holding(grouped: GroupedLabels, task: Ints, worker: Ints) -> Ints:
    """(rows,) which label holds of the row's task and worker. Most rows are that label; the others are looked up."""
    kept, wide = grouped.kept, grouped.labels.n_workers
    found = np.full(len(task), -1, np.int64)
    found[kept] = np.arange(len(kept))
    left = np.flatnonzero(found < 0)
    found[left] = np.searchsorted(task[kept] * wide + worker[kept], task[left] * wide + worker[left])
    return found


def _withdrawn(events: _Events, worker: Ints, label: Ints, n_workers: int, n_classes: int) -> NDArray[np.bool_]:
    """(events,) which are deletions, or labels of the night that one of them withdraws: as the batch counts them."""
    found = np.zeros(len(events.task), bool)
    if events.deleted.any():
        grouped = group_labels(
            events.task,
            worker,
            label,
            n_tasks=len(events.tasks),
            n_workers=n_workers,
            n_classes=n_classes,
            time=events.time,
            deleted=events.deleted,
        )
        found[grouped.withdrawn] = True
    return found


def _counted(used: NDArray[np.bool_], withdrawn: NDArray[np.bool_], is_gold: NDArray[np.bool_]) -> Counter[str]:
    """What became of labels, and of known answers when there are any."""
    counts: Counter[str] = Counter()
    for what, mine in (("labels", ~is_gold), ("gold", is_gold)):
        if what == "labels" or mine.any():
            n_used, n_withdrawn = int((used & mine).sum()), int((withdrawn & mine).sum())
            counts.update({f"{what}_used": n_used, f"{what}_repeated": int(mine.sum()) - n_used - n_withdrawn})
            if n_withdrawn:
                counts[f"{what}_withdrawn"] = n_withdrawn
    return counts


def _labels(before: TaskState, events: _Events) -> tuple[Ints, pa.LargeStringArray]:
    """Codes of the labels of both over one list of classes; what is withdrawn has the code after the last."""
    nothing = pa.array([""], pa.large_string())
    holds = before.label != WITHDRAWN
    codes = [np.where(holds, before.label, 0)] + [block.label for block in events.blocks]
    names = [before.classes if holds.any() else nothing] + [
        block.classes if len(block.classes) else nothing for block in events.blocks
    ]
    label, classes = united(codes, names)
    gone = np.concatenate([~holds, events.deleted])
    return np.where(gone, len(classes), label).astype(np.int64), classes


def _places(tasks: pa.LargeStringArray, among: pa.LargeStringArray) -> Ints:
    """(tasks,) where each of `tasks` stands among others."""
    return np.asarray(pc.index_in(tasks, value_set=among).to_numpy(zero_copy_only=False), np.int64)


def _late_rejects(events: _Events, late: NDArray[np.bool_]) -> pa.Table:
    ends = np.cumsum([len(block) for block in events.blocks])
    places = [np.flatnonzero(late[end - len(block) : end]) for block, end in zip(events.blocks, ends, strict=True)]
    found = zip(events.blocks, places, strict=True)
    return pa.concat_tables([late_rejects(block, rows) for block, rows in found if len(rows)])


def _late_counts(events: _Events, late: NDArray[np.bool_]) -> Counter[str]:
    """How many late labels there are, and late known answers, which are counted for themselves."""
    is_gold = np.concatenate([block.worker == gold_code(block.workers) for block in events.blocks])
    counts: Counter[str] = Counter()
    for what, n in (("labels", int((late & ~is_gold).sum())), ("gold", int((late & is_gold).sum()))):
        if n:
            counts.update({f"{what}_rejected": n, f"{what}_rejected.{LATE}": n})
    return counts
