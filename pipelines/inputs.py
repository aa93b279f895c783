"""Inputs: files found, told apart and checked before anything runs."""

import difflib
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError
from pipelines.read import FORMATS, READ_ERRORS
from pipelines.settings import BatchSettings
from pipelines.sources import FilePart, parquet
from pipelines.sources.storage import compression_of, is_local

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".avro": "avro",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_BYTES_PER_LABEL = {"parquet": 8, "avro": 20, "csv": 24, "jsonl": 60}
_COMPRESSION_RATIO = 4
_TIME_COLUMNS = ("time", "submitted_at_us")
_HASH_BYTES = 1 << 20


@dataclass(frozen=True)
class InputFile:
    """A file that will be read."""

    path: str
    role: str
    format: str
    size_bytes: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class InputPlan:
    """What will be read: files in the order that decides between repeats, their parts, about how many labels."""

    files: tuple[InputFile, ...]
    parts: tuple[FilePart, ...]
    n_labels: int


def plan_inputs(settings: BatchSettings) -> InputPlan:
    """Finds and checks every input; raises `InputError` when one cannot be used."""
    found = [(path, size, "labels") for path, size in find_files(settings.inputs, "INPUT")]
    found += [(path, size, "gold") for path, size in find_files(settings.gold, "--gold")]
    if not any(size for _, size, role in found if role == "labels"):
        raise InputError(f"There is nothing to read: {_named(settings.inputs)} holds no data. Give files with labels.")
    with ThreadPoolExecutor(8) as pool:
        files = tuple(pool.map(lambda one: _checked(*one, settings), [one for one in found if one[1]]))
        listed = list(pool.map(_parts_of, range(len(files)), files))
    parts = tuple(part for parts, _ in listed for part in parts)
    n_labels = sum(n for (_, n), file in zip(listed, files, strict=True) if file.role == "labels")
    return InputPlan(files, parts, n_labels)


def checksum_of(path: str) -> str:
    """The sha256 of a local file; what the file system knows of another."""
    if not is_local(path):
        return str(FileSystems.checksum(path))
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_HASH_BYTES):
            digest.update(data)
    return f"sha256:{digest.hexdigest()}"


def find_files(patterns: Sequence[str], what: str) -> list[tuple[str, int]]:
    """The files that `patterns` stand for, each once, in the order given; those of one pattern by name."""
    found: dict[str, int] = {}
    for pattern in patterns:
        files = sorted(_match(pattern))
        if not files:
            raise InputError(f"{what} {pattern!r} names no file. Check the path; a folder must hold files with labels.")
        for path, size in files:
            found.setdefault(path, size)
    return list(found.items())


def _match(pattern: str) -> list[tuple[str, int]]:
    try:
        if is_local(pattern) and Path(pattern).is_file():
            return [(pattern, Path(pattern).stat().st_size)]
        inside = is_local(pattern) and Path(pattern).is_dir()
        pattern = FileSystems.join(pattern, "*") if inside or pattern.endswith("/") else pattern
        files = [(meta.path, meta.size_in_bytes) for meta in FileSystems.match([pattern])[0].metadata_list]
    except (BeamIOError, ValueError, OSError) as error:
        raise InputError(f"{pattern!r} cannot be looked up: {' '.join(str(error).split())}") from error
    files = [(path, size) for path, size in files if not is_local(path) or Path(path).is_file()]
    return [(path, size) for path, size in files if not inside or ending_of(path) in SUFFIXES]


def ending_of(path: str) -> str:
    """The ending that tells the format: the one before .gz or .zst, if there is one."""
    name = Path(path.lower())
    return (name.with_suffix("") if compression_of(path) else name).suffix


def _checked(path: str, size: int, role: str, settings: BatchSettings) -> InputFile:
    kind = SUFFIXES.get(ending_of(path)) if settings.input_format == "auto" else settings.input_format
    if kind is None:
        known = ", ".join(SUFFIXES)
        raise InputError(f"{path} has none of the known endings ({known}). Say what it is with --input-format.")
    try:
        names = FORMATS[kind].columns_of(path)
    except READ_ERRORS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{path} cannot be read as {kind}: {reason}. It may be damaged, or of another format."
        ) from error
    return InputFile(path, role, kind, size, tuple(_columns(path, role, names, settings)))


def _columns(path: str, role: str, names: list[str], settings: BatchSettings) -> list[tuple[str, str]]:
    found = []
    for name in ("task", "worker", "label") if role == "labels" else ("task", "label"):
        column = settings.column(name)
        if role == "gold" and column not in names:
            column = name
        if column not in names:
            raise InputError(_missing(path, name, column, names))
        found.append((name, column))
    if role == "labels":
        given = dict(settings.columns).get("time")
        if given and given not in names:
            raise InputError(_missing(path, "time", given, names))
        time = next((column for column in ([given] if given else _TIME_COLUMNS) if column in names), None)
        if time:
            found.append(("time", time))
    return found


def _missing(path: str, name: str, column: str, names: list[str]) -> str:
    near = difflib.get_close_matches(column, names, 1, 0.5)
    hint = near[0] if near else "COLUMN"
    return f"{path} has no column {column!r}; it has {_named(names)}. Name it with --columns {name}={hint}."


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) if names else "none"


def _parts_of(source: int, file: InputFile) -> tuple[list[FilePart], int]:
    if file.format == "parquet":
        parts = parquet.parts_of(file.path)
        found = [
            FilePart(file.path, source, file.role, file.format, file.columns, first, groups)
            for first, groups, _ in parts
        ]
        return found, sum(rows for *_, rows in parts)
    ratio = _COMPRESSION_RATIO if compression_of(file.path) else 1
    n_labels = file.size_bytes * ratio // _BYTES_PER_LABEL[file.format]
    return [FilePart(file.path, source, file.role, file.format, file.columns)], n_labels
