"""The truth a run is compared with: the answers of tasks, the skills of workers, from a file of any format."""

import difflib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import InputError
from pipelines.inputs import SUFFIXES, ending_of, find_files
from pipelines.sources import READ_ERRORS, FilePart
from pipelines.sources.formats import FORMATS
from pipelines.texts import OK, texts_of


def read_truth(path: str, columns: Mapping[str, str]) -> pa.Table:
    """The table (task, label) in `path`, a task once; rows without a task or a label are left out."""
    found = _read_texts(path, {name: columns.get(name, name) for name in ("task", "label")}, "--truth")
    distinct = found.group_by(["task", "label"]).aggregate([])
    tasks = distinct.group_by("task").aggregate([("label", "count")])
    if distinct.num_rows != tasks.num_rows:
        task = tasks.filter(pc.greater(tasks.column("label_count"), 1)).column("task")[0].as_py()
        raise InputError(f"--truth {path} gives the task {task[:60]!r} several answers; give each task one.")
    return distinct.select(["task", "label"])


def read_true_skills(path: str) -> pa.Table:
    """The table (worker, skill) in `path`."""
    found = _read_texts(path, {"worker": "worker", "skill": "skill"}, "--skills")
    try:
        return found.set_column(1, "skill", found.column("skill").cast(pa.float64()))
    except pa.ArrowInvalid as error:
        raise InputError(f"--skills {path} holds a skill that is no number: {error}.") from error


def _read_texts(path: str, columns: Mapping[str, str], option: str) -> pa.Table:
    """The columns as texts; rows in which one is missing are left out."""
    parts = [_read_file(file, columns, option) for file, size in find_files([path], option) if size]
    if not sum(part.num_rows for part in parts):
        raise InputError(f"{option} {path} holds no data.")
    return pa.concat_tables(parts)


def _read_file(path: str, columns: Mapping[str, str], option: str) -> pa.Table:
    kind = SUFFIXES.get(ending_of(path))
    if kind is None:
        raise InputError(f"{option} {path} has none of the known endings ({', '.join(SUFFIXES)}).")
    found: dict[str, list[pa.Array]] = {name: [pa.array([], pa.large_string())] for name in columns}
    try:
        _check_columns(path, columns, FORMATS[kind].columns_of(path), option)
        for lazy in FORMATS[kind].chunks_of(FilePart(path, 0, "truth", kind, tuple(columns.items()))):
            chunk = lazy()
            if chunk.bad:
                raise InputError(f"{option} {path} has a record that cannot be read: {chunk.bad[0].detail}")
            texts = {name: texts_of(chunk.columns[name]) for name in columns}
            good = pa.array(np.all([flags == OK for _, flags in texts.values()], axis=0))
            for name, (column, _) in texts.items():
                found[name].append(column.filter(good))
    except READ_ERRORS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{option} {path} cannot be read as {kind}: {reason}.") from error
    return pa.table({name: pa.concat_arrays(arrays) for name, arrays in found.items()})


def _check_columns(path: str, columns: Mapping[str, str], names: list[str], option: str) -> None:
    for name, column in columns.items():
        if column in names:
            continue
        near = difflib.get_close_matches(column, names, 1, 0.5)
        hint = f" Name it with --columns {name}={near[0] if near else 'COLUMN'}." if option == "--truth" else ""
        raise InputError(f"{option} {path} has no column {column!r}; it has {', '.join(map(repr, names))}.{hint}")
