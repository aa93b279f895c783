"""The control folder of a stream: requests go in, the stream's status comes out.

Files, on any file system of Beam's that the workers share: so requests reach a stream on any runner.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError, InvalidSettingError
from pipelines.run_folder import is_alive
from pipelines.sources.storage import is_local
from pipelines.streaming.envelopes import Marker
from pipelines.table_files import write_file

STATUS, DONE, DESCRIPTION, OWNER, LOCK = "status.json", "done", "stream.json", "owner.json", "lock"
_REQUESTS = "requests"


@dataclass(frozen=True)
class Control:
    """A control folder."""

    folder: str

    def path(self, *names: str) -> str:
        """A path in the folder."""
        return str(FileSystems.join(self.folder, *names))

    def describe(self, settings: Mapping[str, Any]) -> None:
        """Notes what later commands must know of the stream."""
        write_json(self.path(DESCRIPTION), settings)

    def described(self) -> dict[str, Any]:
        """What was noted of the stream; raises `InputError` when this is no control folder."""
        found = read_json(self.path(DESCRIPTION))
        if found is None:
            raise InputError(f"--control {self.folder} is no control folder of a stream: it has no {DESCRIPTION}.")
        return found

    def request(self, marker: Marker) -> None:
        """Asks the stream for something."""
        write_json(self.path(_REQUESTS, f"{marker.id}.json"), vars(marker))

    def withdraw(self, marker: Marker) -> None:
        """Takes a request back."""
        FileSystems.delete([self.path(_REQUESTS, f"{marker.id}.json")])

    def requests(self) -> list[Marker]:
        """The requests that are there, in the order of their ids."""
        found = FileSystems.match([self.path(_REQUESTS, "*.json")])[0].metadata_list
        markers = [read_json(file.path) for file in sorted(found, key=lambda file: file.path)]
        return [Marker(**marker) for marker in markers if marker is not None]

    def owner(self) -> int:
        """The process of this machine whose stream has the folder, or 0."""
        known = read_json(self.path(OWNER)) if is_local(self.folder) else None
        if known is None or known["host"] != socket.gethostname() or known["pid"] == os.getpid():
            return 0
        return int(known["pid"]) if is_alive(known["pid"]) else 0

    def refuse_if_gone(self) -> None:
        """Raises `InputError` when nobody is left who could fulfil a request, as far as this machine can tell."""
        if not is_local(self.folder) or self.owner():
            return
        known = read_json(self.path(OWNER))
        if known is None or (
            known["host"] == socket.gethostname() and known["pid"] != os.getpid() and not known["outlived"]
        ):
            raise InputError(
                f"No stream is at work in --control {self.folder}: the last one has ended. Start it again."
            )

    def clear(self) -> None:
        """Removes the requests and the status that an earlier stream has left."""
        for pattern in (self.path(_REQUESTS, "*.json"), self.path(DONE, "*.json"), self.path(STATUS)):
            found = FileSystems.match([pattern])[0].metadata_list
            if found:
                FileSystems.delete([file.path for file in found])

    def tell(self, status: Mapping[str, Any]) -> None:
        """Says how the stream is."""
        write_json(self.path(STATUS), {**status, "at_s": time.time()})

    def status(self) -> dict[str, Any] | None:
        """How the stream is, or None when nobody said."""
        return read_json(self.path(STATUS))

    def finish(self, marker: Marker, sender: int) -> None:
        """Tells that `sender` has done what was asked for."""
        write_json(self.path(DONE, f"{marker.id}-{sender:05d}.json"), {})

    def n_finished(self, marker: Marker) -> int:
        """How many have done what was asked for."""
        return len(FileSystems.match([self.path(DONE, f"{marker.id}-*.json")])[0].metadata_list)


@contextmanager
def held(control: Control) -> Iterator[None]:
    """Makes a control folder and keeps other streams out; raises `InvalidSettingError` when one is at work in it.

    A folder that was made is removed in the end unless a stream was described in it: what was refused leaves nothing.
    A folder that is elsewhere is not locked.
    """
    folder = control.folder
    if not is_local(folder):
        yield
        return
    is_new = not os.path.exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, LOCK), "a+", encoding="utf-8")  # noqa: SIM115 - held while the stream lasts
    except OSError as error:
        raise InvalidSettingError(f"--control {folder} cannot be made: {error.strerror}.") from error
    with lock:
        _take(lock, control)
        try:
            yield
        finally:
            if is_new and not os.path.exists(control.path(DESCRIPTION)):
                shutil.rmtree(folder, ignore_errors=True)


def _take(lock: IO[str], control: Control) -> None:
    """Locks a control folder; the system ends the lock with the process, however that ends."""
    other = control.owner()  # where the file system has no locks, that has to do
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = os.path.exists(lock.name) and os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name))
    except BlockingIOError:
        lock.seek(0)
        is_free, other = False, int(lock.read().strip() or 0)
    except OSError:
        is_free = True
    if not is_free or other:
        who, folder = other or "unknown", control.folder
        raise InvalidSettingError(
            f"A stream (process {who}) is at work in --control {folder}; stop it, or give another folder."
        )
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


@contextmanager
def owned(control: Control, outlived: bool) -> Iterator[None]:
    """Marks a control folder as this process's while the body runs; when it is killed, is it `outlived` by its job?"""
    write_json(control.path(OWNER), {"pid": os.getpid(), "host": socket.gethostname(), "outlived": outlived})
    try:
        yield
    finally:
        with suppress(BeamIOError, OSError):
            FileSystems.delete([control.path(OWNER)])


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Writes a small file, all at once."""
    data = json.dumps(value, ensure_ascii=False).encode()
    write_file(path, lambda sink: sink.write(data))


def read_json(path: str) -> dict[str, Any] | None:
    """The content of a small file; None when it is not there."""
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            found: dict[str, Any] = json.loads(file.read())
    except (BeamIOError, OSError):
        return None
    return found
