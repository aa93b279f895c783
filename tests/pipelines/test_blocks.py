import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipelines.blocks import LabelBlock, hash_texts, shard_of, split_block

IDS = st.lists(st.text(max_size=40), min_size=1, max_size=30)


def texts(values):
    return pa.array(values, pa.large_string())


def block_of(rows, source=0, sequence=0, times=None):
    """A block of (task, worker, label) rows."""
    task, worker, label = (list(column) for column in zip(*rows, strict=True))
    workers, classes = sorted(set(worker)), sorted(set(label))
    return LabelBlock(
        source,
        sequence,
        texts(task),
        np.array([workers.index(name) for name in worker]),
        texts(workers),
        np.array([classes.index(name) for name in label]),
        texts(classes),
        None if times is None else np.array(times, np.int64),
        "labels.csv",
    )


def rows_of(block):
    workers, classes = block.workers.to_pylist(), block.classes.to_pylist()
    labels = [classes[code] for code in block.label]
    return list(zip(block.task.to_pylist(), [workers[code] for code in block.worker], labels, strict=True))


@given(IDS)
def test_the_hash_of_an_id_does_not_depend_on_the_ids_beside_it(ids):
    together = hash_texts(texts(ids))
    assert [hash_texts(texts([one]))[0] for one in ids] == together.tolist()
    assert hash_texts(texts(["a long id before all others", *ids]).slice(1)).tolist() == together.tolist()


@given(st.lists(st.text(max_size=40), unique=True, max_size=30))
def test_different_ids_have_different_hashes(ids):
    assert len(set(hash_texts(texts(ids)).tolist())) == len(ids)


def test_ids_that_differ_in_trailing_zero_bytes_have_different_hashes():
    ids = ["a", "a\0", "a\0\0", "", "\0", "12345678", "12345678\0"]
    assert len(set(hash_texts(texts(ids)).tolist())) == len(ids)


def test_another_process_finds_the_same_shards():
    program = (
        "import pyarrow as pa; from pipelines.blocks import shard_of;"
        "print(shard_of(pa.array([f't{n}é' for n in range(50)], pa.large_string()), 7).tolist())"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == str(shard_of(texts([f"t{n}é" for n in range(50)]), 7).tolist())


def test_shards_are_of_about_one_size():
    counts = np.bincount(shard_of(texts([f"task-{n}" for n in range(64_000)]), 64), minlength=64)
    assert counts.min() > 1000 - 6 * 1000**0.5
    assert counts.max() < 1000 + 6 * 1000**0.5


ROWS = st.lists(st.tuples(st.text(max_size=12), st.text(max_size=5), st.sampled_from("xyz")), min_size=1, max_size=40)


@given(ROWS, st.integers(1, 9), st.booleans())
def test_splitting_keeps_every_label_its_time_and_their_order(rows, shards, timed):
    times = list(range(len(rows))) if timed else None
    parts = dict(split_block(block_of(rows, times=times), shards))
    expected = {}
    for number, row in enumerate(rows):
        expected.setdefault(int(shard_of(texts([row[0]]), shards)[0]), []).append((row, number))
    found = {}
    for number, part in parts.items():
        again = LabelBlock.from_bytes(part.to_bytes())
        found[number] = rows_of(again)
        assert (again.source, again.sequence, again.path) == (0, 0, "labels.csv")
        assert (again.time is None) if not timed else again.time.tolist() == [at for _, at in expected[number]]
    assert found == {number: [row for row, _ in kept] for number, kept in expected.items()}


def test_a_part_carries_only_its_own_workers_when_there_are_many():
    rows = [(f"t{n}", f"w{n}", "x") for n in range(5000)]
    parts = dict(split_block(block_of(rows), 10))
    assert sum(len(part.workers) for part in parts.values()) == 5000
    assert sorted(row for part in parts.values() for row in rows_of(part)) == sorted(rows)


@given(ROWS, st.integers(1, 9), st.data())
def test_splitting_keeps_the_workers_of_labels_with_an_entry_each(rows, shards, data):
    """As `codes_of` makes them: an entry a label, less those left out later."""
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1)))
    whole, few = block_of(rows), block_of([rows[number] for number in kept])
    spelled_out = replace(few, worker=np.array(kept), workers=whole.workers.take(pa.array(whole.worker)))
    for (number, part), (same_number, same) in zip(
        split_block(spelled_out, shards), split_block(few, shards), strict=True
    ):
        assert number == same_number
        assert rows_of(LabelBlock.from_bytes(part.to_bytes())) == rows_of(same)
