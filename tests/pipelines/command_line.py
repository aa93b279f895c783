"""`crowdbeam` run in this process, and what it left behind."""

import contextlib
import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crowdcore.simulate import simulate_crowd
from pipelines.cli import main
from pipelines.run_tables import read_table


@dataclass(frozen=True)
class Run:
    """An exit code, what was printed, and the folder given as --output."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def manifest(self):
        return json.loads((self.folder / "manifest.json").read_text("utf-8"))

    def rows(self, table):
        return read_table(str(self.folder), table).to_pylist(maps_as_pydicts="strict")

    def column(self, table, key, name):
        """{key: value} of two columns of a table."""
        return {row[key]: row[name] for row in self.rows(table)}

    def files(self, table):
        return sorted(path.name for path in (self.folder / table).iterdir())


def run_command(*argv, folder="."):
    """Runs `crowdbeam` with the arguments."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in argv])
    return Run(code, out.getvalue(), err.getvalue(), Path(folder))


def write_rows(path, header, rows):
    """A CSV file; the path is returned."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def crowd_rows(n_classes=3, n_tasks=60, labels_per_task=3):
    """(task, worker, label) of nine workers, a third of whom guess."""
    crowd = simulate_crowd(
        n_tasks=n_tasks,
        n_workers=9,
        labels_per_task=labels_per_task,
        n_classes=n_classes,
        skills="hammer-spammer:0.33",
        rng=np.random.default_rng(5),
    )
    codes = zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    return [(f"t{task:02d}", f"w{worker}", f"c{label}") for task, worker, label in codes]
