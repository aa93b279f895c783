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
