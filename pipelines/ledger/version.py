"""A version of a ledger: the account of all that belongs to it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipelines.blocks import NO_TIME

FORMAT_VERSION = 2  # 1 kept other columns of times and sizes; it is read as well
PRIOR = "prior"  # the setting that holds the skills known beforehand, by worker
DIGITS = 6


@dataclass(frozen=True)
class KeptFile:
    """A file of a ledger, by its path in it."""

    path: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True)
class KeptSegment:
    """A segment of one shard.

    Attributes:
        shard: its number.
        file: where it is.
        n_tasks, n_rows: how much is in it.
        earliest_us, latest_us: of the tasks' latest events, the first and the last.
    """

    shard: int
    file: KeptFile
    n_tasks: int
    n_rows: int
    earliest_us: int
    latest_us: int


@dataclass(frozen=True)
class Version:
    """One state of a ledger.

    Attributes:
        format_version: of the files.
        ledger: the ledger's id.
        number: grows from version to version.
        parent: the version it was made from; 0: from nothing.
        kind: "night", "forget", "rollback" or "compact".
        run_id: the same whenever the same is tried again.
        created_at_us: when.
        shards: how many parts the tasks are split into.
        segments: of every shard, the newest first.
        edges, workers, inputs: the tables of pairs, of workers, and of the inputs that are known.
        n_tasks: how many tasks there are.
        classes: how many labels each class has.
        n_sampled: tasks of which only a part of the pairs is counted.
        clock_us: the latest time of an event that was not in the future on the night it came in.
        closed_before_us: tasks whose latest event is older are closed.
        closed: the verdicts on closed tasks: how many of each label.
        whole: whether the run holds everything; else it holds what has changed since `parent`.
        run: the folder of the night's run; empty: nothing came of it that anybody would load.
        counts: of the night.
        settings: of the night, as text.
        oldest: the oldest version that is kept beside it; the next run removes what a killed one has left of others.
    """

    format_version: int
    ledger: str
    number: int
    parent: int
    kind: str
    run_id: str
    created_at_us: int
    shards: int
    segments: tuple[KeptSegment, ...]
    edges: KeptFile
    workers: KeptFile
    inputs: KeptFile
    n_tasks: int
    classes: Mapping[str, int]
    n_sampled: int
    clock_us: int = NO_TIME
    closed_before_us: int = NO_TIME
    closed: Mapping[str, int] = field(default_factory=dict)
    whole: bool = False
    run: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    oldest: int = 1

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Version":
        """The version of a file in ``versions/``."""
        segments = tuple(KeptSegment(**{**one, "file": KeptFile(**one["file"])}) for one in found["segments"])
        files = {name: KeptFile(**found[name]) for name in ("edges", "workers", "inputs")}
        return cls(**{**found, **files, "segments": segments})

    def of_shard(self, shard: int) -> tuple[KeptSegment, ...]:
        """The segments of one shard, the newest first."""
        return self._by_shard.get(shard, ())

    @cached_property
    def _by_shard(self) -> dict[int, tuple[KeptSegment, ...]]:
        found: dict[int, list[KeptSegment]] = {}
        for one in self.segments:
            found.setdefault(one.shard, []).append(one)
        return {shard: tuple(segments) for shard, segments in found.items()}

    def files(self) -> Iterator[KeptFile]:
        """Every file that the version needs, but for its run."""
        yield from (one.file for one in self.segments)
        yield from (self.edges, self.workers, self.inputs)


def name_of(number: int) -> str:
    """A version's number as it stands in names.

    >>> name_of(7)
    '000007'
    """
    return f"{number:0{DIGITS}d}"


def run_id_of(ledger: str, number: int, checksums: Sequence[str]) -> str:
    """The id of a version's run: the same when the same is tried again."""
    return hashlib.sha256("\n".join([ledger, str(number), *checksums]).encode()).hexdigest()[:32]
