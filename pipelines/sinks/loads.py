"""What a run brings to a warehouse: its rows in parts, what they replace, and the row that says it was loaded."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import schemas
from pipelines.answers import NO_LABELS
from pipelines.errors import InputError, InvalidSettingError
from pipelines.run_tables import read_manifest, read_parts
from pipelines.sinks.warehouse import LoadedRun

CURRENT = {"scores": ("task",), "skills": ("worker",), "edges": ("worker_a", "worker_b"), "graph": ("component",)}
APPENDED = {"score_history": "scores", "skill_history": "skills", "rejects": "rejects"}
RUNS = "runs"
TABLES = (*CURRENT, *APPENDED, RUNS)
STAYS = {"scores": f"status <> '{NO_LABELS}'", "edges": "n_common <> 0"}  # in SQL; all other rows stay
LEDGER, VERSION, WHOLE, AFTER = "ledger_id", "ledger_version", "whole", "ledger_after"  # of a manifest's settings
_ALWAYS_WHOLE = ("skills", "graph")
_LABEL_COUNTS = ("labels_read", "labels_used", "labels_repeated", "labels_rejected", "labels_withdrawn")
_ROW_COUNTS = ("scores", "skills", "edges", "rejects")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


def table_schema(name: str) -> pa.Schema:
    """The columns of a warehouse's table, one of `TABLES`; the documentation of each is in its metadata.

    >>> table_schema("skill_history").names[:2], table_schema("skill_history").names[-2:]
    (['worker', 'skill'], ['run_id', 'version'])
    """
    return schemas.arrow_schema(_record_of(name)) if name == RUNS else schemas.loaded_schema(_record_of(name))


def table_doc(name: str) -> str:
    """What a row of a warehouse's table is, in a sentence or two.

    >>> table_doc("score_history")
    'The answer to one task. Every row that was ever loaded.'
    """
    doc = str(schemas.avro_schema(_record_of(name))["doc"])
    return f"{doc} Every row that was ever loaded." if name in APPENDED else doc


def loaded_run_of(folder: str) -> LoadedRun:
    """The finished run in `folder` as its manifest tells it; raises `InputError` when there is none.

    The ledger of a night's run is in the manifest's settings: `LEDGER`, `VERSION` and `WHOLE`.
    """
    manifest = read_manifest(folder)
    settings = manifest.get("settings", {})
    try:
        version, whole = int(settings.get(VERSION, "0")), {"true": True, "false": False}[settings.get(WHOLE, "true")]
        return LoadedRun(folder, str(manifest["run_id"]), version, whole, settings.get(LEDGER, ""))
    except (KeyError, ValueError) as error:
        raise InputError(f"The manifest of {folder} does not say which run it is: {error}.") from error


def runs_before(folder: str) -> tuple[str, ...]:
    """The ids of the runs to which the night's run in `folder` adds what changed; raises `InputError` without it.

    They are that of the version before it, and, if that is a compaction, those of what was compacted: the last one was
    a night's. Manifests of earlier versions of crowdbeam tell none.
    """
    text = read_manifest(folder).get("settings", {}).get(AFTER, "[]")
    try:
        return tuple(map(str, json.loads(text)))
    except (TypeError, ValueError) as error:
        raise InputError(f"The manifest of {folder} does not say which runs are before it: {error}.") from error


@dataclass(frozen=True)
class LoadTables:
    """The rows that a run brings, table by table and part by part; each part fits into memory.

    Attributes:
        run: the run.
        manifest: its account.
    """

    run: LoadedRun
    manifest: Mapping[str, Any]

    @classmethod
    def of(cls, run: LoadedRun) -> "LoadTables":
        """Reads the manifest; raises `InputError` without one, `InvalidSettingError` for a run that cannot be told."""
        if not _RUN_ID.fullmatch(run.run_id):
            raise InvalidSettingError(
                f"The run id {run.run_id!r} cannot be loaded; it takes letters, digits, '-', '_' and '.', 200 at most."
            )
        if run.version < 0 or bool(run.version) != bool(run.ledger):
            raise InvalidSettingError(
                f"Run {run.run_id} has version {run.version} of ledger {run.ledger!r}; a ledger's versions begin with "
                "1, and a run of no ledger has 0."
            )
        return cls(run, read_manifest(run.path))

    def parts(self, name: str) -> Iterator[pa.Table]:
        """All rows of the run's table `name`, one of `schemas.TABLES`, with run_id and version."""
        for part in read_parts(self.run.path, self.manifest, name):
            marks = [pa.repeat(self.run.run_id, part.num_rows), pa.repeat(self.run.version, part.num_rows)]
            yield pa.table([*part.columns, *marks], schema=table_schema(name))

    def upserts(self, name: str) -> Iterator[pa.Table]:
        """The rows of the current table `name`, one of `CURRENT`, that take the place of rows with their key."""
        return (part.filter(pc.invert(_gone(name, part))) for part in self.parts(name))

    def removals(self, name: str) -> Iterator[pa.Table]:
        """The keys that must not stay in the current table `name`; of a table that is replaced there is none."""
        if self.replaces(name):
            return
        for part in self.parts(name):
            yield part.select(list(CURRENT[name])).filter(_gone(name, part))

    def replaces(self, name: str) -> bool:
        """Whether the run's rows are all that the current table `name` will hold."""
        return self.run.whole or name in _ALWAYS_WHOLE

    def appends(self, name: str) -> Iterator[pa.Table]:
        """The rows that are added to the table `name`, one of `APPENDED`."""
        return self.parts(APPENDED[name])

    def rows_of(self, name: str) -> int:
        """How many rows the run's table `name` has, by its manifest."""
        return sum(int(one["rows"]) for one in self.manifest["outputs"] if one["path"].startswith(f"{name}/"))

    def run_row(self) -> pa.Table:
        """The row of the table `runs`; it is loaded now."""
        run, counts = self.run, self.manifest["counts"]
        row = {"run_id": run.run_id, "ledger": run.ledger, "version": run.version, "whole": run.whole}
        row |= {name: int(counts.get(name, 0)) for name in _LABEL_COUNTS}
        row |= {name: self.rows_of(name) for name in _ROW_COUNTS}
        row |= {name: int(self.manifest[name]) for name in ("started_at_us", "finished_at_us")}
        row["loaded_at_us"] = time.time_ns() // 1000
        return pa.Table.from_pylist([row], table_schema(RUNS))


def rows_written(tables: LoadTables, stayed: Mapping[str, int]) -> dict[str, int]:
    """What a load wrote, by table: the rows that `stayed` in the current state, those appended, and that of `runs`."""
    return {**stayed, **{name: tables.rows_of(made_of) for name, made_of in APPENDED.items()}, RUNS: 1}


def _record_of(name: str) -> str:
    return "loaded_run" if name == RUNS else schemas.TABLES[APPENDED.get(name, name)]


def _gone(name: str, rows: pa.Table) -> pa.ChunkedArray:
    """(rows,) whether each row says that its task has no answer any more, or its pair no common task."""
    if name == "scores":
        return pc.equal(rows.column("status"), NO_LABELS)
    if name == "edges":
        return pc.equal(rows.column("n_common"), 0)
    return pa.chunked_array([pa.repeat(False, rows.num_rows)])
