"""Care with inputs: files that change while they are read, and what of a folder is not read."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import RunError
from pipelines.inputs import InputFile, is_data
from pipelines.sources.storage import is_local
from pipelines.sources.warehouse_inputs import is_address

_SHOWN = 3


@contextmanager
def unchanged(files: Sequence[InputFile]) -> Iterator[None]:
    """While files are read: raises `RunError` in the end for a local one that was written to since it was found.

    Its checksum would be of one content, its labels of another; nor can a reader make sense of it.
    """
    try:
        yield
    finally:
        _refuse_changed(files)


def _refuse_changed(files: Sequence[InputFile]) -> None:
    for file in files:
        if not file.modified_ns:
            continue
        try:
            now = os.stat(file.path)
        except FileNotFoundError:
            continue  # what was opened before stays whole
        if (now.st_size, now.st_mtime_ns) != (file.size_bytes, file.modified_ns):
            raise RunError(
                f"{file.path} changed while it was read. Write a file under another name, rename it, and run again."
            )


def left_out(patterns: Sequence[str]) -> Iterator[str]:
    """Of each local folder that is read what in it is not: sentences. Names with _ or a dot in front are no data."""
    for pattern in dict.fromkeys(patterns):
        if is_address(pattern) or not is_local(pattern) or not Path(pattern).is_dir():
            continue
        inside = [path for path in sorted(Path(pattern).iterdir()) if not path.name.startswith(("_", "."))]
        folders = [path.name for path in inside if path.is_dir()]
        files = [path.name for path in inside if not path.is_dir() and not is_data(str(path))]
        if files or folders:
            names = [*files, *folders]
            shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else ".")
            verb = "is" if len(names) == 1 else "are"
            yield f"{_counted(files, folders)} in {pattern} {verb} left out: {shown}"


def _counted(files: Sequence[str], folders: Sequence[str]) -> str:
    told = ((len(files), "file"), (len(folders), "folder"))
    return " and ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in told if n)
