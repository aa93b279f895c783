"""Files: local ones by Python and Arrow, others by Beam's file systems; gzip and zstd are known by their first bytes.

Beam takes longer to import than a small run takes: it is asked only when a file is somewhere else.
"""

import importlib.util
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from pipelines.addresses import meant
from pipelines.errors import InvalidSettingError

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_EXTRAS = {
    "gs": ("gcp", "google.cloud.storage"),
    "s3": ("aws", "boto3"),
    "azfs": ("azure", "azure.storage.blob"),
    "hdfs": ("hadoop", "hdfs"),
}
PACKED = _GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PIECE_BYTES = 1 << 14
_MAX_WINDOW = 1 << 31
_DAMAGE = (zlib.error, zstandard.ZstdError, EOFError)
_SCHEME = re.compile(r"([a-zA-Z][-a-zA-Z0-9+.]*)://")


def is_local(path: str) -> bool:
    """Whether `path` is on this machine's own file system."""
    return _SCHEME.match(path) is None


def join(folder: str, *names: str) -> str:
    """The path of something in a folder."""
    return os.path.join(folder, *names) if is_local(folder) else str(_beam(folder).join(folder, *names))


def exists(path: str) -> bool:
    """Whether there is such a file or folder."""
    return os.path.exists(path) if is_local(path) else bool(_beam(path).exists(path))


def size_of(path: str) -> int:
    """The size of a file in bytes."""
    return os.path.getsize(path) if is_local(path) else match(path)[0][1]


def match(pattern: str) -> list[tuple[str, int]]:
    """The files that a pattern stands for, with their sizes."""
    return [(one.path, int(one.size_in_bytes)) for one in _beam(pattern).match([pattern])[0].metadata_list]


def checksum(path: str) -> str:
    """What the file system knows of the content of a file that is not local."""
    return str(_beam(path).checksum(path))


def create(path: str) -> Any:
    """A new file to write to, on another file system."""
    from apache_beam.io.filesystem import CompressionTypes

    return _beam(path).create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def rename(sources: Sequence[str], places: Sequence[str]) -> None:
    """Moves files of another file system."""
    _beam(*places).rename(list(sources), list(places))


def delete(paths: Sequence[str]) -> None:
    """Removes files of another file system."""
    _beam(*paths).delete(list(paths))


def read_bytes(path: str) -> bytes:
    """The whole file, as it is stored."""
    with open_file(path) as file:
        return bytes(file.read())


def _beam(*paths: str) -> Any:
    """Beam's file systems; raises `InvalidSettingError` when that of the first of `paths` cannot be had."""
    from apache_beam.io.filesystems import FileSystems

    for path in paths[:1]:
        if advice := missing_extra(path):
            raise InvalidSettingError(f"{path} cannot be reached: its file system is not installed. Try: {advice}")
        try:
            FileSystems.get_filesystem(path)
        except ValueError as error:
            hint = meant(
                path.partition("://")[0], {}, "Give a path of this machine, or gs://, s3://, hdfs:// or azfs://."
            )
            raise InvalidSettingError(f"{path} is in no file system that is known. {hint}") from error
    return FileSystems


def missing_extra(path: str) -> str | None:
    """What to install before files like `path` can be reached; None when nothing is missing, as far as is known.

    >>> missing_extra("labels.csv") is None
    True
    """
    scheme = _SCHEME.match(path)
    extra, module = _EXTRAS.get(scheme[1] if scheme else "", ("", ""))
    if not extra:
        return None
    try:
        missing = importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        missing = True
    return f"pip install 'apache-beam[{extra}]'" if missing else None


def compression_of(path: str) -> str | None:
    """The compression that the file's name tells of.

    >>> compression_of("labels.csv.gz"), compression_of("labels.csv")
    ('gzip', None)
    """
    return COMPRESSIONS.get(Path(path).suffix.lower())


def open_file(path: str) -> Any:
    """The file as an Arrow file that can seek; the bytes as they are stored.

    It is not mapped: who touches a map beyond the end of a file that was cut meanwhile is killed.
    """
    if is_local(path):
        return pa.OSFile(path, "r") if Path(path).stat().st_size else pa.BufferReader(b"")
    from apache_beam.io.filesystem import CompressionTypes

    return pa.PythonFile(_beam(path).open(path, compression_type=CompressionTypes.UNCOMPRESSED), "r")


def open_stream(path: str) -> Any:
    """The file as a stream of its decompressed bytes."""
    file = open_file(path)
    head = file.read(len(_ZSTD))
    file.seek(0)
    if head.startswith(_GZIP):
        return _Decompressed(file, lambda: zlib.decompressobj(wbits=31), "gzip")
    if head.startswith(_ZSTD):
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return _Decompressed(file, decompressor.decompressobj, "zstd")
    return file


def open_span(path: str, span: tuple[int, int] | None, head: bytes = b"") -> Any:
    """The stream of the file; of a span of its bytes `head`, if it is not the file's own, and what the span holds."""
    if span is None:
        return open_stream(path)
    return _Span(open_file(path), *span, head if span[0] else b"")


class _Span:
    """Some bytes of a file, behind others."""

    def __init__(self, file: Any, first: int, end: int, head: bytes) -> None:
        self._file, self._left, self._head = file, end - first, head
        file.seek(first)

    def __enter__(self) -> "_Span":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """The next `size` bytes at most; none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        data = bytes(self._file.read(min(size, self._left)))
        self._left -= len(data)
        return data


class _Decompressed:
    """The decompressed bytes of a file. Damage is told when all that precedes it has been read, not before."""

    def __init__(self, file: Any, member: Callable[[], Any], kind: str) -> None:
        self._file, self._member, self._kind = file, member, kind
        self._pieces = self._decompress()
        self._rest = b""
        self._error: ValueError | None = None

    def __enter__(self) -> "_Decompressed":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end."""
        found = [self._rest]
        missing = size - len(self._rest)
        while missing > 0 and self._error is None:
            try:
                piece = next(self._pieces, b"")
            except _DAMAGE as error:
                self._error = ValueError(f"its {self._kind} data are damaged ({error})")
                break
            if not piece:
                break
            found.append(piece)
            missing -= len(piece)
        data = b"".join(found)
        self._rest = data[size:]
        if self._error is not None and not data:
            raise self._error
        return data[:size]

    def _decompress(self) -> Iterator[bytes]:
        """The pieces of all members; zeros after the last are padding."""
        data = self._file.read(_PIECE_BYTES)
        while data:
            member = self._member()
            begin = at = self._file.tell() - len(data)
            while not member.eof:
                try:
                    piece = member.decompress(data)
                except _DAMAGE:
                    yield from self._salvage(begin, at)
                    raise
                if piece:
                    yield piece
                at, data = self._file.tell(), b"" if member.eof else self._file.read(_PIECE_BYTES)
                if not data and not member.eof:
                    raise EOFError("they end too early")
            data = member.unused_data.lstrip(b"\0") or self._file.read(_PIECE_BYTES).lstrip(b"\0")

    def _salvage(self, begin: int, at: int) -> Iterator[bytes]:
        """What can be had, byte by byte, from the damaged piece at `at`, in the member that begins at `begin`."""
        member = self._member()
        self._file.seek(begin)
        while size := min(at - self._file.tell(), _PIECE_BYTES):
            member.decompress(self._file.read(size))
        try:
            while byte := self._file.read(1):
                if piece := member.decompress(byte):
                    yield piece
        except _DAMAGE:
            return
