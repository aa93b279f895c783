"""The control folder of a stream: requests go in, the stream's status comes out.

Files, on any file system of Beam's that the workers share: so requests reach a stream on any runner.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError, first_line
from pipelines.locking import Lock, alone_in
from pipelines.patience import until_done
from pipelines.run_folder import is_alive
from pipelines.sources.storage import is_local
from pipelines.streaming.envelopes import Marker, requested
from pipelines.table_files import write_file

STATUS, DONE, DESCRIPTION, OWNER = "status.json", "done", "stream.json", "owner.json"
PATIENCE_S = 600.0
_REQUESTS, _WAITING = "requests", "waiting"
_HOLDS_S = 60.0  # what was not told again for so long is over: its process was killed
_REQUESTED: dict[str, list[Marker]] = {}  # by folder: what was asked for when it was looked at last
_WAITS: dict[str, list[str]] = {}  # by folder: what was waited for when it was looked at last
_FAILING: set[str] = set()  # what has failed when it was tried last
_log = logging.getLogger(__name__)


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
        try:
            found = read_json(self.path(DESCRIPTION))
        except (OSError, ValueError) as error:
            raise InputError(f"--control {self.folder} cannot be read: {first_line(error)}.") from error
        if found is None:
            raise InputError(f"--control {self.folder} is no control folder of a stream: it has no {DESCRIPTION}.")
        return found

    def request(self, marker: Marker) -> None:
        """Asks the stream for something; raises `OSError` when the folder is away."""
        self._look()
        write_json(self.path(_REQUESTS, f"{marker.id}.json"), vars(marker))

    def withdraw(self, marker: Marker) -> None:
        """Takes a request back."""
        FileSystems.delete([self.path(_REQUESTS, f"{marker.id}.json")])

    def requests(self) -> list[Marker]:
        """The requests that are there, in the order of their ids; while the folder is away, those that were there."""
        with spared(f"The control folder {self.folder} cannot be read"):
            self._look()
            found = FileSystems.match([self.path(_REQUESTS, "*.json")])[0].metadata_list
            markers = [_request_in(path) for path in sorted(file.path for file in found)]
            _REQUESTED[self.folder] = [marker for marker in markers if marker is not None]
        return _REQUESTED.get(self.folder, [])

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
        _REQUESTED.pop(self.folder, None)
        _WAITS.pop(self.folder, None)
        for pattern in (*(self.path(name, "*.json") for name in (_REQUESTS, DONE, _WAITING)), self.path(STATUS)):
            found = FileSystems.match([pattern])[0].metadata_list
            if found:
                FileSystems.delete([file.path for file in found])

    def tell(self, status: Mapping[str, Any]) -> None:
        """Says how the stream is, unless the folder is away."""
        with spared(f"The control folder {self.folder} takes no status"):
            self._look()
            write_json(self.path(STATUS), {**status, "at_s": time.time()})

    def status(self) -> dict[str, Any] | None:
        """How the stream is, or None when nobody said, or the folder is away."""
        with spared(f"The status in {self.folder} cannot be read"):
            return read_json(self.path(STATUS))
        return None

    def tell_waits(self, sentences: Sequence[str]) -> None:
        """Says what this process waits for, unless the folder is away."""
        path = self.path(_WAITING, f"{socket.gethostname()}-{os.getpid()}.json")
        with spared(f"The control folder {self.folder} takes no waits"):
            self._look()
            if sentences:
                write_json(path, {"at_s": time.time(), "waits": list(sentences)})
            elif FileSystems.exists(path):
                FileSystems.delete([path])

    def waits(self) -> list[str]:
        """What the stream's processes wait for, a sentence for each; while the folder is away, what it was before."""
        found: set[str] = set()
        with spared(f"The waits in {self.folder} cannot be read"):
            self._look()
            for file in FileSystems.match([self.path(_WAITING, "*.json")])[0].metadata_list:
                with suppress(ValueError, KeyError, TypeError):  # somebody else's file ends no stream
                    known = read_json(file.path) or {"at_s": 0.0}
                    if time.time() - known["at_s"] < _HOLDS_S:
                        found.update(known["waits"])
            _WAITS[self.folder] = sorted(found)
        return _WAITS.get(self.folder, [])

    def finish(self, marker: Marker, sender: int) -> None:
        """Tells that `sender` has done what was asked for; waits for a folder that is away."""

        def finish() -> None:
            self._look()
            write_json(self.path(DONE, f"{marker.id}-{sender:05d}.json"), {})

        until_done(finish, f"The control folder {self.folder} could not be used", PATIENCE_S)

    def n_finished(self, marker: Marker) -> int:
        """How many have done what was asked for; 0 while the folder is away."""
        with spared(f"The requests that are done in {self.folder} cannot be read"):
            return len(FileSystems.match([self.path(DONE, f"{marker.id}-*.json")])[0].metadata_list)
        return 0

    def _look(self) -> None:
        """Raises `OSError` when the folder is away: it would be made anew, and a pattern in it would match nothing."""
        if is_local(self.folder):
            os.stat(os.path.join(self.folder, ""))


def held(control: Control) -> AbstractContextManager[None]:
    """Makes a control folder and keeps other streams out; raises `InvalidSettingError` when one is at work in it.

    A folder that was made is removed in the end unless a stream was described in it: what was refused leaves nothing.
    A folder that is elsewhere is not locked.
    """
    folder = control.folder
    if not is_local(folder):
        return nullcontext()

    def in_use(process: str) -> str:
        return f"A stream (process {process}) is at work in --control {folder}; stop it, or give another folder."

    return alone_in(folder, Lock("--control", DESCRIPTION, in_use, control.owner))


@dataclass
class Tenure:
    """A process's time in a control folder; `job_may_run`: whether a job was begun in it that may not have ended."""

    job_may_run: bool = False


@contextmanager
def owned(control: Control, outlived: bool, job: Mapping[str, str] | None = None) -> Iterator[Tenure]:
    """Marks a control folder as this process's while the body runs; is it `outlived`, when killed, by its `job`?

    The mark stays where a job may run on that outlives its process: another stream would bring it back to life.
    """
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "outlived": outlived}
    write_json(control.path(OWNER), {**owner, **(job or {})})
    tenure = Tenure()
    try:
        yield tenure
    finally:
        if not (outlived and tenure.job_may_run):
            with suppress(OSError):
                FileSystems.delete([control.path(OWNER)])


def _request_in(path: str) -> Marker | None:
    """The request in a file; None when it is gone, or holds none: that is told once."""
    try:
        known = read_json(path)
        return None if known is None else requested(known)
    except ValueError as error:
        if path not in _FAILING:
            _FAILING.add(path)
            _log.warning("%s holds no request to a stream and is left alone: %s.", path, first_line(error))
        return None


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Writes a small file, all at once."""
    data = json.dumps(value, ensure_ascii=False).encode()
    write_file(path, lambda sink: sink.write(data))


def read_json(path: str) -> dict[str, Any] | None:
    """The content of a small file; None when it is not there. Raises `OSError` when it cannot be reached."""
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            found: dict[str, Any] = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if not is_local(path) and not FileSystems.exists(path):
            return None
        raise
    return found


@contextmanager
def spared(what: str) -> Iterator[None]:
    """Lets the body fail because files cannot be reached: that is told once, until the body works again."""
    try:
        yield
    except OSError as error:
        if what not in _FAILING:
            _FAILING.add(what)
            _log.warning("%s: %s.", what, first_line(error))
    else:
        _FAILING.discard(what)
