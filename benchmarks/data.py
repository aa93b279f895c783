"""The crowds of the benchmarks: made once into .cache/bench, found there afterwards.

Two classes; a worker is right with a probability of its own, between .55 and .95, whatever the task. Ids are of
different lengths and partly not ASCII; the labels of a task are spread over all files. In the crowd of 2,000 workers
any may meet, and some label a task twice; in a crowd on a ring the workers of a task sit within `window` places.

The simulation is kept apart from `crowdcore.simulate`: the same data from year to year, whatever happens there.
"""

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import CACHE

GENERATOR = 1  # a higher number makes all data again
N_FILES = 8
LABELS_PER_TASK = 5
TASK_AFFIXES = (("t", ""), ("tâche-", ""), ("item/2024/", ".jpg"), ("画像_", "·été"))
WORKER_AFFIXES = (("w", ""), ("ouvrière-", ""), ("worker.", "@example.org"), ("作業者 ", ""))

_ROUND_TASKS = 100_000
_BLOCK_RECORDS = 2_000
_SYNC = bytes(range(16))
_AVRO_SCHEMA = (
    '{"type":"record","name":"Label","namespace":"crowdbeam","fields":[{"name":"task","type":"string"},'
    '{"name":"worker","type":"string"},{"name":"label","type":"string"}]}'
)


@dataclass(frozen=True)
class Crowd:
    """What a crowd's labels are made from; equal parameters are equal labels.

    Attributes:
        n_tasks: tasks, of five labels each.
        n_workers: workers, all equally busy.
        window: 0: any workers may meet; else those of a task sit within so many places on a ring.
        seed: of the simulation.
    """

    n_tasks: int
    n_workers: int
    window: int = 0
    seed: int = 1

    @property
    def n_labels(self) -> int:
        return self.n_tasks * LABELS_PER_TASK

    @property
    def folder(self) -> Path:
        return CACHE / f"g{GENERATOR}-t{self.n_tasks}-w{self.n_workers}-r{self.window}-s{self.seed}"

    @property
    def truth(self) -> Path:
        """The file with the true answer of each task."""
        return self.folder / "parquet" / "truth" / "truth.parquet"

    def files(self, form: str) -> list[Path]:
        """The files of labels; `form` is "parquet", "avro-null" or "avro-deflate"."""
        suffix = form.partition("-")[0]
        return [self.folder / form / f"part-{part}.{suffix}" for part in range(N_FILES)]


def make_data(crowd: Crowd, form: str) -> bool:
    """Makes the files of `crowd` in `form` unless they are there; says whether it had to."""
    folder = crowd.folder / form
    if folder.exists():
        return False
    aside = folder.with_name(f"{form}.unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    if form == "parquet":
        _write_parquet(crowd, aside)
    else:
        _write_avro(crowd, aside, codec=form.partition("-")[2])
    aside.replace(folder)
    return True


def make_ids(affixes: tuple[tuple[str, str], ...], n: int) -> pa.Array:
    """The ids of n tasks or workers: numbers between affixes of several kinds.

    >>> make_ids((("t", ""), ("tâche-", "!")), 3).to_pylist()
    ['t0', 'tâche-1!', 't2']
    """
    kind = pa.array(np.arange(n) % len(affixes))
    before, after = (pa.array(column).take(kind) for column in zip(*affixes, strict=True))
    return pc.binary_join_element_wise(before, pc.cast(pa.array(np.arange(n)), pa.string()), after, "")


@dataclass(frozen=True)
class _Labels:
    """Coded labels in the order in which they came, and the truth."""

    task: NDArray[np.int64]
    worker: NDArray[np.int64]
    label: NDArray[np.int64]
    truth: NDArray[np.int64]


def _simulate(crowd: Crowd) -> _Labels:
    rng = np.random.default_rng(crowd.seed)
    truth = rng.integers(0, 2, crowd.n_tasks)
    accuracy = rng.uniform(0.55, 0.95, crowd.n_workers)
    worker = _draw_near(crowd, rng) if crowd.window else rng.integers(0, crowd.n_workers, crowd.n_labels)
    task = np.repeat(np.arange(crowd.n_tasks), LABELS_PER_TASK)
    right = rng.random(crowd.n_labels) < accuracy[worker]
    label = np.where(right, truth[task], 1 - truth[task])
    order = rng.permutation(crowd.n_labels)
    return _Labels(task[order], worker[order], label[order], truth)


def _draw_near(crowd: Crowd, rng: np.random.Generator) -> NDArray[np.int64]:
    """Five different workers for each task, within a window of the ring; ids tell nothing of the place on it."""
    parts = []
    for start in range(0, crowd.n_tasks, _ROUND_TASKS):
        n_tasks = min(_ROUND_TASKS, crowd.n_tasks - start)
        drawn = rng.random((n_tasks, crowd.window), np.float32).argpartition(LABELS_PER_TASK, axis=1)
        parts.append(drawn[:, :LABELS_PER_TASK] + rng.integers(0, crowd.n_workers, n_tasks)[:, None])
    place: NDArray[np.int64] = np.concatenate(parts).ravel() % crowd.n_workers
    return rng.permutation(crowd.n_workers)[place]


def _slices(n: int) -> Iterator[tuple[int, slice]]:
    bounds = np.linspace(0, n, N_FILES + 1).astype(int)
    for part in range(N_FILES):
        yield part, slice(bounds[part], bounds[part + 1])


def _write_parquet(crowd: Crowd, folder: Path) -> None:
    labels = _simulate(crowd)
    tasks, workers = make_ids(TASK_AFFIXES, crowd.n_tasks), make_ids(WORKER_AFFIXES, crowd.n_workers)
    for part, rows in _slices(crowd.n_labels):
        columns = {
            "task": tasks.take(pa.array(labels.task[rows])),
            "worker": workers.take(pa.array(labels.worker[rows])),
            "label": pa.array(labels.label[rows]),
        }
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    (folder / "truth").mkdir()
    answers = pa.array(["0", "1"]).take(pa.array(labels.truth))
    pq.write_table(pa.table({"task": tasks, "label": answers}), folder / "truth" / "truth.parquet")


def _write_avro(crowd: Crowd, folder: Path, codec: str) -> None:
    labels = _simulate(crowd)
    tasks = _as_avro(make_ids(TASK_AFFIXES, crowd.n_tasks))
    workers = _as_avro(make_ids(WORKER_AFFIXES, crowd.n_workers))
    classes = _as_avro(pa.array(["0", "1"]))
    for part, rows in _slices(crowd.n_labels):
        records = pc.binary_join_element_wise(
            tasks.take(pa.array(labels.task[rows])),
            workers.take(pa.array(labels.worker[rows])),
            classes.take(pa.array(labels.label[rows])),
            b"",
        )
        path = folder / f"part-{part}.avro"
        with path.open("wb") as file:
            file.write(_avro_header(codec))
            file.writelines(_avro_blocks(records, codec))
        with path.open("rb") as file:
            first: Any = next(iter(fastavro.reader(file)))
        assert set(first) == {"task", "worker", "label"}, first


def _as_avro(ids: pa.Array) -> pa.Array:
    """The ids as Avro strings: the length (below 64 one byte, twice the length), then the text."""
    text = ids.cast(pa.binary())
    length = pc.binary_length(text).to_numpy()
    assert length.max() < 64, "longer ids need longer lengths"
    lengths = pa.array([bytes([2 * n]) for n in range(64)], pa.binary()).take(pa.array(length))
    return pc.binary_join_element_wise(lengths, text, b"")


def _avro_header(codec: str) -> bytes:
    entries = (("avro.schema", _AVRO_SCHEMA), ("avro.codec", codec))
    coded = [_avro_long(len(text)) + text.encode() for entry in entries for text in entry]
    return b"Obj\x01" + _avro_long(len(entries)) + b"".join(coded) + _avro_long(0) + _SYNC


def _avro_blocks(records: pa.Array, codec: str) -> Iterator[bytes]:
    _, offsets, content = records.buffers()
    starts: NDArray[Any] = np.frombuffer(offsets, np.int32)[: len(records) + 1]
    for first in range(0, len(records), _BLOCK_RECORDS):
        last = min(first + _BLOCK_RECORDS, len(records))
        block = content.slice(int(starts[first]), int(starts[last] - starts[first])).to_pybytes()
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-15)
            block = packer.compress(block) + packer.flush()
        yield _avro_long(last - first) + _avro_long(len(block)) + block + _SYNC


def _avro_long(value: int) -> bytes:
    """A number of zero or more as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    value, coded = 2 * value, b""
    while value > 127:
        coded, value = coded + bytes([value & 127 | 128]), value >> 7
    return coded + bytes([value])
