"""The example of hourly reports: right in one process, and the same on Flink and Prism."""

import csv
import datetime
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import write_rows
from oracle import aggregated

from crowdcore.simulate import simulate_crowd

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))
import hourly_reports  # noqa: E402 - an example is no package

NINE = datetime.datetime(2026, 3, 1, 9, tzinfo=datetime.timezone.utc)
HOURS = {"2026-03-01T09": 1, "2026-03-01T10": 2, "2026-03-01T12": 3}


def rows_of(hour):
    """(task, worker, label) of an hour, from a crowd of its own."""
    crowd = simulate_crowd(n_tasks=50, n_workers=8, labels_per_task=4, rng=np.random.default_rng(HOURS[hour]))
    codes = zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
    return [(f"t{task}", f"w{worker}", "yes" if label else "no") for task, worker, label in codes]


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """The labels of three hours, in no order of time."""
    rows = []
    for hour in HOURS:
        begin = datetime.datetime.fromisoformat(f"{hour}:00:00+00:00")
        times = [(begin + datetime.timedelta(seconds=16 * k)).isoformat() for k in range(200)]
        rows += [(*row, time) for row, time in zip(rows_of(hour), times, strict=True)]
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    return write_rows(path, ("task", "worker", "label", "time"), rows[::-1])


def reports(labels, folder, *beam_args):
    hourly_reports.main([str(labels), str(folder), *beam_args])
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


@pytest.fixture(scope="module")
def expected(labels, tmp_path_factory):
    return reports(labels, tmp_path_factory.mktemp("reports"))


def test_every_hour_is_a_crowd_of_its_own(expected):
    assert sorted(expected) == sorted(f"{hour}-{name}.csv" for hour in HOURS for name in ("scores", "skills"))
    for hour in HOURS:
        scores, skills = aggregated([(*row, 0) for row in rows_of(hour)])
        found = list(csv.DictReader(expected[f"{hour}-scores.csv"].splitlines()))
        assert {row["task"]: (row["label"], float(row["probability"])) for row in found} == {
            task: (label, probability) for task, (label, probability, *_) in scores.items()
        }
        found = list(csv.DictReader(expected[f"{hour}-skills.csv"].splitlines()))
        assert {row["worker"]: float(row["skill"]) for row in found} == {w: skill for w, (skill, *_) in skills.items()}


def test_flink_gives_the_same_reports(flink, labels, expected, tmp_path):
    assert reports(labels, tmp_path / "reports", *flink.beam_args()) == expected


def test_prism_gives_the_same_reports(prism, labels, expected, tmp_path):
    assert reports(labels, tmp_path / "reports", *prism.beam_args()) == expected
