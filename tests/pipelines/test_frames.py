import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.frames import narrow, pack, pack_texts, unpack, unpack_texts

TEXTS = st.lists(st.text(max_size=30), max_size=20)


@given(TEXTS, st.integers(0, 3))
def test_texts_go_through_a_frame_unchanged_also_slices_of_them(texts, skip):
    column = pa.array(texts, pa.large_string()).slice(skip)
    frame = pack({**pack_texts("a", column), **pack_texts("b", pa.array(texts, pa.large_string()))})
    assert unpack_texts("a", unpack(frame)).to_pylist() == texts[skip:]
    assert unpack_texts("b", unpack(frame)).to_pylist() == texts


def test_texts_of_one_length_store_it_once():
    same = pack_texts("a", pa.array(["ab", "cd", "ef"], pa.large_string()))
    assert same["a.lengths"].tolist() == [2]


@pytest.mark.parametrize(("limit", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (65537, "u4"), (2**33, "i8")])
def test_codes_take_the_smallest_integers_that_hold_them(limit, dtype):
    codes = np.array([0, limit - 1])
    assert narrow(codes, limit).dtype == np.dtype(dtype)
    assert narrow(codes, limit).tolist() == codes.tolist()


def test_what_is_no_frame_is_refused():
    with pytest.raises(ValueError, match="not a frame"):
        unpack(b"PAR1 and so on")


def test_arrays_keep_type_and_content():
    arrays = {"f": np.array([1.5, np.nan]), "i": np.array([], np.int32), "u": np.arange(3, dtype=np.uint8)}
    found = unpack(pack(arrays))
    assert {name: array.dtype for name, array in found.items()} == {name: a.dtype for name, a in arrays.items()}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
