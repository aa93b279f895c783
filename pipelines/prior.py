"""Prior skills: what an earlier run, or any table with the columns worker and skill, knows of the workers."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.errors import InputError
from pipelines.input_care import unchanged
from pipelines.inputs import SUFFIXES, InputFile, checksum_of, ending_of, find_files, modified_ns_of
from pipelines.sources import READ_ERRORS, Chunk, FilePart, storage
from pipelines.sources.formats import FORMATS
from pipelines.texts import OK, texts_of

_COLUMNS = (("worker", "worker"), ("skill", "skill"))


def read_prior_skills(path: str) -> dict[str, float]:
    """The skills in a finished run's folder or in a file; none for an empty path. A worker's last skill counts."""
    return _read_files(prior_files(path), path)


def read_prior_inputs(path: str) -> tuple[dict[str, float], list[tuple[InputFile, str]]]:
    """The same skills, and the files that they were read from with the checksums of what was read.

    Raises `RunError` when a local file is written to meanwhile.
    """
    files = prior_files(path)
    with unchanged(files):
        return _read_files(files, path), [(file, checksum_of(file.path)) for file in files]


def _read_files(files: Sequence[InputFile], path: str) -> dict[str, float]:
    skills: dict[str, float] = {}
    for file in files:
        skills |= _read(file.path) if file.size_bytes else {}
    if path and not skills:
        raise InputError(f"--prior-skills {path} holds no skills. Give a finished run or a file with worker and skill.")
    return skills


def prior_files(path: str) -> list[InputFile]:
    """The files of a finished run's skills, or the file or files that `path` names; none for an empty path."""
    if not path:
        return []
    if is_run(path):
        path = storage.join(path, "skills")
    return [
        InputFile(
            file,
            "prior-skills",
            SUFFIXES.get(ending_of(file), ""),
            size,
            _COLUMNS,
            modified_ns=modified_ns_of(file),
        )
        for file, size in find_files([path], "--prior-skills")
    ]


def is_run(path: str) -> bool:
    """Whether `path` is the folder of a finished run."""
    return storage.exists(storage.join(path, "manifest.json"))


def _read(path: str) -> dict[str, float]:
    kind = SUFFIXES.get(ending_of(path))
    if kind is None:
        raise InputError(f"--prior-skills {path} has none of the known endings ({', '.join(SUFFIXES)}).")
    found: dict[str, float] = {}
    try:
        names = FORMATS[kind].columns_of(path)
        missing = [column for column, _ in _COLUMNS if names and names.count(column) != 1]
        if missing:
            raise InputError(
                f"--prior-skills {path} has {names.count(missing[0])} columns called {missing[0]!r}; it needs one."
            )
        for lazy in FORMATS[kind].chunks_of(FilePart(path, 0, "prior", kind, _COLUMNS)) if names else ():
            found |= _skills_of(lazy(), path)
    except READ_ERRORS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"--prior-skills {path} cannot be read as {kind}: {reason}.") from error
    return found


def _skills_of(chunk: Chunk, path: str) -> dict[str, float]:
    if chunk.bad:
        raise InputError(f"--prior-skills {path}, record {chunk.bad[0].position}: {chunk.bad[0].detail}")
    workers, wrong = texts_of(chunk.columns["worker"])
    if (wrong != OK).any():
        record = chunk.first + int(np.argmax(wrong != OK))
        raise InputError(f"--prior-skills {path}, record {record}: the worker is missing or malformed.")
    skills = texts_of(chunk.columns["skill"])[0]
    try:
        values = skills.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise InputError(f"--prior-skills {path} holds a skill that is missing or no number.") from error
    if not (np.abs(values) <= 1).all():
        strange = skills[int(np.argmax(~(np.abs(values) <= 1)))].as_py()
        raise InputError(f"--prior-skills {path} holds the skill {strange}; skills are numbers from -1 to 1.")
    return dict(zip(workers.to_pylist(), values.tolist(), strict=True))
