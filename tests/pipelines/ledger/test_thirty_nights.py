"""Thirty nights end where one batch of everything ends: edges to the integer, skills within 1e-6, the same answers."""

import itertools
from pathlib import Path

import pytest
from nights import (
    aggregate,
    assert_same_run,
    assert_same_scores,
    assert_same_skills,
    crowd_nights,
    ledger_command,
    nightly,
    rows_of,
    run_of,
    state_of,
    warehouse_rows,
    write_gold,
    write_nights,
)

N_NIGHTS = 30
GOLD_NIGHTS = {3: [("task-0001", "c1"), ("task-0002", "c0")], 17: [("task-0002", "c2"), ("task-0050", "c1")]}
PAIR = ("worker_a", "worker_b")
KEPT = ("--keep-versions", "40", "--shards", "5")


@pytest.fixture(scope="module")
def thirty(tmp_path_factory):
    """A folder with a ledger and a warehouse after thirty nights, the batch of all their files, and what was said."""
    folder = tmp_path_factory.mktemp("thirty")
    nights = write_nights(folder / "labels", crowd_nights(N_NIGHTS))
    gold, told = [], []
    for number, files in enumerate(nights, 1):
        new = []
        if number in GOLD_NIGHTS:
            new = ["--gold", write_gold(folder / f"gold-{number}.csv", GOLD_NIGHTS[number])]
        gold += new
        told.append(nightly(folder / "ledger", files, *KEPT, *new, "--output", f"duckdb:{folder}/crowd.duckdb"))
    aggregate(folder / "batch", itertools.chain(*nights), *gold)
    return folder, nights, gold, told


def test_the_nights_hold_what_they_should(thirty):
    """Corrections, withdrawals, duplicates; and each night tells only of what it changed."""
    *_, told = thirty
    counts = [one["counts"] for one in told]
    total = {name: sum(one.get(name, 0) for one in counts) for name in counts[-1]}
    assert total["labels_read"] == total["labels_used"] + total["labels_repeated"] + total["labels_withdrawn"]
    assert min(total["labels_repeated"], total["labels_withdrawn"]) > 50
    assert all(0 < one["scores"] < 150 for one in counts[1:])
    assert [one["ledger_version"] for one in told] == list(range(1, N_NIGHTS + 1))


def test_the_warehouse_holds_the_batch_s_pairs_and_skills_and_who_labelled_what(thirty):
    folder, nights, _, _ = thirty
    path, batch = folder / "crowd.duckdb", folder / "batch"
    assert warehouse_rows(path, "edges", PAIR) == rows_of(batch, "edges", PAIR)
    assert_same_skills(warehouse_rows(path, "skills", "worker"), rows_of(batch, "skills", "worker"))
    found, expected = warehouse_rows(path, "scores", "task"), rows_of(batch, "scores", "task")
    assert found.keys() == expected.keys()
    assert "task-gone" not in found
    for name in ("n_labels", "n_workers"):
        assert {task: row[name] for task, row in found.items()} == {task: row[name] for task, row in expected.items()}
    touched = {line.split(",")[0] for file in nights[-1] for line in Path(file).read_text("utf-8").splitlines()}
    touched &= expected.keys()
    assert len(touched) > 5
    assert_same_scores({task: found[task] for task in touched}, {task: expected[task] for task in touched})


def test_the_version_after_the_last_night_is_sound(thirty):
    assert ledger_command("verify", thirty[0] / "ledger") == {"sound": True, "version": N_NIGHTS}


def test_one_night_of_everything_leaves_the_same_labels_and_counts(thirty, tmp_path):
    folder, nights, gold, _ = thirty
    nightly(tmp_path / "one", itertools.chain(*nights), *gold, "--shards", "3")
    assert state_of(tmp_path / "one") == state_of(folder / "ledger")


def test_the_last_night_with_all_answers_anew_is_the_batch(thirty, tmp_path):
    """The night is run again after going back, this time with --rescore all; the warehouse follows."""
    folder, nights, _, _ = thirty
    ledger_command("rollback", folder / "ledger", "--to", N_NIGHTS - 1, "--keep-versions", "40")
    to = f"duckdb:{folder}/crowd.duckdb"
    told = nightly(folder / "ledger", nights[-1], *KEPT, "--rescore", "all", "--output", to)
    assert told["ledger_version"] == N_NIGHTS + 2
    assert told["counts"]["scores"] == len(rows_of(folder / "batch", "scores", "task"))
    assert_same_run(run_of(folder / "ledger"), folder / "batch")
    found = warehouse_rows(folder / "crowd.duckdb", "scores", "task")
    assert_same_scores(found, rows_of(folder / "batch", "scores", "task"))
