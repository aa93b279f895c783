from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipelines import names
from pipelines.names import NameIndex

NAMES = st.lists(st.text(max_size=6), max_size=12)


def texts(values):
    return pa.array(values, pa.large_string())


@given(st.lists(NAMES, max_size=5), NAMES)
def test_names_are_numbered_in_the_order_they_appear(batches, asked):
    index, expected = NameIndex(), {}
    for batch in batches:
        for name in batch:
            expected.setdefault(name, len(expected))
        assert index.place(texts(batch)).tolist() == [expected[name] for name in batch]
    assert index.names.to_pylist() == list(expected)
    assert index.find(texts(asked)).tolist() == [expected.get(name, -1) for name in asked]


@given(NAMES, NAMES)
def test_names_with_one_hash_are_told_apart(first, second):
    with patch.object(names, "hash_texts", lambda column: np.zeros(len(column), np.uint64)):
        index = NameIndex()
        numbers = dict(zip(first, index.place(texts(first)).tolist(), strict=True))
        numbers |= dict(zip(second, index.place(texts(second)).tolist(), strict=True))
        assert sorted(numbers.values()) == list(range(len(set(first + second))))
        assert index.find(texts(first)).tolist() == [numbers[name] for name in first]


def test_thousands_of_names_are_found_again_after_every_growth():
    index, all_names = NameIndex(), [f"worker-{number}é" for number in range(6000)]
    for end in (1, 2, 700, 3000, 6000):
        assert index.place(texts(all_names[:end])).tolist() == list(range(end))
        assert index.find(texts([*all_names[::-1], "stranger"])).tolist() == [
            number if number < end else -1 for number in reversed(range(6000))
        ] + [-1]


@given(st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 2, 2**64 - 1]), min_size=1, max_size=5, unique=True))
def test_the_lowest_and_the_highest_hashes_are_found(hashes):
    known = {f"w{number}": value for number, value in enumerate(hashes)}
    asked = {**known, "other": 2**64 - 1, "another": 0, "third": 5}

    def hash_of(column):
        return np.array([asked[name] for name in column.to_pylist()], np.uint64)

    with patch.object(names, "hash_texts", hash_of):
        found = NameIndex(texts(list(known))).find(texts(list(asked)))
    assert found.tolist() == [*range(len(known)), -1, -1, -1]
