"""`python -m benchmarks.nightly [--labels N ...] [--nights N ...] [--runs 3]`: nights beside batches of everything.

Writes docs/nightly-benchmarks.md and its picture when run with the sizes that are set. Ends with 1 if a bar is missed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import CACHE, nightly_report
from benchmarks.cases import LIMIT_S, OURS
from benchmarks.data import LABELS_PER_TASK, Crowd, make_data
from benchmarks.measure import Usage, measure, run_interleaved
from benchmarks.nights import Night, copy_of_ledger, ledger_of, make_night

LEDGERS = (1_000_000, 3_000_000, 10_000_000)
NIGHTS = (10_000, 30_000, 100_000, 300_000)
NIGHT = 100_000  # of the comparison with the batch
WORKERS = (500, 2_000)
COMMAND = str(Path(sys.executable).parent / OURS)


@dataclass
class Measured:
    """What was measured: the runs by name, and the bytes of the ledger that nights looked at."""

    usages: dict[str, list[Usage]] = field(default_factory=dict)
    ledger_bytes: dict[str, int] = field(default_factory=dict)


def name_of(night: Night, what: str) -> str:
    """What a trial is called; `what` is "night" or "batch"."""
    return f"{what}, {night}"


def crowds_of(n_labels: int) -> list[Crowd]:
    """The crowds whose labels are in ledgers of one size."""
    return [Crowd(n_labels // LABELS_PER_TASK, n_workers) for n_workers in WORKERS]


def prepare(nights: Sequence[Night]) -> None:
    """Makes the labels, and anew the ledgers."""
    for crowd in dict.fromkeys(night.crowd for night in nights):
        make_data(crowd, "parquet")
        shutil.rmtree(ledger_of(crowd), ignore_errors=True)
        for file in crowd.files("parquet"):  # a night each
            words = [str(file), "--ledger", str(ledger_of(crowd)), "--keep-versions", "1", "--quiet"]
            subprocess.run([COMMAND, "nightly", *words], check=True)
        _say(f"made a ledger of {crowd.n_labels:,} labels by {crowd.n_workers:,} workers")
    for night in nights:
        make_night(night)


def run_all(nights: Sequence[Night], batches: Sequence[Night], n_runs: int, words: Sequence[str]) -> Measured:
    """Every night, with `words`, and every batch of all the labels, in turns."""
    measured = Measured()
    by_name = {name_of(night, "night"): night for night in nights}
    all_at_once = {name_of(night, "batch"): night for night in batches}

    def run(name: str) -> Usage:
        if name in all_at_once:
            return _run_batch(all_at_once[name])
        ledger = copy_of_ledger(ledger_of(by_name[name].crowd), CACHE / "nightly" / "tonight")
        command = [COMMAND, "nightly", str(by_name[name].file), "--ledger", str(ledger), "--quiet", *words]
        usage = measure(command, LIMIT_S)
        if not usage.failed:
            measured.ledger_bytes[name] = _bytes_read(ledger)
        return usage

    def tell(name: str, round_number: int, usage: Usage) -> None:
        took = f"FAILED: {usage.output}" if usage.failed else f"{usage.wall_s:.2f} s, processor {usage.cpu_s:.2f} s"
        _say(f"{name}, run {round_number}: {took}")

    measured.usages = run_interleaved([*by_name, *all_at_once], run, n_runs, tell)
    return measured


def _run_batch(night: Night) -> Usage:
    output = CACHE / "nightly" / "batch"
    shutil.rmtree(output, ignore_errors=True)
    files = [str(file) for file in (*night.crowd.files("parquet"), night.file)]
    return measure([COMMAND, "aggregate", *files, "--output", str(output), "--quiet"], LIMIT_S)


def _bytes_read(ledger: Path) -> int:
    number = int((ledger / "CURRENT").read_text())
    version = json.loads((ledger / "versions" / f"{number:06d}.json").read_text("utf-8"))
    return int(version["counts"]["ledger_bytes_read"])


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nightly", description=__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=list(LEDGERS), metavar="N", help="in the ledgers")
    parser.add_argument(
        "--nights", type=int, nargs="+", default=list(NIGHTS), metavar="N", help="on the largest ledger"
    )
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each (3)")
    warm = "nights begin at the skills of the last one; the page is left as it is"
    parser.add_argument("--warm-start", action="store_const", const=["--warm-start"], default=[], help=warm)
    options = parser.parse_args(argv)
    batches = [Night(crowd, NIGHT) for n in sorted(options.labels) for crowd in crowds_of(n)]
    largest = crowds_of(max(options.labels))
    curve = [Night(crowd, n) for crowd in largest for n in sorted({*options.nights, NIGHT})]
    nights = list(dict.fromkeys([*batches, *curve]))
    load_before = os.getloadavg()[0]
    prepare(nights)
    measured = run_all(nights, batches, options.runs, options.warm_start)
    found = nightly_report.found_of(measured.usages, measured.ledger_bytes, nights, batches)
    loads = (load_before, os.getloadavg()[0])
    nightly_report.show(found)
    if (tuple(options.labels), tuple(options.nights)) == (LEDGERS, NIGHTS) and not options.warm_start:
        nightly_report.write_page(found, options.runs, loads)
    else:
        _say("docs/nightly-benchmarks.md is left as it is: it takes the sizes that are set.")
    return 0 if nightly_report.holds(found) else 1


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
