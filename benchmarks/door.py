"""`python -m benchmarks.door [--runs 3] [--quick]`: estimators on a pandas frame beside crowd-kit's.

Writes docs/python-benchmarks.md. Ends with 1 if a bar is missed or a program fails.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import CACHE, ROOT, environment
from benchmarks.data import Crowd, make_data
from benchmarks.measure import Median, Usage, measure, median_of, run_interleaved
from benchmarks.report import as_markdown, as_text

PAGE = ROOT / "docs" / "python-benchmarks.md"
LIMIT_S = 600.0
HERE, THERE = "crowdcore.estimators", "crowdkit.aggregation"
FRAME, PGD, DS, KIT_DS = (
    "the frame alone",
    "crowdcore ProjectedGradient",
    "crowdcore DawidSkene",
    "crowd-kit DawidSkene",
)
PROGRAMS = {
    FRAME: (sys.executable,),
    KIT_DS: (str(environment.PYTHON), THERE, "DawidSkene"),
    PGD: (sys.executable, HERE, "ProjectedGradient"),
    DS: (sys.executable, HERE, "DawidSkene"),
    "crowd-kit MajorityVote": (str(environment.PYTHON), THERE, "MajorityVote"),
    "crowdcore MajorityVote": (sys.executable, HERE, "MajorityVote"),
}


@dataclass(frozen=True)
class Bar:
    """What must hold: `value` is at most `limit`, or below it."""

    text: str
    value: float
    limit: float
    below: bool = False

    @property
    def holds(self) -> bool:
        return self.value < self.limit if self.below else self.value <= self.limit

    def row(self) -> list[str]:
        sign = "<" if self.below else "≤"
        return [self.text, f"{sign} {self.limit:g} ×", f"{self.value:.2f} ×", "PASS" if self.holds else "MISS"]


def main(argv: list[str]) -> int:
    """Measures, prints, writes the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.door", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each program (3)")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the labels: tries the benchmark itself")
    options = parser.parse_args(argv)
    environment.make_environment()
    crowd = Crowd(200_000 // (20 if options.quick else 1), 2_000)
    files = _make_frame(crowd)
    usages = run_interleaved(list(PROGRAMS), lambda name: _run(name, files), options.runs, _tell)
    medians = {name: median_of(runs) for name, runs in usages.items()}
    if any(median is None for median in medians.values()):
        print("a program failed or was stopped, so the page is left as it is")
        return 1
    found = {name: median for name, median in medians.items() if median is not None}
    rows, bars = _rows(usages, found), _bars(found)
    verdicts = [["what", "bar", "measured", "verdict"], *(bar.row() for bar in bars)]
    print(f"\n{as_text(rows)}\n\n{as_text(verdicts)}\n")
    if not options.quick:
        machine = f"Python {sys.version.split()[0]}, pandas {version('pandas')}, numpy {version('numpy')}"
        kit = environment.versions_there(["crowd-kit", "pandas", "numpy"])
        there = ", ".join(f"{name} {number}" for name, number in kit.items())
        text = TEXT.format(
            n_runs=options.runs, machine=machine, there=there, rows=as_markdown(rows), bars=as_markdown(verdicts)
        )
        PAGE.write_text(text, encoding="utf-8")
        print("wrote docs/python-benchmarks.md")
    return 0 if all(bar.holds for bar in bars) else 1


def _make_frame(crowd: Crowd) -> tuple[Path, Path]:
    """One file of labels, all strings, and the truth; made once."""
    make_data(crowd, "parquet")
    folder = CACHE / "door" / crowd.folder.name
    labels, truth = folder / "labels.parquet", folder / "truth.parquet"
    if not truth.exists():
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.concat_tables([pq.read_table(file) for file in crowd.files("parquet")])
        _write(table, labels)
        _write(pq.read_table(crowd.truth), truth)
    return labels, truth


def _write(table: pa.Table, path: Path) -> None:
    words = pa.array(["no", "yes"]).take(pc.cast(table.column("label"), pa.int64()).combine_chunks())
    pq.write_table(table.set_column(table.schema.get_field_index("label"), "label", words), path)


def _run(name: str, files: tuple[Path, Path]) -> Usage:
    python, *estimator = PROGRAMS[name]
    return measure([python, "-m", "benchmarks.door_job", *map(str, files), *estimator], LIMIT_S)


def _tell(name: str, round_number: int, usage: Usage) -> None:
    end = f"FAILED\n{usage.output}" if usage.failed else f"{usage.wall_s:.2f} s, {usage.memory_mb:,.0f} MB"
    print(f"{name}, run {round_number}: {end}", flush=True)


def _rows(usages: Mapping[str, Sequence[Usage]], medians: Mapping[str, Median]) -> list[list[str]]:
    rows = [["program", "wall", "of it fitting", "processor", "peak memory", "beyond the frame", "wrong answers"]]
    for name, median in medians.items():
        printed = [json.loads(run.output.splitlines()[-1]) if run.output else {} for run in usages[name]]
        fit = f"{statistics.median(each['fit_s'] for each in printed):.2f} s" if printed[0] else ""
        error = f"{printed[0]['error']:.4f}" if printed[0] else ""
        beyond = f"{median.memory_mb - medians[FRAME].memory_mb:,.0f} MB"
        times = [f"{median.wall_s:.2f} s", fit, f"{median.cpu_s:.2f} s"]
        rows.append([name, *times, f"{median.memory_mb:,.0f} MB", beyond, error])
    return rows


def _bars(medians: Mapping[str, Median]) -> list[Bar]:
    ours, kit, base = medians[PGD], medians[KIT_DS], medians[FRAME].memory_mb
    beside = "crowd-kit's DawidSkene"
    return [
        Bar(f"ProjectedGradient: wall beside {beside}", ours.wall_s / kit.wall_s, 1.0, below=True),
        Bar(
            f"ProjectedGradient: memory beyond the frame beside {beside}",
            (ours.memory_mb - base) / (kit.memory_mb - base),
            0.5,
        ),
        Bar(f"DawidSkene: wall beside {beside}", medians[DS].wall_s / kit.wall_s, 1.0),
    ]


TEXT = """# The Python door, measured

Written by `python -m benchmarks.door`; do not edit.

{machine}. crowd-kit in its own environment: {there}.
1M labels in a pandas frame of strings: 200,000 tasks of five labels, 2,000 workers any of whom may meet, two classes.
Every program is a process of its own that reads the frame from one Parquet file and calls `fit_predict` once with
default settings. Medians of {n_runs} runs, interleaved, start of the interpreter and imports included.

"Beyond the frame" is the peak of the process less that of one that only imports pandas and reads the frame: what the
library itself takes, its imports included. That is what the bar on memory compares; the peaks beside it have Python,
pandas, Arrow and the frame in common, which is more than either library adds.

{bars}

{rows}
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
