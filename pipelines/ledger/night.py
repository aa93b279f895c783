"""A night: new labels in; changed shards, counts, skills and answers out. Nothing is written here."""

import errno
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from pipelines import progress
from pipelines.answers import blank_rows
from pipelines.blocks import NO_TIME, LabelBlock, split_block
from pipelines.errors import RunError
from pipelines.grouped import TaskShard
from pipelines.ledger.counts_file import CountsChange, KeptCounts
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.segments import Segment, all_states, unshadowed
from pipelines.ledger.task_state import TaskState, joined
from pipelines.ledger.tracking import NightRules, TrackedShard, is_among, track_shard
from pipelines.ledger.version import Version
from pipelines.model import Model
from pipelines.parallel import mapped
from pipelines.records import Origin, parse_chunk
from pipelines.scoring import score_shard
from pipelines.settings import AggregateSettings
from pipelines.solving import Solved, solve
from pipelines.sources import FilePart
from pipelines.sources.formats import chunks_of
from pipelines.tables import from_bytes
from pipelines.times import microseconds

_Opened = TypeVar("_Opened")
_OF_FILES = (None, errno.ENOENT, errno.EIO)  # errors that a file is to blame for; without a number it is Arrow's own
_MERGED_ROWS = 8  # times the rows of the night: so much of older segments is written again at most


@dataclass
class ReadNight:
    """The labels of a night by shard, what could not be used of them, and the counts."""

    shards: dict[int, list[LabelBlock]] = field(default_factory=dict)
    rejects: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def read_night(
    parts: Sequence[FilePart], classes: Sequence[str], time_unit: str, shards: int, with_places: bool = False
) -> ReadNight:
    """Reads and parses parts of files, and splits what is in them by shard; on request labels keep their places."""
    scale = microseconds(time_unit)

    def parse(item: tuple[FilePart, Any]) -> Any:
        part, lazy = item
        parsed = parse_chunk(lazy(), Origin(part.source, part.name, part.role), classes, scale, with_places)
        progress.add("read", parsed.counts.get("labels_read", 0))
        return parsed, list(split_block(parsed.block, shards)) if parsed.block is not None else []

    night = ReadNight()
    for parsed, blocks in mapped(parse, ((part, lazy) for part in parts for lazy in chunks_of(part))):
        night.counts.update(parsed.counts)
        if parsed.rejects is not None:
            night.rejects.append(from_bytes(parsed.rejects))
        for number, block in blocks:
            night.shards.setdefault(number, []).append(block)
    return night


@dataclass(frozen=True)
class ChangedShard:
    """A shard after the night: the segments that stay, the newest first, and the state that comes before them.

    Attributes:
        number: of the shard.
        tracked: what the night did to it.
        merged: how many of the newest segments go into the new one.
        state: what the new segment holds.
    """

    number: int
    tracked: TrackedShard
    merged: int
    state: TaskState


class OpenLedger:
    """A version of a ledger to read from; a new ledger has nothing. It keeps no file open."""

    def __init__(self, folder: LedgerFolder, version: Version | None) -> None:
        self.folder, self.version = folder, version
        self._looked_at: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def segments(self, shard: int) -> list[Segment]:
        """The segments of a shard, the newest first, opened for who asks: all shards at once may be too many files."""
        kept = self.version.of_shard(shard) if self.version else ()
        paths = [one.file.path for one in kept]
        return [opened(Segment, self.folder.at(path), self._looked_at[path]) for path in paths]

    def counts(self) -> KeptCounts:
        """The counts of worker pairs."""
        if self.version is None:
            return KeptCounts(EdgeCounts.zero(), np.empty(0))
        pairs, workers = (self.folder.at(one.path) for one in (self.version.edges, self.version.workers))
        classes, n_sampled = self.version.classes, self.version.n_sampled
        return opened(KeptCounts.of_files, pairs, workers, classes, n_sampled)

    def closing(self, shard: int, low_us: int, high_us: int, new: TaskState) -> TaskState:
        """The tasks of a shard, those of `new` left out, whose latest event is in a span of time."""
        kept = self.version.of_shard(shard) if self.version else ()
        segments, found = self.segments(shard), []
        for number, one in enumerate(kept):
            if one.earliest_us < high_us and one.latest_us >= low_us:
                state = segments[number].state(segments[number].between(low_us, high_us))
                alone = unshadowed(segments[:number], state.task)
                alone &= ~is_among(state.task, new.task)
                found.append(state.chosen(alone))
        return joined(found)

    @property
    def bytes_read(self) -> int:
        """How much of the ledger was looked at."""
        files = [self.version.edges, self.version.workers, self.version.inputs] if self.version else []
        return sum(one.total() for one in self._looked_at.values()) + sum(one.size_bytes for one in files)


def opened(function: Callable[..., _Opened], *args: Any) -> _Opened:
    """What `function` makes of files of a ledger; raises `RunError` when one is damaged, or cannot be had now."""
    try:
        return function(*args)
    except OSError as error:
        if error.errno in _OF_FILES:
            raise _damaged(args[0], error) from error
        raise RunError(f"The ledger cannot be read, at {args[0]}: {error.strerror}.") from error
    except (ValueError, KeyError, struct.error, pa.ArrowException) as error:  # of a frame, or of Arrow
        raise _damaged(args[0], error) from error


def _damaged(path: str, error: Exception) -> RunError:
    why = " ".join(str(error).split()).rstrip(".")
    return RunError(
        f"The ledger is damaged, at {path}: {why}. crowdbeam ledger verify tells what is wrong, and crowdbeam ledger "
        "rollback goes back to an earlier version."
    )


def track_night(ledger: OpenLedger, read: ReadNight, rules: NightRules) -> tuple[list[ChangedShard], EdgeCounts]:
    """What a night changes in the shards, and in the counts."""
    change = CountsChange()

    def track(number: int) -> ChangedShard:
        segments = ledger.segments(number)
        tracked = track_shard(read.shards[number], segments, rules)
        change.add(tracked.after)
        change.add(tracked.before, -1)
        progress.add("count agreements", tracked.after.n_rows)
        return _merged(number, tracked, segments)

    found = list(mapped(track, sorted(read.shards)))
    return found, change.total()


def _merged(number: int, tracked: TrackedShard, segments: Sequence[Segment]) -> ChangedShard:
    """Small segments before the new one become part of it, so that there are never many; older ones are left alone."""
    states, n_rows = [tracked.after], tracked.after.n_rows
    room = _MERGED_ROWS * n_rows
    for count, segment in enumerate(segments):
        if segment.n_rows > min(2 * n_rows, room):
            break
        state = segment.state()
        alone = unshadowed(segments[:count], state.task)
        alone &= ~is_among(state.task, tracked.after.task)
        states.append(state.chosen(alone))
        n_rows += states[-1].n_rows
        room -= segment.n_rows
    return ChangedShard(number, tracked, len(states) - 1, joined(states))


def solve_night(
    kept: KeptCounts, change: EdgeCounts, settings: AggregateSettings, prior: Mapping[str, float], warm: bool = False
) -> Solved:
    """The skills after the night: as the batch finds them, or, `warm`, beginning at those of the last night."""
    edges = kept.edges + change
    start = None
    if warm and len(kept.skills):
        known = dict(zip(kept.edges.workers.tolist(), kept.skills.tolist(), strict=True))
        start = np.array([known.get(worker, np.nan) for worker in edges.workers.tolist()])
    del kept  # its memory is free for the solver, unless the caller keeps it
    progress.add("solve", 0)
    return solve(edges, settings, prior, start)


def score_state(
    number: int, state: TaskState, model: Model, settings: AggregateSettings
) -> tuple[pa.Table, Counter[str]]:
    """The answers to the tasks of a state that have labels, and their counts."""
    labels, workers, classes = state.labels()
    shard = TaskShard(number, state.task, labels, state.n_received, workers, classes)
    progress.add("score", len(labels.worker))
    table, counts = score_shard(shard, model, settings)
    return table, counts + Counter(tasks=int(state.answered.sum()))


def states_after(ledger: OpenLedger, number: int, here: ChangedShard | None) -> TaskState:
    """Every task of a shard, after the night's change to it, if any."""
    known = all_states(ledger.segments(number))
    if here is None:
        return known
    return joined([here.tracked.after, known.chosen(~is_among(known.task, here.tracked.after.task))])


def lost_answers(tracked: TrackedShard, model: Model) -> pa.Table:
    """Rows of tasks that had an answer before the night and have no label any more."""
    had = tracked.before.task.filter(pa.array(tracked.before.answered))
    gone = tracked.after.task.filter(pa.array(~tracked.after.answered))
    return blank_rows(gone.filter(pa.array(is_among(gone, had))), model.name)


def in_large_parts(tables: Iterator[pa.Table], rows: int = 250_000) -> Iterator[pa.Table]:
    """The same rows in fewer tables, each of at least so many rows but the last; those of one kind come together."""
    waiting: dict[str, list[pa.Table]] = {}
    for table in tables:
        here = waiting.setdefault(str(table.schema), [])
        here.append(table)
        if sum(one.num_rows for one in here) >= rows:
            yield pa.concat_tables(here).unify_dictionaries()
            here.clear()
    for here in waiting.values():
        if any(one.num_rows for one in here):
            yield pa.concat_tables(here).unify_dictionaries()


def newest_time(shards: Sequence[ChangedShard]) -> int:
    """The latest time of an event of the night that is not after the night began."""
    return max((one.tracked.newest_us for one in shards), default=NO_TIME)
