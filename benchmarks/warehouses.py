"""`python -m benchmarks.warehouses [--runs 5] [--rows 200000]`: loading a run, beside the bare client of the warehouse.

Writes docs/warehouse-benchmarks.md. Ends with 1 if a bar is missed. A warehouse more is a rival more in `RIVALS`.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

import schemas
from benchmarks import ROOT
from benchmarks.report import as_markdown, as_text
from engines.postgres import Postgres
from pipelines.run_folder import FORMAT_VERSION, MANIFEST
from pipelines.sinks.loads import APPENDED, CURRENT
from pipelines.sinks.warehouse import LoadedRun
from pipelines.sinks.warehouses import warehouse_of
from pipelines.table_files import write_table
from pipelines.tables import table_of

PAGE = ROOT / "docs" / "warehouse-benchmarks.md"
FILES, WORKERS = 8, 2_000
POSTGRES_CPU_S, MOST_RATIO = 5.0, 1.3
WRITTEN = {**{name: name for name in CURRENT}, **APPENDED}


@dataclass(frozen=True)
class Used:
    """What a load took: seconds, and seconds of this process's processors."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Rival:
    """A warehouse, and a straightforward program with its client that writes the same tables from the same files."""

    package: str
    load: Callable[[LoadedRun, Path], None]
    bare: Callable[[LoadedRun, Path], None]


def make_run(folder: Path, n_rows: int) -> LoadedRun:
    """A run of `n_rows` answers in `FILES` files, with the skills of its workers."""
    rng = np.random.default_rng(7)
    counts = dict.fromkeys(("labels_read", "labels_used"), 5 * n_rows)
    outputs = []

    def keep(name: str, number: int, table: pa.Table) -> None:
        path = f"{name}/part-{number:05d}.parquet"
        write_table(table, str(folder / path), "parquet", name)
        outputs.append({"path": path, "size_bytes": (folder / path).stat().st_size, "rows": table.num_rows})

    for number, ids in enumerate(np.array_split(np.arange(n_rows), FILES)):
        keep("scores", number, _scores(ids, rng))
    keep("skills", 0, _skills(rng))
    for name in ("edges", "graph", "rejects"):
        keep(name, 0, table_of(schemas.TABLES[name], {}))
    manifest = {"format_version": FORMAT_VERSION, "run_id": "bench", "started_at_us": 1, "finished_at_us": 2}
    rest = {"inputs": [], "settings": {}, "versions": {}, "classes": ["no", "yes"], "fit": {}, "timings_s": {}}
    account = {**manifest, **rest, "counts": counts, "outputs": outputs}
    (folder / MANIFEST).write_text(json.dumps(account), "utf-8")
    return LoadedRun(str(folder), "bench")


def _scores(ids: Any, rng: np.random.Generator) -> pa.Table:
    n = len(ids)
    columns = {
        "task": pa.array([f"task-{one:08d}" for one in ids.tolist()]),
        "label": pa.array(np.where(rng.random(n) < 0.5, "no", "yes").tolist()),
        **{name: pa.array(rng.random(n)) for name in ("probability", "margin", "score")},
        **{name: pa.array(np.full(n, 5)) for name in ("n_labels", "n_workers")},
        **{name: pa.array([text] * n) for name, text in (("status", "ok"), ("model", "one-coin"))},
    }
    return table_of("score", columns)


def _skills(rng: np.random.Generator) -> pa.Table:
    columns = {
        "worker": pa.array([f"worker-{one}" for one in range(WORKERS)]),
        **{name: pa.array(rng.random(WORKERS)) for name in ("skill", "skill_low", "skill_high", "accuracy")},
        **{name: pa.array(np.full(WORKERS, 5)) for name in ("n_labels", "n_peers", "component")},
        "status": pa.array(["ok"] * WORKERS),
    }
    return table_of("skill", columns)


def whole_table(run: LoadedRun, name: str) -> pa.Table:
    """The rows of a warehouse's table, as a straightforward program reads them: all at once."""
    record = WRITTEN[name]
    table = pq.read_table(Path(run.path, record))
    table = table.append_column("run_id", pa.array([run.run_id] * table.num_rows, pa.string()))
    return table.append_column("version", pa.array(np.zeros(table.num_rows, np.int64)))


def _load_duckdb(run: LoadedRun, folder: Path) -> None:
    warehouse_of(f"duckdb:{folder / 'ours.duckdb'}").load(run)


def _bare_duckdb(run: LoadedRun, folder: Path) -> None:
    with duckdb.connect(str(folder / "bare.duckdb")) as connection:
        connection.begin()
        for name in WRITTEN:
            connection.register("part", whole_table(run, name))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM part").fetchall()  # noqa: S608
        connection.commit()


def _iceberg_settings(folder: Path, program: str) -> dict[str, str]:
    """A new SQL catalog in a file, as pyiceberg's configuration describes it."""
    settings = {"uri": f"sqlite:///{folder}/{program}.db", "warehouse": f"file://{folder}/{program}"}
    os.environ |= {f"PYICEBERG_CATALOG__{program.upper()}__{name.upper()}": one for name, one in settings.items()}
    return settings


def _load_iceberg(run: LoadedRun, folder: Path) -> None:
    _iceberg_settings(folder, "ours")
    warehouse_of("iceberg://ours/crowd").load(run)


def _bare_iceberg(run: LoadedRun, folder: Path) -> None:
    with load_catalog("bare", **_iceberg_settings(folder, "bare")) as catalog:
        catalog.create_namespace("crowd")
        for name in WRITTEN:
            table = whole_table(run, name)
            catalog.create_table(f"crowd.{name}", table.schema).append(table)


RIVALS = {
    "DuckDB": Rival("duckdb", _load_duckdb, _bare_duckdb),
    "Iceberg": Rival("pyiceberg", _load_iceberg, _bare_iceberg),
}


def measured(action: Callable[[], Any]) -> Used:
    """What `action` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Used(time.perf_counter() - wall, time.process_time() - cpu)


def against_client(rival: Rival, run: LoadedRun, runs: int) -> tuple[list[Used], list[Used]]:
    """Both programs in turns, each into a new place; one turn before that counts for nothing."""
    found: tuple[list[Used], list[Used]] = [], []
    for turn in range(runs + 1):
        for which, program in enumerate((rival.load, rival.bare)):
            with tempfile.TemporaryDirectory() as folder:
                used = measured(partial(program, run, Path(folder)))
            if turn:
                found[which].append(used)
    return found


def into_postgres(run: LoadedRun, runs: int) -> tuple[list[Used], float]:
    """Loads into new schemas of a new server; and the server's processor time a load, start and end included."""
    before = _ended_children_cpu_s()
    with tempfile.TemporaryDirectory() as folder, Postgres(folder) as server:
        places = [f"{server.dsn}?schema=bench_{uuid.uuid4().hex}" for _ in range(runs + 1)]
        found = [measured(partial(warehouse_of(place).load, run)) for place in places][1:]
    return found, (_ended_children_cpu_s() - before) / (runs + 1)


def _ended_children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median(found: Sequence[Used]) -> Used:
    """The middle of each."""
    return Used(statistics.median(one.wall_s for one in found), statistics.median(one.cpu_s for one in found))


def report(
    n_rows: int, runs: int, postgres: Used, server_s: float, rivals: Mapping[str, tuple[Used, Used]]
) -> tuple[str, bool]:
    """The page, and whether every bar holds."""
    both = postgres.cpu_s + server_s
    bars = [
        ["Postgres: processor time of the client", f"< {POSTGRES_CPU_S:g} s", f"{postgres.cpu_s:.2f} s"],
        ["Postgres: the same with that of the server", f"< {POSTGRES_CPU_S:g} s", f"{both:.2f} s"],
    ]
    holds = [postgres.cpu_s < POSTGRES_CPU_S, both < POSTGRES_CPU_S]
    rows = [["Postgres", "crowdbeam", f"{postgres.wall_s:.2f} s", f"{postgres.cpu_s:.2f} s"]]
    for name, (ours, bare) in rivals.items():
        ratio = ours.wall_s / bare.wall_s
        bars.append([f"{name}: wall beside the bare client", f"≤ {MOST_RATIO:g} ×", f"{ratio:.2f} ×"])
        holds.append(ratio <= MOST_RATIO)
        rows += [
            [name, who, f"{one.wall_s:.2f} s", f"{one.cpu_s:.2f} s"] for who, one in zip(WHO, (ours, bare), strict=True)
        ]
    for bar, held in zip(bars, holds, strict=True):
        bar.append("PASS" if held else "MISS")
    packages = ", ".join(f"{one} {version(one)}" for one in ("psycopg", *(one.package for one in RIVALS.values())))
    header = (["what", "bar", "measured", "verdict"], ["warehouse", "program", "wall", "processor, client"])
    print(as_text([header[0], *bars]), as_text([header[1], *rows]), sep="\n\n")
    text = _TEXT.format(packages=packages, n_rows=n_rows, files=FILES, workers=WORKERS, runs=runs)
    return f"{text}\n{as_markdown([header[0], *bars])}\n\n{as_markdown([header[1], *rows])}\n", all(holds)


WHO = ("crowdbeam", "bare client")
_TEXT = """\
# Warehouses, measured

Written by `python -m benchmarks.warehouses`; do not edit.

{packages}; two cores shared with other work. A run of {n_rows:,} answers in {files} Parquet files and
{workers:,} skills is loaded into tables that are new. Answers and skills are written twice: to the current state and
to the history. Medians of {runs} loads in one process, one before them not counted, interleaved with the bare client's.

The bare client is a straightforward program: it reads each of the run's tables into one Arrow table and has the
warehouse's client write the same rows to the same tables, in one transaction (of Iceberg: one a table). It keeps no
record of the run. The server's processor time is that of its whole life, set up and stopped, divided by the loads.
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder, "run"), args.rows)
        found = {name: against_client(rival, run, args.runs) for name, rival in RIVALS.items()}
        rivals = {name: (median(ours), median(bare)) for name, (ours, bare) in found.items()}
        loads, server_s = into_postgres(run, args.runs)
        page, holds = report(args.rows, args.runs, median(loads), server_s, rivals)
    PAGE.write_text(page, "utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
