"""The manifest: the account of a run, from what the pipeline counted on the way."""

import json
import os
import platform
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

import crowdcore
from pipelines.addresses import is_secret
from pipelines.errors import RunError
from pipelines.inputs import InputFile
from pipelines.run_folder import FORMAT_VERSION
from pipelines.settings import BatchSettings
from pipelines.sources import storage
from pipelines.sources.storage import is_local
from pipelines.table_files import write_table
from pipelines.tables import table_of
from schemas import TABLES

_BECAME = ("used", "repeated", "rejected", "withdrawn")
_ALWAYS = ("labels_read", *(f"labels_{became}" for became in _BECAME), "tasks", "scores", "workers")


class Clock:
    """When a run began, and how long its parts took."""

    def __init__(self) -> None:
        self.started_at_us = time.time_ns() // 1000
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends the part called `name`."""
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now


def manifest_of(
    settings: BatchSettings,
    staging: str,
    counted: Mapping[str, int],
    fit: Mapping[str, str],
    inputs: Sequence[tuple[InputFile, str]],
    beam_options: Mapping[str, Any],
    clock: Clock,
) -> dict[str, Any]:
    """The account of a run whose tables are in `staging`; raises `RunError` when its counts do not add up.

    Tables that nothing was written to get a file without rows. `counted` holds the rows of each file, too, by
    ``rows:PATH``; `inputs` come with their checksums.
    """
    counts, rows = _split(counted)
    check_balance(counts, rows)
    for name in TABLES:
        if not any(path.startswith(f"{name}/") for path in rows):
            rows[_write_empty(staging, name, settings.output_format)] = 0
    found = dict(fit) or {"reason": "There were no labels."}
    clock.lap("account")
    return {
        "format_version": FORMAT_VERSION,
        "run_id": uuid.uuid4().hex,
        "started_at_us": clock.started_at_us,
        "finished_at_us": time.time_ns() // 1000,
        "inputs": [_input_of(file, checksum) for file, checksum in inputs],
        "settings": _texts({**asdict(settings), **asdict(settings.aggregate), **_shown(beam_options)}),
        "versions": _versions(),
        "counts": counts,
        "classes": json.loads(found.pop("classes", "[]")),
        "fit": found,
        "timings_s": clock.laps,
        "outputs": [{"path": path, "size_bytes": _size_of(staging, path), "rows": rows[path]} for path in sorted(rows)],
        "gates": [],
    }


def check_balance(counts: Mapping[str, int], rows: Mapping[str, int]) -> None:
    """Fails when a label, a known answer or an answer went missing on the way."""
    for what in ("labels", "gold"):
        read = counts.get(f"{what}_read", 0)
        found = {became: counts.get(f"{what}_{became}", 0) for became in _BECAME}
        if read != sum(found.values()):
            *told, last = (f"{n} {became}" for became, n in found.items())
            raise RunError(f"{read} {what} were read, but {', '.join(told)} and {last}.")
    written = sum(n for path, n in rows.items() if path.startswith("scores/"))
    if not counts["tasks"] == counts["scores"] == written:
        raise RunError(f"{counts['tasks']} tasks have labels, but {written} answers were written.")


def read_json(path: str) -> dict[str, Any] | None:
    """What a step kept in `path`, or None."""
    if not storage.exists(path):
        return None
    found: dict[str, Any] = json.loads(storage.read_bytes(path))
    return found


def _split(counted: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """The counts of the run, and the rows of each file."""
    rows = {name.removeprefix("rows:"): int(n) for name, n in counted.items() if name.startswith("rows:")}
    counts = {name: int(n) for name, n in counted.items() if not name.startswith("rows:")}
    counts = dict.fromkeys(_ALWAYS, 0) | counts
    return dict(sorted(counts.items())), rows


def _input_of(file: InputFile, checksum: str) -> dict[str, Any]:
    path = os.path.abspath(file.path) if is_local(file.path) else file.path
    return {
        "path": file.address or path,
        "role": file.role,
        "format": file.warehouse or file.format,
        "size_bytes": file.size_bytes,
        "checksum": checksum,
    }


def _write_empty(staging: str, name: str, kind: str) -> str:
    path = f"{name}/part-00000.{kind}"
    write_table(table_of(TABLES[name], {}), storage.join(staging, path), kind, name)
    return path


def _size_of(staging: str, path: str) -> int:
    return storage.size_of(storage.join(staging, path))


def _shown(beam_options: Mapping[str, Any]) -> dict[str, Any]:
    """Beam's options that were given, without what nobody should read in a manifest."""
    return {
        name: "(not shown)" if is_secret(name, "key") else value
        for name, value in beam_options.items()
        if isinstance(value, (str, int, float, bool, list))
    }


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in settings.items()
        if name != "aggregate"
    }


def _versions() -> dict[str, str]:
    return {
        "crowdbeam": crowdcore.__version__,
        "apache-beam": version("apache-beam"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "pyarrow": pa.__version__,
        "python": platform.python_version(),
        "platform": sys.platform,
    }
