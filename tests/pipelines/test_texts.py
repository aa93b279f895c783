"""Values become texts, and times integers, by the value alone: never by its column's other values or type details."""

import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.texts import MAX_BYTES, MISSING, NOT_UTF8, OK, TOO_LONG, codes_of, column_of, text_of, texts_of

DAY = date(2024, 1, 2)
MOMENT = datetime(2024, 1, 2, 3, 4, 5)
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")

COLUMNS = {
    "text": (pa.array(["a", " b ", "é,\n\"'😀", "true"]), ["a", " b ", "é,\n\"'😀", "true"]),
    "large text": (pa.array(["a"], pa.large_string()), ["a"]),
    "text view": (pa.array(["a", "b" * 40], pa.string_view()), ["a", "b" * 40]),
    "bytes": (pa.array(["é".encode()], pa.binary()), ["é"]),
    "bytes view": (pa.array([b"a"], pa.binary_view()), ["a"]),
    "bytes of one size": (pa.array([b"ab", b"cd"], pa.binary(2)), ["ab", "cd"]),
    "int8": (pa.array([1, -1], pa.int8()), ["1", "-1"]),
    "int64": (pa.array([0, 2**63 - 1, -(2**63)]), ["0", "9223372036854775807", "-9223372036854775808"]),
    "uint64": (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
    "float": (pa.array([1.0, 0.5, -0.0, 1e22, 2.0**53, 1e-7]), ["1", "0.5", "0", "1e+22", "9007199254740992", "1e-07"]),
    "whole floats": (pa.array([3.0, 1e18]), ["3", "1000000000000000000"]),
    "infinity": (pa.array([float("inf"), 1.0]), ["inf", "1"]),
    "float32": (pa.array([0.1, 2.0], pa.float32()), ["0.1", "2"]),
    "float16": (pa.array(np.array([0.1, 2.0], np.float16)), ["0.1", "2"]),
    "bool": (pa.array([True, False]), ["true", "false"]),
    "decimal": (pa.array([Decimal("1.50"), Decimal("100")], pa.decimal128(10, 2)), ["1.5", "100"]),
    "tiny decimal": (pa.array([Decimal("1E-7"), Decimal(10)], pa.decimal128(20, 8)), ["0.0000001", "10"]),
    "whole decimal": (pa.array([Decimal(100)], pa.decimal256(40, 0)), ["100"]),
    "date": (pa.array([DAY]), ["2024-01-02"]),
    "date64": (pa.array([DAY], pa.date64()), ["2024-01-02"]),
    "seconds": (pa.array([MOMENT], pa.timestamp("s")), ["2024-01-02 03:04:05"]),
    "milliseconds": (pa.array([MOMENT], pa.timestamp("ms")), ["2024-01-02 03:04:05"]),
    "nanoseconds": (pa.array([1_500_000_000], pa.timestamp("ns")), ["1970-01-01 00:00:01.5"]),
    "UTC": (pa.array([MOMENT], pa.timestamp("us", "UTC")), ["2024-01-02 03:04:05Z"]),
    "time of day": (pa.array([time(1, 20)]), ["01:20:00"]),
    "category": (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    "category of integers": (pa.array([7, 8]).dictionary_encode(), ["7", "8"]),
    "list": (pa.array([[1, 2]]), ["[1, 2]"]),
    "struct": (pa.array([{"a": "é", "b": None}]), ['{"a": "é", "b": null}']),
    "uuid": (pa.array([UUID.bytes], pa.uuid()), [str(UUID)]),
    "run ends": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_becomes_text(name):
    column, expected = COLUMNS[name]
    texts, flags = texts_of(column)
    assert texts.type == pa.large_string()
    assert texts.to_pylist() == expected
    assert flags.tolist() == [OK] * len(expected)


@pytest.mark.parametrize("name", COLUMNS)
def test_codes_stand_for_the_same_texts(name):
    column, expected = COLUMNS[name]
    codes, dictionary, flags = codes_of(column)
    assert dictionary.take(pa.array(codes)).to_pylist() == expected
    assert len(set(dictionary.to_pylist())) == len(dictionary)
    assert flags.tolist() == [OK] * len(expected)


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - {"run ends"}))
def test_null_is_missing_in_every_type(name):
    column, expected = COLUMNS[name]
    column = pa.concat_arrays([pa.nulls(1, column.type), column.slice(0, 1)])
    assert texts_of(column)[0].to_pylist() == ["", expected[0]]
    assert texts_of(column)[1].tolist() == [MISSING, OK]
    codes, dictionary, flags = codes_of(column)
    assert flags.tolist() == [MISSING, OK]
    assert dictionary[int(codes[1])].as_py() == expected[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (1, "1"),
        (10**30, str(10**30)),
        (1.0, "1"),
        (np.float32(0.1), "0.1"),
        (np.int32(3), "3"),
        (True, "true"),
        (np.bool_(False), "false"),
        (float("nan"), None),
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), None),
        (DAY, "2024-01-02"),
        (MOMENT, "2024-01-02 03:04:05"),
        (MOMENT.replace(tzinfo=timezone.utc), "2024-01-02 03:04:05Z"),
        (MOMENT.replace(tzinfo=timezone(timedelta(hours=2))), "2024-01-02 03:04:05+0200"),
        (UUID, str(UUID)),
        (b"\xc3\xa9", "é"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
    ],
)
def test_a_python_value_has_the_text_its_column_would_give(value, text):
    assert text_of(value) == text


@given(st.lists(st.none() | st.text() | st.integers() | st.floats() | st.booleans(), max_size=8))
def test_a_value_s_text_does_not_depend_on_its_neighbours(values):
    together, flags = texts_of(column_of(values))
    alone = [texts_of(column_of([value])) for value in values]
    assert together.to_pylist() == [texts[0].as_py() for texts, _ in alone]
    assert flags.tolist() == [int(flag[0]) for _, flag in alone]


@given(st.lists(st.floats() | st.none(), max_size=8))
def test_a_float_s_text_is_the_same_in_a_column_and_alone(values):
    expected = [text_of(value) or "" for value in values]
    assert texts_of(pa.array(values, pa.float64()))[0].to_pylist() == expected


def test_what_is_wrong_is_flagged_and_a_dictionary_holds_no_wrong_text():
    values = [b"a", b"", None, b"\xff", b"x" * (MAX_BYTES + 1), b"x" * MAX_BYTES, b"\xed\xa0\x80"]
    expected = [OK, MISSING, MISSING, NOT_UTF8, TOO_LONG, OK, NOT_UTF8]
    assert texts_of(pa.array(values, pa.binary()))[1].tolist() == expected
    codes, dictionary, flags = codes_of(pa.array(values, pa.binary()))
    assert flags.tolist() == expected
    assert dictionary.to_pylist() == ["a", "x" * MAX_BYTES]
    assert [int(codes[place]) for place in (0, 5)] == [0, 1]


def test_text_columns_are_checked_for_utf8_as_readers_do_not():
    offsets, data = pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")
    invalid = pa.StringArray.from_buffers(2, offsets, data)
    assert texts_of(invalid)[1].tolist() == [OK, NOT_UTF8]
    assert codes_of(invalid)[2].tolist() == [OK, NOT_UTF8]
    assert codes_of(invalid.dictionary_encode())[2].tolist() == [OK, NOT_UTF8]


def test_length_is_counted_in_bytes():
    just_right, too_long = "é" * (MAX_BYTES // 2), "é" * (MAX_BYTES // 2 + 1)
    assert texts_of(pa.array([just_right, too_long]))[1].tolist() == [OK, TOO_LONG]


def test_lone_surrogates_are_not_merged_into_one_id():
    assert texts_of(column_of(["\ud800", "\udc80", "?"]))[1].tolist() == [NOT_UTF8, NOT_UTF8, OK]


def test_nan_is_missing():
    assert texts_of(pa.array([float("nan"), 1.5]))[1].tolist() == [MISSING, OK]
    assert codes_of(pa.array([float("nan"), 1.5], pa.float32()))[2].tolist() == [MISSING, OK]


@pytest.mark.parametrize("column", [pa.nulls(2), pa.array([], pa.string()), pa.array([None], pa.int64())])
def test_columns_without_any_value_give_flags_only(column):
    codes, dictionary, flags = codes_of(column)
    assert dictionary.to_pylist() == [""]
    assert codes.tolist() == [0] * len(column)
    assert flags.tolist() == texts_of(column)[1].tolist() == [MISSING] * len(column)


def test_a_category_that_no_row_has_leaves_no_empty_worker_behind():
    column = pa.DictionaryArray.from_arrays(pa.array([2, 2, 0]), pa.array(["b", "", "a", "b"]))
    codes, dictionary, flags = codes_of(column)
    assert "" not in dictionary.to_pylist()
    assert dictionary.take(pa.array(codes)).to_pylist() == ["a", "a", "b"]
    assert not flags.any()


def test_values_of_one_text_have_one_code():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array([1.0, -0.0, 0.0]))
    codes, dictionary, _ = codes_of(column)
    assert dictionary.take(pa.array(codes)).to_pylist() == ["1", "0", "0"]
    assert codes[1] == codes[2]


def codes_and_texts(values, kind=None):
    codes, dictionary, flags = codes_of(pa.array(values, kind or pa.string()))
    return len(dictionary), dictionary.take(pa.array(codes)).to_pylist(), flags


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_texts_that_hardly_repeat_are_the_same_texts(kind):
    values = [f"w{n}" for n in range(20_000)] + ["w7", "é"]
    _, found, flags = codes_and_texts(values, kind)
    assert found == values
    assert not flags.any()


def test_only_texts_that_repeat_are_sought_for_their_repeats():
    assert codes_and_texts([f"w{n}" for n in range(20_000)] * 2)[0] == 40_000
    assert codes_and_texts([f"w{n % 10_000}" for n in range(20_000)])[0] == 10_000
    assert codes_and_texts([f"w{n}" for n in range(10_000)] * 2)[0] == 10_000


@pytest.mark.parametrize(("wrong", "flag"), [(None, MISSING), ("", MISSING), ("x" * (MAX_BYTES + 1), TOO_LONG)])
def test_no_wrong_text_is_in_a_dictionary_of_texts_that_hardly_repeat(wrong, flag):
    values = [f"w{n}" for n in range(20_000)]
    size, _, flags = codes_and_texts([*values, wrong])
    assert size == 20_000
    assert flags.tolist() == [OK] * 20_000 + [flag]
