"""Segments: files of task states that can be searched without being read.

A segment is a frame (`pipelines.frames`) that is mapped into memory. Its tasks are sorted by a hash of their ids; two
bytes of it a task are enough to find nearly all that are not there, and only what is found is looked at.
"""

import mmap
import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crowdcore.labels import Ints
from pipelines.blocks import NO_TIME, hash_texts
from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts
from pipelines.ledger.task_state import WITHDRAWN, TaskState, joined, rows_at
from pipelines.ledger.version import KeptFile, KeptSegment

_TASKS_PER_BUCKET = 64
_REST_BITS = 16
_HASH_BITS = 32


def pack_state(state: TaskState) -> bytes:
    """A segment's content."""
    hashes = _hashes(state.task)
    order = np.argsort(hashes, kind="stable")
    state = state.chosen(order)
    bits = max(0, min(_HASH_BITS - _REST_BITS, (len(state) // _TASKS_PER_BUCKET).bit_length()))
    short = hashes[order] >> np.uint32(_HASH_BITS - _REST_BITS - bits)
    sizes = np.bincount(short >> np.uint32(_REST_BITS), minlength=1 << bits)
    used_workers, worker = np.unique(state.worker, return_inverse=True)
    used_classes, label = np.unique(state.label, return_inverse=True)
    has_withdrawn = len(used_classes) > 0 and used_classes[0] == WITHDRAWN
    named = used_classes[1:] if has_withdrawn else used_classes
    arrays = {
        "bucket": sizes.astype(np.uint32),
        "rest": (short & np.uint32((1 << _REST_BITS) - 1)).astype(np.uint16),
        **pack_texts("task", state.task),
        "end": narrow(state.starts[1:], state.n_rows + 1),
        "latest": state.latest,
        "worker": narrow(worker, len(used_workers)),
        **pack_texts("workers", state.workers.take(pa.array(used_workers.astype(np.int64)))),
        "label": narrow(label if has_withdrawn else label + 1, len(named) + 1),
        **pack_texts("classes", state.classes.take(pa.array(named.astype(np.int64)))),
    }
    if (state.time != NO_TIME).any():
        arrays |= _pack_times(state.time)
    if (state.received != 1).any():
        arrays["received"] = narrow(state.received, int(state.received.max()) + 1)
    return pack(arrays)


def kept_segment(number: int, file: KeptFile, state: TaskState) -> KeptSegment:
    """What a version says of a segment."""
    low, high = int(state.latest.min(initial=np.iinfo(np.int64).max)), int(state.latest.max(initial=NO_TIME))
    return KeptSegment(number, file, len(state), state.n_rows, low, high)


def _pack_times(time: Ints) -> dict[str, NDArray[Any]]:
    """Times as small numbers: how many units after the first they are, and 1; 0 where there is none."""
    known = time != NO_TIME
    first = int(time[known].min())
    since = np.where(known, time - first, 0)
    unit = max(1, int(np.gcd.reduce(since)))
    codes = np.where(known, since // unit + 1, 0)
    return {"time": narrow(codes, int(codes.max()) + 1), "time.scale": np.array([first, unit])}


def _hashes(tasks: pa.LargeStringArray) -> NDArray[np.uint32]:
    """(tasks,) hashes that do not depend on the shard, which takes the upper half of the same."""
    low: NDArray[np.uint32] = (hash_texts(tasks) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low


class Segment:
    """An open segment. It takes a descriptor and a mapping of the system until nobody holds it or its arrays.

    `looked_at` takes up how many bytes of each array were looked at; a file that is opened again goes on with the same.
    """

    def __init__(self, path: str, looked_at: Counter[str] | None = None) -> None:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) else b""
        self._arrays = unpack(data)
        self._looked_at = Counter() if looked_at is None else looked_at

    def __len__(self) -> int:
        return len(self._arrays["rest"])

    @property
    def bytes_read(self) -> int:
        """How much of it was looked at so far; of what was looked at twice, once."""
        return sum(self._looked_at.values())

    @property
    def n_rows(self) -> int:
        """How many rows there are, withdrawn labels included."""
        return len(self._arrays["worker"])

    def find(self, tasks: pa.LargeStringArray) -> Ints:
        """(tasks,) where each task stands in the segment; -1 for those that are not there."""
        found = np.full(len(tasks), -1, np.int64)
        bucket = self._whole("bucket")
        bits = len(bucket).bit_length() - 1
        asked = _hashes(tasks) >> np.uint32(_HASH_BITS - _REST_BITS - bits)
        known = (np.repeat(np.arange(len(bucket), dtype=np.uint32), bucket) << np.uint32(_REST_BITS)) | self._whole(
            "rest"
        )
        if not len(known):
            return found
        left = np.searchsorted(known, asked, "left")
        alike = np.flatnonzero(known.take(left, mode="clip") == asked)  # most tasks of a night are new
        left = left[alike]
        sizes = np.searchsorted(known, asked[alike], "right") - left
        places = rows_at(left, sizes)
        if not len(places):
            return found
        who = np.repeat(alike, sizes)
        same = pc.equal(self._tasks(places), tasks.take(pa.array(who))).to_numpy(zero_copy_only=False)
        found[who[same]] = places[same]
        return found

    def state(self, places: Ints | None = None) -> TaskState:
        """All tasks, or those at `places`, in that order."""
        everything = places is None
        places = np.arange(len(self)) if places is None else places
        begins, sizes = self._runs(places)
        starts = np.zeros(len(places) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        rows: Any = slice(None) if everything else rows_at(begins, sizes)
        n_rows = int(starts[-1])
        time = self._times(rows) if "time" in self._arrays else np.full(n_rows, NO_TIME)
        received = self._some("received", rows) if "received" in self._arrays else np.ones(n_rows, np.int64)
        return TaskState(
            self._tasks(None if everything else places),
            starts,
            self._some("latest", places),
            self._some("worker", rows),
            self._texts("workers"),
            self._some("label", rows).astype(np.int64) - 1,
            self._texts("classes"),
            time,
            received.astype(np.int64),
        )

    def between(self, low_us: int, high_us: int) -> Ints:
        """Places of the tasks whose latest event is at `low_us` or later, and before `high_us`."""
        latest = self._whole("latest")
        return np.flatnonzero((latest >= low_us) & (latest < high_us))

    def _times(self, rows: Any) -> Ints:
        """Times of rows; format 1 kept them as they are."""
        codes = self._some("time", rows)
        if "time.scale" not in self._arrays:
            return codes
        first, unit = self._arrays["time.scale"].tolist()
        return np.where(codes == 0, NO_TIME, first + (codes.astype(np.int64) - 1) * unit)

    def _runs(self, places: Ints) -> tuple[Ints, Ints]:
        """(places,) where the rows of each task begin, and how many there are; format 1 kept sizes alone."""
        if "end" in self._arrays:
            ends = self._some("end", places).astype(np.int64)
            begins = np.where(places > 0, self._some("end", np.maximum(places - 1, 0)).astype(np.int64), 0)
            return begins, ends - begins
        sizes = self._whole("size").astype(np.int64)
        return (np.cumsum(sizes) - sizes)[places], sizes[places]

    @cached_property
    def _names(self) -> pa.LargeStringArray:
        self._whole("task.lengths")
        return unpack_texts("task", self._arrays)

    def _tasks(self, places: Ints | None) -> pa.LargeStringArray:
        if places is None:
            return self._texts("task")
        chosen = self._names.take(pa.array(places))
        self._look_at("task.bytes", int(chosen.nbytes) - 8 * len(chosen))
        return chosen

    def _texts(self, name: str) -> pa.LargeStringArray:
        """All texts of a name, copied: answers that wait to be written keep no segment open."""
        self._whole(f"{name}.lengths")
        return unpack_texts(name, {**self._arrays, f"{name}.bytes": self._whole(f"{name}.bytes").copy()})

    def _whole(self, name: str) -> NDArray[Any]:
        array = self._arrays[name]
        self._look_at(name, array.nbytes)
        return array

    def _some(self, name: str, places: Any) -> NDArray[Any]:
        chosen: NDArray[Any] = self._arrays[name][places]
        self._look_at(name, chosen.nbytes)
        return chosen

    def _look_at(self, name: str, n_bytes: int) -> None:
        self._looked_at[name] = min(self._arrays[name].nbytes, self._looked_at[name] + n_bytes)


def find_states(segments: Sequence[Segment], tasks: pa.LargeStringArray) -> TaskState:
    """What segments, the newest first, know of `tasks`: a newer segment's word on a task goes before an older one's."""
    found = []
    for segment in segments:
        if not len(tasks):
            break
        places = segment.find(tasks)
        there = places >= 0
        if there.any():
            found.append(segment.state(places[there]))
            tasks = tasks.filter(pa.array(~there))
    return joined(found)


def all_states(segments: Sequence[Segment]) -> TaskState:
    """What segments, the newest first, know of all their tasks."""
    found: list[TaskState] = []
    for number, segment in enumerate(segments):
        state = segment.state()
        newer = unshadowed(segments[:number], state.task)
        found.append(state if newer.all() else state.chosen(newer))
    return joined(found)


def unshadowed(newer: Sequence[Segment], tasks: pa.LargeStringArray) -> NDArray[np.bool_]:
    """(tasks,) which are in none of some newer segments."""
    alone = np.ones(len(tasks), bool)
    for segment in newer:
        alone &= segment.find(tasks) < 0
    return alone
