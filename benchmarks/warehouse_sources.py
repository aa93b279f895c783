"""The same labels from Parquet, DuckDB and Postgres: `python -m benchmarks.warehouse_sources [LABELS] [ROUNDS]`."""

import sys
import tempfile
from pathlib import Path

import duckdb
import psycopg

from benchmarks.measure import Usage, measure, median_of, run_interleaved
from engines.postgres import Postgres

LIMIT_S = 300.0
DEFAULTS = (1_000_000, 3)
ROWS = """SELECT 'task-' || (i // 5) AS task, 'worker-' || (hash(i) % 2000) AS worker,
    'c' || (CASE WHEN hash(i + 1) % 10 < 7 THEN (i // 5) % 2 ELSE hash(i + 2) % 2 END) AS label
    FROM range({labels}) AS t(i)"""
PIECE_BYTES = 1 << 20


def make(folder: Path, dsn: str, labels: int) -> dict[str, str]:
    """Writes the labels everywhere; gives what to read, by name."""
    with duckdb.connect(str(folder / "crowd.duckdb")) as connection:
        connection.execute(f"CREATE TABLE labels AS {ROWS.format(labels=labels)}")
        connection.execute(f"COPY labels TO '{folder}/labels.parquet'")
        connection.execute(f"COPY labels TO '{folder}/labels.csv' (HEADER false)")
    with psycopg.connect(dsn) as server, server.cursor() as cursor:
        cursor.execute("CREATE TABLE labels (task text, worker text, label text)")
        with cursor.copy("COPY labels FROM STDIN (FORMAT csv)") as copy, (folder / "labels.csv").open("rb") as file:
            while data := file.read(PIECE_BYTES):
                copy.write(data)
    return {
        "Parquet": f"{folder}/labels.parquet",
        "DuckDB": f"duckdb://{folder}/crowd.duckdb?table=labels",
        "Postgres": f"{dsn}?table=labels",
    }


def report(what: str, number: int, usage: Usage) -> None:
    """Says how one run went."""
    sys.stderr.write(f"{what}, round {number}: {usage.wall_s:.1f} s wall, {usage.cpu_s:.1f} s processor\n")


def main() -> None:
    labels, rounds = (*map(int, sys.argv[1:]), *DEFAULTS[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as name, Postgres(Path(name, "postgres")) as server:
        folder = Path(name)
        sources = make(folder, server.dsn, labels)
        program = str(Path(sys.executable).parent / "crowdbeam")
        commands = {
            what: [program, "aggregate", source, "--output", f"{folder}/run", "--overwrite", "--quiet"]
            for what, source in sources.items()
        }
        found = run_interleaved(list(commands), lambda what: measure(commands[what], LIMIT_S), rounds, report)
    print(f"| {labels:,} labels from | wall | processor | peak memory |\n|---|---|---|---|")
    for what, runs in found.items():
        median = median_of(runs)
        assert median is not None, f"{what} failed: {runs}"
        print(f"| {what} | {median.wall_s:.1f} s | {median.cpu_s:.1f} s | {median.memory_mb / 1e3:.2f} GB |")


if __name__ == "__main__":
    main()
