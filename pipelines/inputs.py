"""Inputs: files found, told apart and checked before anything runs."""

import difflib
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pipelines.errors import InputError
from pipelines.settings import BatchSettings
from pipelines.sources import READ_ERRORS, FilePart, parquet, storage
from pipelines.sources.formats import FORMATS
from pipelines.sources.storage import compression_of, is_local, missing_extra
from pipelines.sources.warehouse_inputs import fetch, is_address, near_form, parse_address

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
_OPTIONAL_COLUMNS: dict[str, tuple[str, ...]] = {"time": ("time", "submitted_at_us"), "op": ("op",)}
_HASH_BYTES = 1 << 20
_SHOWN_NAMES, _SHOWN_CHARACTERS = 20, 60


class ColumnSettings(Protocol):
    """What must be known to find the columns of a file."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """What fields are called, where it is not their own name."""

    @property
    def input_format(self) -> str:
        """The format of all files; "auto" when their names tell it."""

    def column(self, name: str) -> str:
        """What the field `name` is called."""


@dataclass(frozen=True)
class InputFile:
    """A file that will be read, as "labels", "gold" or "events"; one without columns is empty.

    Attributes:
        path: the file.
        role: what it is read as.
        format: parquet, avro, csv or jsonl.
        size_bytes: its size.
        columns: (field, column) pairs.
        address: of the warehouse that its rows were fetched from; empty when it is nobody's copy.
        warehouse: what kind of warehouse that is.
        checksum: of the rows that were fetched; empty when the file's own is to be taken.
        modified_ns: when a file of this machine was last written to, before anything of it was read; 0: not known.
    """

    path: str
    role: str
    format: str
    size_bytes: int
    columns: tuple[tuple[str, str], ...]
    address: str = ""
    warehouse: str = ""
    checksum: str = ""
    modified_ns: int = 0


@dataclass(frozen=True)
class InputPlan:
    """What will be read: files in the order that decides between repeats, their parts, about how many labels."""

    files: tuple[InputFile, ...]
    parts: tuple[FilePart, ...]
    n_labels: int


def plan_inputs(settings: BatchSettings, folder: str = "", may_be_empty: bool = False) -> InputPlan:
    """Finds and checks every input; raises `InputError` when one cannot be used. An empty file gives nothing.

    What is in a warehouse is fetched into `folder`, and must stay there until it has been read. That no input holds a
    label is an error unless it may be.
    """
    found = [(path, size, "labels") for path, size in find_inputs(settings.inputs, "INPUT", folder)]
    found += [(path, size, "gold") for path, size in find_inputs(settings.gold, "--gold", folder)]
    with ThreadPoolExecutor(8) as pool:
        files = tuple(file for file in pool.map(lambda one: _input_of(settings, folder, *one), found) if file)
        listed = list(pool.map(parts_of, range(len(files)), files))
    if not may_be_empty and not any(file.columns for file in files if file.role == "labels"):
        given = ", ".join(map(repr, settings.inputs))
        raise InputError(f"There is nothing to read: {given} holds no data. Give files with labels.")
    parts = tuple(part for parts, _ in listed for part in parts)
    n_labels = sum(n for (_, n), file in zip(listed, files, strict=True) if file.role == "labels")
    return InputPlan(files, parts, n_labels)


def checksum_of(path: str) -> str:
    """The sha256 of a local file; what the file system knows of another."""
    if not is_local(path):
        return storage.checksum(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_HASH_BYTES):
            digest.update(data)
    return f"sha256:{digest.hexdigest()}"


def modified_ns_of(path: str) -> int:
    """When a file of this machine was last written to; 0: not known."""
    return os.stat(path).st_mtime_ns if is_local(path) and os.path.exists(path) else 0


def find_inputs(patterns: Sequence[str], what: str, folder: str) -> list[tuple[str, int]]:
    """Files and addresses of warehouses, each once, in the order given; without a `folder` to fetch to, only files."""
    for address in filter(is_address, patterns):
        parse_address(address)
        if not folder:
            raise InputError(f"{what} {address!r} is in a warehouse, and only files are read here. Write it to a file.")
    return _found(patterns, what)


def find_files(patterns: Sequence[str], what: str) -> list[tuple[str, int]]:
    """The files that `patterns` stand for, each once, in the order given; those of one pattern by name."""
    return find_inputs(patterns, what, "")


def _found(patterns: Sequence[str], what: str) -> list[tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for pattern in patterns:
        if not pattern.strip():
            raise InputError(f"{what} {pattern!r} is empty. Give a file, a folder or a glob.")
        if is_address(pattern):
            found.setdefault(pattern, (pattern, 0))
            continue
        if near := near_form(pattern):
            raise InputError(f"{what} {pattern!r} begins like no file and no warehouse. Did you mean {near}?")
        if advice := missing_extra(pattern):
            raise InputError(f"{what} {pattern!r} cannot be reached: its file system is not installed. Try: {advice}")
        files = sorted(match_files(pattern))
        if not files:
            known = ", ".join(SUFFIXES)
            raise InputError(f"{what} {pattern!r} names no file. Check the path; in a folder, files end in {known}.")
        for path, size in files:
            found.setdefault(os.path.realpath(path) if is_local(path) else path, (path, size))
    return list(found.values())


def match_files(pattern: str) -> list[tuple[str, int]]:
    """The files that one pattern stands for; in a local folder a name may hold the signs of a pattern."""
    try:
        if is_local(pattern) and Path(pattern).is_file():
            return [(pattern, Path(pattern).stat().st_size)]
        if is_local(pattern) and Path(pattern).is_dir():
            inside = [os.path.join(pattern, name) for name in os.listdir(pattern)]
            return [(path, os.path.getsize(path)) for path in inside if os.path.isfile(path) and is_data(path)]
        folder = pattern.endswith("/")
        files = storage.match(f"{pattern}*" if folder else pattern)
    except (ValueError, OSError) as error:
        raise InputError(f"{pattern!r} cannot be looked up: {' '.join(str(error).split())}") from error
    files = [(path, size) for path, size in files if not is_local(path) or Path(path).is_file()]
    return [(path, size) for path, size in files if not folder or is_data(path)]


def is_data(path: str) -> bool:
    """Whether a file found in a folder holds data: programs begin the names of their own files with _ or a dot."""
    return ending_of(path) in SUFFIXES and not Path(path).name.startswith(("_", "."))


def ending_of(path: str) -> str:
    """The ending that tells the format: the one before .gz or .zst, if there is one.

    >>> ending_of("labels.csv.gz"), ending_of("labels.parquet")
    ('.csv', '.parquet')
    """
    name = Path(path.lower())
    return (name.with_suffix("") if compression_of(path) else name).suffix


def _input_of(settings: BatchSettings, folder: str, path: str, size: int, role: str) -> InputFile | None:
    """A file, checked, or the rows of a warehouse, fetched into one."""
    if not is_address(path):
        modified_ns = modified_ns_of(path)
        file = checked_file(settings, path, size, role)
        return replace(file, modified_ns=modified_ns) if file else None
    got = fetch(path, folder, lambda names: _columns(path, role, names, settings))
    columns = got.columns if got.rows else ()
    return InputFile(got.path, role, "parquet", got.size_bytes, columns, got.address, got.kind, got.checksum)


def checked_file(settings: ColumnSettings, path: str, size: int, role: str) -> InputFile | None:
    """The file with its columns, None when it is empty and of no known kind; raises `InputError` if it is unusable."""
    kind = SUFFIXES.get(ending_of(path))
    if settings.input_format != "auto" and not (role == "gold" and kind):
        kind = settings.input_format
    if kind is None and not size:
        return None
    if kind is None:
        known = ", ".join(SUFFIXES)
        raise InputError(f"{path} has none of the known endings ({known}). Say what it is with --input-format.")
    names = _names(path, kind) if size else []
    columns = _columns(path, role, names, settings) if names else []
    if columns and kind == "jsonl" and role != "gold" and "op" not in dict(columns):
        columns.append(("op", "op"))  # only the beginning was looked at: the first withdrawal may come later
    return InputFile(path, role, kind, size, tuple(columns))


def _names(path: str, kind: str) -> list[str]:
    try:
        names: list[str] = FORMATS[kind].columns_of(path)
    except READ_ERRORS as error:
        reason = " ".join(str(error).split()).rstrip(".")
        advice = "It may be damaged, or of another format."
        if compression_of(path) and kind in ("parquet", "avro"):
            advice = f"A file of this format is compressed inside; decompress the {compression_of(path)} around it."
        raise InputError(f"{path} cannot be read as {kind}: {reason}. {advice}") from error
    return names


def _columns(path: str, role: str, names: list[str], settings: ColumnSettings) -> list[tuple[str, str]]:
    found = []
    for name in ("task", "label") if role == "gold" else ("task", "worker", "label"):
        column = _column(path, settings.column(name), names)
        if column is None and role == "gold":
            column = _column(path, name, names)
        if column is None:
            raise InputError(_missing(path, name, settings.column(name), names))
        found.append((name, column))
    for name, usual in _OPTIONAL_COLUMNS.items() if role != "gold" else ():
        given = dict(settings.columns).get(name)
        columns = [_column(path, column, names) for column in ([given] if given else usual)]
        if given and columns == [None]:
            raise InputError(_missing(path, name, given, names))
        found += [(name, column) for column in columns if column is not None][:1]
    return found


def _column(path: str, column: str, names: list[str]) -> str | None:
    """The name in the file that `column` stands for: the same, or the same but for blanks around it."""
    same = [name for name in names if name == column] or [name for name in names if name.strip() == column]
    if len(same) > 1:
        raise InputError(f"{path} has {len(same)} columns called {column!r}. Rename all but one of them.")
    return same[0] if same else None


def _missing(path: str, name: str, column: str, names: list[str]) -> str:
    sentence = f"{path} has no column {column!r}; it has {_named(names)}."
    separator = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), None)
    if separator:
        return f"{sentence} Its values seem to be separated by {separator!r}: write commas (.csv) or tabs (.tsv)."
    near = difflib.get_close_matches(column, names, 1, 0.7)
    return f"{sentence} Name it with --columns {name}={near[0] if near else 'COLUMN'}."


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:_SHOWN_NAMES])
    return f"{shown} and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else shown


def parts_of(source: int, file: InputFile) -> tuple[list[FilePart], int]:
    """What of a file is read together, and about how many labels it holds."""
    if not file.columns:
        return [], 0
    if file.format == "parquet":
        parts = parquet.parts_of(file.path)
        found = [
            FilePart(file.path, source, file.role, file.format, file.columns, first, groups, file.address)
            for first, groups, _ in parts
        ]
        return found, sum(rows for *_, rows in parts)
    ratio = _COMPRESSION_RATIO if compression_of(file.path) else 1
    n_labels = file.size_bytes * ratio // _BYTES_PER_LABEL[file.format]
    return [FilePart(file.path, source, file.role, file.format, file.columns)], n_labels
