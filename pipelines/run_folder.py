"""The run folder: what a run writes appears all at once, or not at all.

Everything is first written to ``_staging`` inside the folder. When the run has finished, its tables are moved to their
places and ``manifest.json`` is written last: a folder without a manifest holds no finished run. A run that fails leaves
the result of an earlier one as it was; one that is killed while the tables change places is undone by the next run.

A commit may be tried again, for a runner may do the last step of a job twice: the manifest lies in ``_staging`` before
anything moves, so that a second try knows what there was, however much of it is in place already.
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.addresses import refuse_warehouse
from pipelines.errors import InvalidSettingError, RunError
from pipelines.sources import storage
from pipelines.sources.storage import is_local
from pipelines.table_files import write_file
from schemas import TABLES

MANIFEST = "manifest.json"
STAGING = "_staging"
FORMAT_VERSION = 1
STATE = "state"
_PARTS = (*TABLES, STATE)
_OWNER = "owner.json"
_REPLACED = "_replaced"
_TRIES, _PAUSE_S = 20, 0.05


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds, or will hold, one run."""

    path: str

    @property
    def staging(self) -> str:
        """Where files wait until the run has finished."""
        return storage.join(self.path, STAGING)

    @property
    def manifest(self) -> str:
        """The manifest's place."""
        return storage.join(self.path, MANIFEST)

    def open(self, overwrite: bool) -> None:
        """Makes room for a new run, which `abandon` clears; raises `InvalidSettingError` when there is none."""
        if not self.path.strip():
            raise InvalidSettingError("--output is empty; give a folder.")
        refuse_warehouse(self.path, "--output", "Give a folder RUN, then load it: crowdbeam load RUN --to {}")
        if is_local(self.path) and Path(self.path).exists() and not Path(self.path).is_dir():
            raise InvalidSettingError(f"--output {self.path} is a file; give a folder.")
        self._refuse_if_finished(overwrite)
        if not is_local(self.path):
            self._delete_under(self.staging)
            return
        self._refuse_if_busy()
        self._restore()
        self._refuse_if_finished(overwrite)
        foreign = self._foreign()
        if foreign:
            raise InvalidSettingError(
                f"--output {self.path} holds {foreign!r}, which no run wrote. Give an empty or a new folder."
            )
        shutil.rmtree(self.staging, ignore_errors=True)
        try:
            os.makedirs(os.path.join(self.staging, "blocks"))
        except OSError as error:
            raise InvalidSettingError(f"--output {self.path} cannot be made: {error.strerror}.") from error
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        Path(self.staging, _OWNER).write_text(json.dumps(owner), "utf-8")

    def commit(self, manifest: Mapping[str, Any]) -> None:
        """Moves the tables to their places and writes the manifest, last; an earlier run comes back if that fails."""
        if not is_local(self.path):
            self._commit_remotely(manifest)
            return
        if self.staged() is not None:  # by an earlier try
            self._restore()
        self._stage(manifest)
        self._drop_torn({str(Path(output["path"])) for output in manifest["outputs"]})
        os.makedirs(self._replaced, exist_ok=True)
        try:
            for name in (MANIFEST, *_PARTS):
                if os.path.lexists(os.path.join(self.path, name)):
                    os.replace(os.path.join(self.path, name), os.path.join(self._replaced, name))
            for name in _PARTS:
                if name in TABLES or os.path.isdir(os.path.join(self.staging, name)):
                    os.replace(os.path.join(self.staging, name), os.path.join(self.path, name))
            os.replace(os.path.join(self.staging, MANIFEST), self.manifest)
        except BaseException:
            self._restore()
            raise
        self.abandon()

    def staged(self) -> dict[str, Any] | None:
        """The manifest that an earlier try to commit has left; None when there was none."""
        path = self._staged(MANIFEST)
        if not storage.exists(path):
            return None
        found: dict[str, Any] = json.loads(storage.read_bytes(path))
        return found

    def abandon(self) -> None:
        """Removes what is not part of a finished run, unless another run is at work on it."""
        if is_local(self.path):
            if self._other_owner():
                return
            for _ in range(_TRIES):  # steps that were broken off may still be writing a block
                shutil.rmtree(self.staging, ignore_errors=True)
                if not os.path.exists(self.staging):
                    break
                time.sleep(_PAUSE_S)
            if os.path.isdir(self.path) and not os.listdir(self.path):
                os.rmdir(self.path)
        else:
            self._delete_under(self.staging)

    @property
    def _replaced(self) -> str:
        """Where the tables of an earlier run are while the new ones take their places."""
        return os.path.join(self.staging, _REPLACED)

    def _drop_torn(self, listed: Collection[str]) -> None:
        """Removes what steps that were killed have left beside the files of the tables."""
        for name in _PARTS:
            for folder, _, files in os.walk(self._staged(name)):
                for path in (os.path.join(folder, file) for file in files):
                    if os.path.relpath(path, self.staging) not in listed:
                        os.remove(path)

    def _restore(self) -> None:
        """Undoes an exchange that did not come to its end: without a manifest nothing in place is part of a run."""
        if not os.path.isdir(self._replaced) or os.path.exists(self.manifest):
            return
        outputs = (self.staged() or {}).get("outputs", ())
        new = {output["path"].partition("/")[0] for output in outputs} or set(TABLES)
        for name in (*_PARTS, MANIFEST):
            kept, place, staged = (os.path.join(folder, name) for folder in (self._replaced, self.path, self.staging))
            if name in new and os.path.isdir(place) and not os.path.isdir(staged):
                os.replace(place, staged)
            if os.path.lexists(kept):
                os.replace(kept, place)

    def _commit_remotely(self, manifest: Mapping[str, Any]) -> None:
        """The same where nothing can be exchanged at once; while it lasts, and if it fails, there is no manifest.

        What is still in staging has not been moved; what the manifest lists and is not there, an earlier try has moved.
        """
        self._stage(manifest)
        if storage.exists(self.manifest):
            storage.delete([self.manifest])
        there = {path for path, _ in storage.match(self._staged("**"))}
        place_of = {self._staged(one["path"]): storage.join(self.path, one["path"]) for one in manifest["outputs"]}
        waiting = [path for path in place_of if path in there]
        moved = {place for path, place in place_of.items() if path not in there}
        for name in _PARTS:
            self._delete_under(storage.join(self.path, name), but=moved)
        missing = moved - {path for name in _PARTS for path, _ in storage.match(storage.join(self.path, name, "**"))}
        if missing:
            raise RunError(f"{min(missing)} was written, but is gone. Run again.")
        storage.rename(waiting, [place_of[path] for path in waiting])
        storage.rename([self._staged(MANIFEST)], [self.manifest])
        self.abandon()

    def _staged(self, path: str) -> str:
        return storage.join(self.staging, path)

    def _stage(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest to staging, unless an earlier try has done so."""
        if self.staged() != manifest:
            text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
            write_file(self._staged(MANIFEST), lambda sink: sink.write(text.encode()))

    def _foreign(self) -> str | None:
        """The first file or folder in this one that no run wrote: a finished run has what its manifest lists."""
        if not os.path.isdir(self.path):
            return None
        listed = self._listed()
        for name in sorted(os.listdir(self.path)):
            place = os.path.join(self.path, name)
            if name == STAGING or (name == MANIFEST and listed is not None):
                continue
            if listed is None or name not in _PARTS or not os.path.isdir(place):
                return name
            for folder, _, files in os.walk(place):
                for file in files:
                    path = os.path.relpath(os.path.join(folder, file), self.path)
                    if path not in listed:
                        return path
        return None

    def _listed(self) -> set[str] | None:
        """The files that the manifest of a finished run lists; None when there is no such manifest."""
        try:
            manifest = json.loads(Path(self.manifest).read_text("utf-8"))
            return {str(Path(output["path"])) for output in manifest["outputs"]} if manifest["run_id"] else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _refuse_if_finished(self, overwrite: bool) -> None:
        if not overwrite and storage.exists(self.manifest):
            raise InvalidSettingError(
                f"--output {self.path} holds a finished run. Give another folder, or --overwrite to replace it."
            )

    def _refuse_if_busy(self) -> None:
        other = self._other_owner()
        if other:
            raise InvalidSettingError(
                f"--output {self.path} is being written by another run (process {other}). Wait for it to end."
            )

    def _other_owner(self) -> int:
        """The process of another run that is at work in this folder, or 0."""
        try:
            owner = json.loads(Path(self.staging, _OWNER).read_text("utf-8"))
        except (OSError, ValueError):
            return 0
        here = owner["host"] == socket.gethostname() and owner["pid"] != os.getpid() and is_alive(owner["pid"])
        return int(owner["pid"]) if here else 0

    def _delete_under(self, folder: str, but: Collection[str] = ()) -> None:
        found = [path for path, _ in storage.match(storage.join(folder, "**")) if path not in but]
        if found:
            storage.delete(found)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
