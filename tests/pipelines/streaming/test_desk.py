"""What the status of a stream says of workers."""

import random

from stages import TRIANGLE, Keeping, change

from pipelines.streaming.envelopes import DRAIN, Marker, pack_marker


def worst_of(tmp_path, *events):
    keeping = Keeping(tmp_path)
    keeping(change(0, *events))
    keeping(*(pack_marker(Marker(DRAIN, "d", sender=shard)) for shard in (0, 1)))
    keeping.ticks_until_drained()
    return keeping.control.status()["worst_workers"]


def crowd(n_tasks, accuracy_of):
    random.seed(7)
    truth = [random.random() < 0.5 for _ in range(n_tasks)]
    right = [(n, worker, random.random() < p) for n in range(n_tasks) for worker, p in accuracy_of.items()]
    return [(f"t{n}", worker, "yes" if truth[n] == told else "no", 1) for n, worker, told in right]


def test_workers_who_are_excellent_or_unknown_are_not_among_the_worst(tmp_path):
    alone = [("far", "eve", "yes", 1), ("far", "fay", "no", 1), ("farther", "gil", "no", 1)]
    assert worst_of(tmp_path, *TRIANGLE, *alone) == []


def test_workers_whose_skill_is_surely_low_are_told_worst_first_and_five_at_most(tmp_path):
    good = {f"good-{n}": 0.95 for n in range(8)}
    poor = {f"poor-{n}": 0.1 + 0.05 * n for n in range(7)}
    found = worst_of(tmp_path, *crowd(400, good | dict(list(poor.items())[-2:])))
    assert [row["worker"] for row in found] == ["poor-5", "poor-6"]
    assert found[0].keys() == {"worker", "skill", "skill_high", "n_labels"}
    assert all(row["skill"] < row["skill_high"] < 0.5 and row["n_labels"] == 400 for row in found)
    (tmp_path / "many").mkdir()
    many = worst_of(tmp_path / "many", *crowd(400, good | poor))
    assert len(many) == 5
    highs = [row["skill_high"] for row in many]
    assert highs == sorted(highs)
