"""Labels with times into hourly reports: who was good in which hour, and what the answers of that hour are.

    python examples/hourly_reports.py labels.csv reports --wait-minutes 10

The labels are a CSV file with columns task, worker, label and time (ISO 8601). Each hour is a crowd of its own and
becomes ``reports/2026-03-01T09-scores.csv`` and ``...-skills.csv``. Any Beam option may be added, for example a runner.
"""

import argparse
import csv
import datetime
import os
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

from pipelines.aggregate import AggregateLabels
from pipelines.runners import options_of
from pipelines.windows import WindowLabels

COLUMNS = {
    "scores": ("task", "label", "probability", "n_workers", "status"),
    "skills": ("worker", "skill", "skill_low", "skill_high", "n_labels", "status"),
}


def build(pipeline: beam.Pipeline, labels: str, reports: str, wait_s: float) -> None:
    """The road: read, put into hours, aggregate, write."""
    hours = WindowLabels(size_s=3600, wait_s=wait_s)
    rows = pipeline | "ListFile" >> beam.Create([labels]) | "ReadRows" >> beam.FlatMap(read_rows)
    found = rows | "ByHour" >> hours | "Aggregate" >> AggregateLabels()
    for name in COLUMNS:
        keyed = found[name] | f"ToTuples{name}" >> beam.Map(to_tuple, COLUMNS[name])
        _ = (
            keyed
            | f"Gather{name}" >> beam.GroupByKey()
            | f"Write{name}" >> beam.Map(write_report, name, reports, hours)
        )


def read_rows(path: str) -> Iterable[TimestampedValue]:
    """The rows of a CSV file, each at its time."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            time = datetime.datetime.fromisoformat(row["time"])
            if time.tzinfo is None:
                time = time.replace(tzinfo=datetime.timezone.utc)
            yield TimestampedValue(row, time.timestamp())


def to_tuple(row: Any, columns: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    """The row's values, under one key: those of a window come together."""
    return "", tuple(getattr(row, column) for column in columns)


def write_report(
    gathered: tuple[str, Iterable[tuple[Any, ...]]],
    name: str,
    folder: str,
    hours: WindowLabels,
    window: Any = beam.DoFn.WindowParam,
) -> str:
    """Writes the rows of an hour, sorted; a report appears whole or not at all."""
    begin, _ = hours.interval_of(window)
    path = os.path.join(folder, f"{begin.to_utc_datetime():%Y-%m-%dT%H}-{name}.csv")
    os.makedirs(folder, exist_ok=True)
    with open(f"{path}.tmp", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS[name], *sorted(gathered[1])])
    os.replace(f"{path}.tmp", path)
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", help="CSV file with columns task, worker, label, time")
    parser.add_argument("reports", help="folder for the reports")
    parser.add_argument("--wait-minutes", type=float, default=10, help="how long an hour waits for late labels")
    args, beam_args = parser.parse_known_args(argv)
    with beam.Pipeline(options=options_of(beam_args)) as pipeline:
        build(pipeline, os.path.abspath(args.labels), os.path.abspath(args.reports), 60 * args.wait_minutes)


if __name__ == "__main__":
    main()
