"""Nights of a ledger, loaded one after the other: the current state is that of one batch over everything."""

import pytest
from command_line import crowd_rows, run_command, write_rows
from test_warehouses import WAREHOUSES

from pipelines import nightly
from pipelines.ledger.night_settings import NightSettings
from pipelines.settings import BatchSettings

HEADER = ("task", "worker", "label", "time", "op")
ROWS = crowd_rows(labels_per_task=4)


def nights():
    """Labels of three nights: in the second some are corrected, in the third all of one worker and one task go."""
    first = [(*row, 1, "label") for row in ROWS[:140]]
    second = [(task, worker, "c0", 2, "label") for task, worker, _ in ROWS[:30]] + [
        (*row, 2, "label") for row in ROWS[140:]
    ]
    task, worker = ROWS[50][0], ROWS[50][1]
    gone = sorted({row[:2] for row in ROWS if row[0] == task or row[1] == worker})
    return first, second, [(*pair, "", 3, "delete") for pair in gone]


@pytest.mark.parametrize("kind", WAREHOUSES)
def test_the_current_state_after_three_nights_is_that_of_one_batch(kind, tmp_path, request):
    place = WAREHOUSES[kind](tmp_path, request)
    for number, rows in enumerate(nights()):
        labels = write_rows(tmp_path / f"night-{number}.csv", HEADER, rows)
        settings = NightSettings(BatchSettings((str(labels),), ""), str(tmp_path / "ledger"), outputs=(place.address,))
        for _ in range(2):  # a night that is run again changes nothing
            nightly.run(settings)
        assert len(place.rows("runs")) == number + 1
    files = sorted(tmp_path.glob("night-*.csv"))
    done = run_command("aggregate", *files, "--output", tmp_path / "run", folder=tmp_path / "run")
    assert done.code == 0, done.err
    for name, keys, exact in (
        ("scores", ("task",), ("n_workers",)),
        ("skills", ("worker",), ("n_labels", "n_peers")),
        ("edges", ("worker_a", "worker_b"), ("n_common", "n_agree")),
        ("graph", ("component",), ("n_workers", "n_edges", "n_labels", "identified")),
    ):
        expected = {tuple(row[one] for one in keys): [row[one] for one in exact] for row in done.rows(name)}
        assert {tuple(row[one] for one in keys): [row[one] for one in exact] for row in place.rows(name)} == expected
    skills = done.column("skills", "worker", "skill")
    assert {row["worker"]: row["skill"] for row in place.rows("skills")} == pytest.approx(skills, abs=1e-6)
    assert [row["version"] for row in sorted(place.rows("runs"), key=lambda row: row["loaded_at_us"])] == [1, 2, 3]
