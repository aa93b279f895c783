"""Prior skills: what an earlier run, or any table with the columns worker and skill, knows of the workers."""

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError
from pipelines.inputs import SUFFIXES, ending_of, find_files
from pipelines.read import FORMATS, READ_ERRORS
from pipelines.sources import FilePart
from pipelines.texts import texts_of

_COLUMNS = (("worker", "worker"), ("skill", "skill"))


def read_prior_skills(path: str) -> dict[str, float]:
    """The skills in a finished run's folder or in a file; none for an empty path."""
    if not path:
        return {}
    if FileSystems.exists(FileSystems.join(path, "manifest.json")):
        path = FileSystems.join(path, "skills")
    skills: dict[str, float] = {}
    for file, _ in find_files([path], "--prior-skills"):
        skills |= _read(file)
    return skills


def _read(path: str) -> dict[str, float]:
    kind = SUFFIXES.get(ending_of(path))
    if kind is None:
        raise InputError(f"--prior-skills {path} has none of the known endings ({', '.join(SUFFIXES)}).")
    found: dict[str, float] = {}
    try:
        missing = {"worker", "skill"} - set(FORMATS[kind].columns_of(path))
        if missing:
            raise InputError(f"--prior-skills {path} has no column {missing.pop()!r}; it needs worker and skill.")
        for lazy in FORMATS[kind].chunks_of(FilePart(path, 0, "prior", kind, _COLUMNS)):
            columns = lazy().columns
            workers = texts_of(columns["worker"])[0].to_pylist()
            skills = texts_of(columns["skill"])[0].cast(pa.float64()).to_numpy()
            found |= dict(zip(workers, np.clip(skills, -1, 1).tolist(), strict=True))
    except READ_ERRORS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"--prior-skills {path} cannot be used: {reason}.") from error
    return found
