"""Opening files: local ones by Arrow, all others by Beam's file systems; gzip and zstd by the file's name."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def is_local(path: str) -> bool:
    """Whether `path` is on this machine's own file system."""
    return FileSystems.get_scheme(path) is None


def compression_of(path: str) -> str | None:
    """The compression that the file's name tells of.

    >>> compression_of("labels.csv.gz"), compression_of("labels.csv")
    ('gzip', None)
    """
    return COMPRESSIONS.get(Path(path).suffix.lower())


def open_file(path: str) -> Any:
    """The file as an Arrow file that can seek; the bytes as they are stored."""
    if is_local(path):
        return pa.memory_map(path, "r") if Path(path).stat().st_size else pa.BufferReader(b"")
    return pa.PythonFile(FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED), "r")


def open_stream(path: str) -> Any:
    """The file as a stream of its decompressed bytes."""
    compression = compression_of(path)
    return pa.CompressedInputStream(open_file(path), compression) if compression else open_file(path)
