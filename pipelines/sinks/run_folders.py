"""A folder of run folders: each run that is loaded becomes one of its own, in the format asked for.

```
DIR/
  run-000007/    the run of version 7 of a ledger, a run folder like any other
  5f0c…e1/       a run of no ledger, by its id
```

On this machine's file system a run is written beside its place, brought to the disk, and appears in its place all at
once; on others its manifest is written last. What a load that was killed left behind is removed by the next one.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import schemas
from pipelines.errors import InputError, InvalidSettingError, RunError
from pipelines.run_folder import MANIFEST
from pipelines.run_tables import read_parts
from pipelines.settings import OUTPUT_FORMATS
from pipelines.sinks.loads import LEDGER, VERSION, WHOLE, LoadTables, loaded_run_of
from pipelines.sinks.warehouse import LastRun, LoadedRun
from pipelines.sources import storage
from pipelines.sources.storage import is_local, missing_extra
from pipelines.syncing import sync
from pipelines.table_files import write_file, write_table

_LOADING = "_loading-"
_NIGHT = re.compile(r"run-\d{6,}")
_OF_A_RUN = re.compile(rf"({'|'.join(schemas.TABLES)})(/part-[^/]*)?|{re.escape(MANIFEST)}.*")  # also half written


@dataclass(frozen=True)
class FolderWarehouse:
    """A folder in which each run is a run folder of its own.

    Attributes:
        path: the folder; it is made when it is missing.
        format: of the tables.
    """

    path: str
    format: str = "parquet"

    def __post_init__(self) -> None:
        """Refuses settings that cannot be used."""
        if not self.path.strip():
            raise InvalidSettingError("The warehouse's folder has no name; give a folder.")
        if self.format not in OUTPUT_FORMATS:
            raise InvalidSettingError(
                f"The warehouse's format is {self.format!r}; it takes {', '.join(OUTPUT_FORMATS)}."
            )

    def __str__(self) -> str:
        return self.path + ("" if self.format == "parquet" else f"?format={self.format}")

    @property
    def local_path(self) -> str:
        """The folder."""
        return self.path

    @property
    def has_state(self) -> bool:
        """Each run is a folder of its own."""
        return False

    def check(self) -> None:
        """Makes the folder; raises `InvalidSettingError` when it cannot be written, or is itself a run."""
        if advice := missing_extra(self.path):
            raise InvalidSettingError(
                f"The warehouse {self.path} cannot be reached: its file system is not installed. Try: {advice}"
            )
        if not is_local(self.path):
            return
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise InvalidSettingError(f"The warehouse {self.path} is a file; give a folder.")
        if os.path.exists(os.path.join(self.path, MANIFEST)):
            raise InvalidSettingError(f"The warehouse {self.path} is the folder of one run; give a folder for many.")
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise InvalidSettingError(f"The warehouse {self.path} cannot be made: {error.strerror}.") from error
        if not os.access(self.path, os.W_OK):
            raise InvalidSettingError(f"The warehouse {self.path} may not be written by this user.")

    def last_run(self, ledger: str) -> LastRun:
        """The last run of a ledger that was loaded: of its highest version."""
        newest = self._newest()
        return LastRun(newest.version, newest.run_id) if newest and newest.ledger == ledger else LastRun()

    def ledgers(self) -> frozenset[str]:
        """The ids of the ledgers whose runs were loaded; empty when there are none. A folder takes those of one."""
        newest = self._newest()
        return frozenset({newest.ledger} if newest else ())

    def load(self, run: LoadedRun) -> Mapping[str, int]:
        """Loads `run` unless it is there already; gives the rows written by table, none when it was there."""
        tables = LoadTables.of(run)
        try:
            if is_local(self.path):
                with self._alone():
                    return self._load(tables)
            return self._load(tables)
        except OSError as error:
            raise RunError(f"{self} did not take run {run.run_id}: {' '.join(str(error).split())}.") from error

    def _load(self, tables: LoadTables) -> Mapping[str, int]:
        run, name = tables.run, _name_of(tables.run)
        there, place = self._run_in(name), storage.join(self.path, name)
        if is_local(self.path):
            self._remove_leftovers()
        if self._is_there(run, there):
            return {}
        broken = _broken_off(place)
        if not is_local(self.path) and broken:
            storage.delete(broken)
        beside = storage.join(self.path, _LOADING + name) if is_local(self.path) else place
        outputs = self._write_tables(tables, beside)
        _write_manifest(tables, beside, self.format, outputs)
        if beside != place:
            _exchange(beside, place)
        rows = dict.fromkeys(schemas.TABLES, 0)
        for output in outputs:
            rows[output["path"].partition("/")[0]] += output["rows"]
        return rows

    def _is_there(self, run: LoadedRun, there: LoadedRun | None) -> bool:
        """Whether a run is there already; `there` is what has its name. Raises `RunError` where it cannot be put."""
        newest = self._newest() if run.ledger else None
        if newest and newest.ledger != run.ledger:
            raise RunError(f"{self.path} holds the runs of another ledger, {newest.ledger}; give one folder a ledger.")
        if (newest and newest.version >= run.version) or (there and there.run_id == run.run_id):
            return True
        if there:
            raise RunError(f"{there.path} is another run, {there.run_id}; move it, or give another folder.")
        return False

    def _write_tables(self, tables: LoadTables, folder: str) -> list[dict[str, Any]]:
        """Writes every table, also an empty one; gives what the manifest tells of the files."""
        outputs = []
        for name in schemas.TABLES:
            for number, part in enumerate(_parts_of(tables, name)):
                path = f"{name}/part-{number:05d}.{self.format}"
                write_table(part, storage.join(folder, path), self.format, name, lasting=True)
                size = storage.size_of(storage.join(folder, path))
                outputs.append({"path": path, "size_bytes": size, "rows": part.num_rows})
        return sorted(outputs, key=lambda one: str(one["path"]))

    def _newest(self) -> LoadedRun | None:
        """The last night's run. Their names tell which that is: no other is opened, unless it is damaged."""
        if is_local(self.path):
            names = os.listdir(self.path) if os.path.isdir(self.path) else []
        else:
            names = [path.split("/")[-2] for path, _ in storage.match(storage.join(self.path, "run-*", MANIFEST))]
        nights = [name for name in names if _NIGHT.fullmatch(name)]
        found = map(self._run_in, sorted(nights, key=lambda name: int(name[4:]), reverse=True))
        return next((run for run in found if run and run.ledger), None)

    def _run_in(self, name: str) -> LoadedRun | None:
        """The run in one of the folders; None when there is none, or a damaged one, which is no whole run."""
        folder = storage.join(self.path, name)
        if not storage.exists(storage.join(folder, MANIFEST)):
            return None
        try:
            return loaded_run_of(folder)
        except InputError as error:
            if isinstance(error.__cause__, (ValueError, KeyError)):
                return None
            raise  # it cannot be read just now, or is a later crowdbeam's: it may be whole

    def _remove_leftovers(self) -> None:
        """Removes what loads that were killed left beside their places."""
        for name in os.listdir(self.path):
            if name.startswith(_LOADING):
                shutil.rmtree(os.path.join(self.path, name))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process loads into the folder; the system ends the lock with the process."""
        os.makedirs(self.path, exist_ok=True)
        number = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            yield
        finally:
            os.close(number)


def _broken_off(place: str) -> list[str]:
    """What is there of a run that is not whole, where one is to come; raises `RunError` for what no run wrote."""
    found = _all_in(place) if is_local(place) else [path for path, _ in storage.match(storage.join(place, "**"))]
    for path in found:
        if not _OF_A_RUN.fullmatch(path.removeprefix(place).lstrip("/")):
            raise RunError(
                f"{place} is no finished run, and {path} is not of one, so nothing was loaded there; move it away."
            )
    return found


def _all_in(place: str) -> list[str]:
    """The files and folders in a folder of this machine; of anything else, it."""
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
        return [place]
    return [os.path.join(folder, one) for folder, folders, files in os.walk(place) for one in (*folders, *files)]


def _exchange(beside: str, place: str) -> None:
    """Moves a run to its place, to stay; what is there of a run that is not whole is removed, at no moment in part."""
    damaged = f"{beside}-damaged"
    if os.path.lexists(place):
        os.rename(place, damaged)
    os.rename(beside, place)
    sync(os.path.dirname(place))
    shutil.rmtree(damaged, ignore_errors=True)


def _name_of(run: LoadedRun) -> str:
    return f"run-{run.version:06d}" if run.ledger else run.run_id


def _parts_of(tables: LoadTables, name: str) -> Iterator[pa.Table]:
    """The rows of a table as the run has them, in parts; of an empty table one without rows."""
    parts = read_parts(tables.run.path, tables.manifest, name)
    yield next(parts, schemas.arrow_schema(schemas.TABLES[name]).empty_table())
    yield from parts


def _write_manifest(tables: LoadTables, folder: str, kind: str, outputs: Sequence[Mapping[str, Any]]) -> None:
    """Writes the account of the run, which differs in what it tells of the files; it says which night's run it is."""
    run = tables.run
    of_ledger = {LEDGER: run.ledger, VERSION: str(run.version), WHOLE: json.dumps(run.whole)} if run.ledger else {}
    settings = {**tables.manifest["settings"], **of_ledger, "output_format": kind}
    manifest = {**tables.manifest, "run_id": run.run_id, "settings": settings, "outputs": outputs}
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    write_file(storage.join(folder, MANIFEST), lambda sink: sink.write(text.encode()), lasting=True)
