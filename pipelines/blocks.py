"""Label blocks: many labels in one frame, each block with its own dictionaries of workers and classes.

Tasks are split into shards by a hash of the task's id alone, the same in every process and in every block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.frames import narrow, pack, pack_texts, text_buffers, unpack, unpack_texts

GOLD = ""
_OPTIONAL = ("time", "deleted", "offset")
NO_TIME = np.iinfo(np.int64).min
UNORDERED = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xFF51AFD7ED558CCD)
_WORD = 8
_ROWS_IN_CACHE = 1 << 15
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], np.uint64)


@dataclass(frozen=True)
class LabelBlock:
    """Labels that stood together in a source.

    Attributes:
        source: number of the source; `UNORDERED` when the labels came in no particular order.
        sequence: place of the first label in the source.
        task: (labels,) ids.
        worker, workers: (labels,) codes, and the ids they stand for.
        label, classes: (labels,) codes, and the classes they stand for.
        time: (labels,) integers that grow with time (see `pipelines.times`), `NO_TIME` where unknown; None when no
            label has one.
        path: what the source is called.
        deleted: (labels,) whether the event withdraws the worker's label; None when none does.
        offset: (labels,) place in the source, counted from `sequence`; None when the labels are consecutive.
        arrived_us: when the first label arrived, in microseconds since 1970; 0 when nobody noted.
    """

    source: int
    sequence: int
    task: pa.LargeStringArray
    worker: NDArray[Any]
    workers: pa.LargeStringArray
    label: NDArray[Any]
    classes: pa.LargeStringArray
    time: NDArray[np.int64] | None = None
    path: str = ""
    deleted: NDArray[np.bool_] | None = None
    offset: NDArray[Any] | None = None
    arrived_us: int = 0

    def __len__(self) -> int:
        return len(self.task)

    def to_bytes(self) -> bytes:
        """The block as a frame."""
        arrays = {
            "place": np.array([self.source, self.sequence, self.arrived_us], np.int64),
            **pack_texts("task", self.task),
            "worker": narrow(self.worker, len(self.workers)),
            **pack_texts("workers", self.workers),
            "label": narrow(self.label, len(self.classes)),
            **pack_texts("classes", self.classes),
            "path": np.frombuffer(self.path.encode(), np.uint8),
        }
        for name in _OPTIONAL:
            array = getattr(self, name)
            if array is not None:
                arrays[name] = array
        return pack(arrays)

    @classmethod
    def from_bytes(cls, frame: Any) -> "LabelBlock":
        """The block of a frame."""
        arrays = unpack(frame)
        source, sequence, arrived_us = arrays["place"].tolist()
        return cls(
            source,
            sequence,
            unpack_texts("task", arrays),
            arrays["worker"],
            unpack_texts("workers", arrays),
            arrays["label"],
            unpack_texts("classes", arrays),
            path=arrays["path"].tobytes().decode(),
            arrived_us=arrived_us,
            **{name: arrays.get(name) for name in _OPTIONAL},
        )

    def rows(self, chosen: NDArray[Any]) -> "LabelBlock":
        """Some labels of the block: `chosen` are row numbers, or a mask."""
        taken = pa.array(chosen)
        return replace(
            self,
            task=self.task.filter(taken) if chosen.dtype == bool else _taken(self.task, chosen),
            worker=self.worker[chosen],
            label=self.label[chosen],
            **{name: array[chosen] for name in _OPTIONAL if (array := getattr(self, name)) is not None},
        )


def joined(blocks: Sequence[LabelBlock]) -> LabelBlock:
    """Several blocks as one, their labels one after the other; where they came from is lost."""
    if len(blocks) == 1:
        return blocks[0]
    worker, workers = united([block.worker for block in blocks], [block.workers for block in blocks])
    label, classes = united([block.label for block in blocks], [block.classes for block in blocks])
    deleted = [np.zeros(len(block), bool) if block.deleted is None else block.deleted for block in blocks]
    return LabelBlock(
        UNORDERED,
        0,
        pa.concat_arrays([block.task for block in blocks]),
        worker,
        workers,
        label,
        classes,
        np.concatenate([np.full(len(block), NO_TIME) if block.time is None else block.time for block in blocks]),
        deleted=np.concatenate(deleted) if any(one.any() for one in deleted) else None,
    )


def united(
    codes: Sequence[NDArray[Any]], dictionaries: Sequence[pa.LargeStringArray], in_order: bool = False
) -> tuple[NDArray[Any], pa.LargeStringArray]:
    """Codes of several dictionaries as codes of one, which is sorted when it should be `in_order`.

    Codes of a dictionary without names, those of withdrawals alone, become 0.
    """
    coded = pa.concat_arrays(list(dictionaries)).dictionary_encode()
    names, place = coded.dictionary, coded.indices.to_numpy()
    if in_order:
        order = pc.sort_indices(names).to_numpy()
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        names, place = names.take(pa.array(order)), rank[place]
    ends = np.cumsum([len(dictionary) for dictionary in dictionaries])
    parts = [
        place[end - len(d) : end][code] if len(d) else np.zeros(len(code), place.dtype)
        for code, d, end in zip(codes, dictionaries, ends, strict=True)
    ]
    return np.concatenate(parts), names


def pruned(block: LabelBlock) -> LabelBlock:
    """The block without workers that do nothing in it and classes that nobody chooses; there may be no class left."""
    deleted = block.deleted if block.deleted is not None and block.deleted.any() else None
    worker, workers = _present(block.worker, block.workers)
    chosen = block.label if deleted is None else block.label[~deleted]
    codes, classes = _present(chosen, block.classes)
    label = codes
    if deleted is not None:
        label = np.zeros(len(block), codes.dtype)
        label[~deleted] = codes
    return replace(block, worker=worker, workers=workers, label=label, classes=classes, deleted=deleted)


def _present(codes: NDArray[Any], names: pa.LargeStringArray) -> tuple[NDArray[Any], pa.LargeStringArray]:
    """The same codes over the names that occur."""
    present, places = np.unique(codes, return_inverse=True)
    return (codes, names) if len(present) == len(names) else (places, names.take(pa.array(present)))


def split_block(block: LabelBlock, shards: int) -> Iterator[tuple[int, LabelBlock]]:
    """Splits a block by the shard of the task; labels keep their order."""
    shard = shard_of(block.task, shards)
    order = np.argsort(shard, kind="stable")
    ends = np.cumsum(np.bincount(shard, minlength=shards)).tolist()
    sorted_block = block.rows(order)
    spelled_out = _taken(block.workers, sorted_block.worker) if _is_spelled_out(block) else None
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            part = slice(start, end)
            if spelled_out is None:
                codes, workers = _used(sorted_block.worker[part], block.workers)
            else:
                codes, workers = np.arange(end - start), spelled_out.slice(start, end - start)
            yield (
                number,
                replace(
                    sorted_block,
                    task=sorted_block.task.slice(start, end - start),
                    worker=codes,
                    workers=workers,
                    label=sorted_block.label[part],
                    **{name: array[part] for name in _OPTIONAL if (array := getattr(sorted_block, name)) is not None},
                ),
            )
        start = end


def _is_spelled_out(block: LabelBlock) -> bool:
    """Whether every label has an entry of its own in the dictionary of workers."""
    return len(block.workers) >= len(block) and bool((block.worker[1:] > block.worker[:-1]).all())


def _taken(texts: pa.LargeStringArray, order: NDArray[Any]) -> pa.LargeStringArray:
    """`texts` in `order`; Arrow takes twice as fast with short offsets."""
    if texts.nbytes < np.iinfo(np.int32).max:
        return texts.cast(pa.string()).take(pa.array(order)).cast(pa.large_string())
    return texts.take(pa.array(order))


def _used(codes: NDArray[Any], names: pa.LargeStringArray) -> tuple[NDArray[Any], pa.LargeStringArray]:
    """The same labels over the names that occur, where the dictionary would outweigh the labels."""
    if len(names) <= 1024 or len(names) * 2 < len(codes):
        return codes, names
    seen = np.zeros(len(names), bool)
    seen[codes] = True
    present = np.flatnonzero(seen)
    position = np.zeros(len(names), np.uint32)
    position[present] = np.arange(len(present), dtype=np.uint32)
    return position[codes], names.take(pa.array(present))


def shard_of(texts: pa.LargeStringArray, shards: int) -> NDArray[np.uint16]:
    """(texts,) the shard of each id."""
    high = hash_texts(texts) >> np.uint64(32)
    shard: NDArray[np.uint16] = ((high * np.uint64(shards)) >> np.uint64(32)).astype(np.uint16)
    return shard


def hash_texts(texts: pa.LargeStringArray) -> NDArray[np.uint64]:
    """(texts,) a 64-bit hash of each id's bytes, which depends on nothing else.

    Ids are mixed eight bytes at a time, and an id leaves the mixing after its own last word: padding to the longest
    id of the block would give the same task different shards in different blocks.
    """
    offsets, data = text_buffers(texts)
    start, length = offsets[:-1], np.diff(offsets)
    padded = np.zeros(len(data) + _WORD, np.uint8)
    padded[: len(data)] = data
    word_at: NDArray[np.uint64] = np.ndarray(len(data) + 1, "<u8", padded, 0, (1,))
    mixed: NDArray[np.uint64] = (length.astype(np.uint64) + np.uint64(1)) * _MIX
    for low in range(0, len(length), _ROWS_IN_CACHE):
        part = slice(low, low + _ROWS_IN_CACHE)
        _mix_words(mixed[part], start[part], length[part], word_at)
    mixed *= _FINISH
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _mix_words(
    mixed: NDArray[np.uint64], start: NDArray[np.int64], length: NDArray[np.int64], word_at: NDArray[np.uint64]
) -> None:
    """Mixes the words of some ids into `mixed`, in place."""
    alive: Any = slice(None)
    for at in range(0, int(length.max(initial=1)), _WORD):
        if at:
            alive = np.flatnonzero(length > at)
        word = word_at[start[alive] + at]
        word &= _MASKS[np.minimum(length[alive] - at, _WORD)]
        word ^= mixed[alive]
        word *= _MIX
        word ^= word >> np.uint64(29)
        mixed[alive] = word
