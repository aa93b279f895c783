"""Checking: speed is not bought with wrong results."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LEAST_SAME = 0.99


@dataclass(frozen=True)
class Agreement:
    """How far two programs' results are the same.

    Attributes:
        same_answers: share of the tasks with the same answer; a task that only one has counts against it.
        same_edges: whether the numbers of pairs, of common tasks and of agreements are equal.
        skill_difference: the largest between two skills of one worker.
    """

    same_answers: float
    same_edges: bool
    skill_difference: float

    @property
    def holds(self) -> bool:
        return self.same_answers >= LEAST_SAME and self.same_edges


def compare(ours: Path, plain: Path) -> Agreement:
    """Compares the tables in two folders of results."""
    skills = [_read(folder, "skills", ["worker", "skill"]) for folder in (ours, plain)]
    mine, theirs = _aligned(skills[0], skills[1], "worker", "skill")
    difference = pc.max(pc.abs(pc.subtract(mine, theirs))).as_py()
    same_workers = skills[0].num_rows == skills[1].num_rows == len(mine)
    return Agreement(
        same_share(_answers(ours), _answers(plain)),
        _edge_sums(ours) == _edge_sums(plain),
        difference if same_workers else np.inf,
    )


def error_rate(results: Path, truth: Path) -> float:
    """The share of the tasks whose answer is not the true one."""
    return 1 - same_share(_answers(results), pq.read_table(truth))


def same_share(one: pa.Table, other: pa.Table) -> float:
    """The share of the tasks, of all that either has, with the same answer in both.

    >>> one = pa.table({"task": ["t1", "t2"], "label": ["0", "1"]})
    >>> same_share(one, pa.table({"task": ["t2", "t1", "t3", "t4"], "label": ["1", "1", "0", "0"]}))
    0.25
    """
    mine, theirs = _aligned(one, other, "task", "label")
    n_tasks: int = one.num_rows + other.num_rows - len(mine)
    n_same: int = pc.sum(pc.equal(mine, theirs)).as_py() or 0
    return n_same / n_tasks


def _aligned(one: pa.Table, other: pa.Table, key: str, value: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The values of the keys that both tables have."""
    joined = one.join(other, key, join_type="inner", right_suffix=" there")
    return joined[value], joined[f"{value} there"]


def _answers(folder: Path) -> pa.Table:
    return _read(folder, "scores", ["task", "label"])


def _edge_sums(folder: Path) -> tuple[int, int, int, int]:
    edges = _read(folder, "edges", ["n_common", "n_agree"])
    common, agree = (edges[name].to_numpy().astype(np.int64) for name in ("n_common", "n_agree"))
    return len(common), int(common.sum()), int(agree.sum()), int(common @ common)


def _read(folder: Path, table: str, columns: list[str]) -> pa.Table:
    path = folder / table if (folder / table).is_dir() else folder / f"{table}.parquet"
    found = pq.read_table(path, columns=columns)
    plain = [pa.string() if pa.types.is_large_string(kind) else kind for kind in found.schema.types]
    return found.cast(pa.schema(zip(found.column_names, plain, strict=True)))
