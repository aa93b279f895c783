"""JSON lines: mixed types, wrong lines and blank ones; positions count lines."""

import json
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_files import FILES
from source_files import (
    NAMES,
    jsonl_bytes,
    read,
    write,
)

from pipelines.sources import jsonl
from pipelines.texts import column_of, texts_of


def test_json_positions_count_lines_blank_ones_included(tmp_path, small):
    lines, good, bad = [], {}, []
    for number in range(120):
        if number % 10 == 2:
            lines.append(" " * (number % 3))
        elif number % 10 == 5:
            lines.append("not json")
            bad.append((number, "malformed-record", "not json"))
        else:
            lines.append(json.dumps({"task": f"t{number}", "worker": "w", "label": "l"}) + "\r" * (number % 2))
            good[number] = (f"t{number}", "w", "l")
    assert read(write(tmp_path, "x.jsonl", "\n".join(lines).encode())) == (good, bad)


MIXED = [1, "1", True, 1.0, None, {"a": 1}, 1.5, "é", [1], 2**70, -0.0, False, 1e300, float("nan")]
MIXED_TEXTS = ["1", "1", "true", "1", "", '{"a": 1}', "1.5", "é", "[1]", str(2**70), "0", "false", "1e+300", ""]


@pytest.mark.parametrize("first", range(len(MIXED)))
def test_json_values_of_mixed_types_have_their_own_texts_whatever_came_first(tmp_path, first):
    order = [*range(first, len(MIXED)), *range(first)]
    lines = [json.dumps({"task": "t", "worker": "w", "label": MIXED[place]}) for place in order]
    path = write(tmp_path, "x.jsonl", "\n".join(lines).encode())
    assert read(path)[0] == {at: ("t", "w", MIXED_TEXTS[place]) for at, place in enumerate(order)}


@pytest.mark.parametrize(
    "values", [[1, 2], [1.5, 2], [0.1, 1e22], [True, False], ["a", None], [None, "a"], [2**53 + 1, 0.5]]
)
def test_json_read_at_once_and_line_by_line_give_the_same(tmp_path, values):
    rows = [{"task": "t", "worker": "w", "label": value, "more": {"deep": [1]}} for value in values]
    at_once = "\n".join(json.dumps(row) for row in rows).encode()
    by_line = at_once + b"\n\n" + b"no json"
    assert read(write(tmp_path, "x.jsonl", at_once))[0] == read(write(tmp_path, "y.jsonl", by_line))[0]


def test_json_keys_that_are_missing_or_null_are_empty(tmp_path):
    path = write(tmp_path, "x.jsonl", b'{"task": "t", "worker": "w", "label": "l"}\n{"label": null}\n{}')
    assert read(path) == ({0: ("t", "w", "l"), 1: ("", "", ""), 2: ("", "", "")}, [])


@pytest.mark.parametrize("other", [b"", b"\n\n{}"])
def test_json_with_bytes_that_are_not_utf8_keeps_its_lines(tmp_path, other):
    lines = (
        b'{"task": "t\xff", "worker": "w", "label": "l", "note": "\xff"}\n{"task": "u", "worker": "w", "label": "l"}'
    )
    found, bad = read(write(tmp_path, "x.jsonl", lines + other))
    assert (found[0], found[1], bad) == (("", "w", "l"), ("u", "w", "l"), [])


@pytest.mark.parametrize(
    "line", [b"[1]", b"3", b'"task"', b"{", b'{"task": 1', b"[" * 100_000, b"1" * 5000, b"null", b"{} {}", b"\xff"]
)
def test_a_json_line_that_is_no_object_is_a_bad_record(tmp_path, line):
    good = b'{"task": "t", "worker": "w", "label": "l"}'
    found, bad = read(write(tmp_path, "x.jsonl", good + b"\n" + line + b"\n" + good))
    assert sorted(found) == [0, 2]
    assert [(position, reason) for position, reason, _ in bad] == [(1, "malformed-record")]


def test_json_may_begin_with_a_byte_order_mark_and_repeat_a_key(tmp_path, small):
    data = b'{"task": "a", "task": "t", "worker": "w", "label": "l"}\n{"task": "u", "worker": "w", "label": "l"}'
    path = write(tmp_path, "x.jsonl", b"\xef\xbb\xbf" + data)
    assert jsonl.columns_of(str(path)) == list(NAMES)
    assert read(path) == ({0: ("t", "w", "l"), 1: ("u", "w", "l")}, [])


@pytest.mark.parametrize("data", [b'[{"task": "t"}]', b"task,worker\nt,w\n", b"[\n1\n]", b"{}\n{}"])
def test_what_is_not_json_lines_is_told_apart(tmp_path, data):
    with pytest.raises(ValueError, match="JSON object"):
        jsonl.columns_of(str(write(tmp_path, "x.jsonl", data)))


@pytest.mark.parametrize("size", [5000, 3 << 20])
def test_a_json_line_longer_than_a_block_is_read(tmp_path, small, size):
    rows = [("t" * size, "w", "l"), ("u", "w", "l")]
    path = write(tmp_path, "x.jsonl", jsonl_bytes(rows))
    assert jsonl.columns_of(str(path)) == list(NAMES)
    assert read(path) == (dict(enumerate(rows)), [])


def test_json_columns_are_those_of_all_objects_at_the_beginning(tmp_path):
    assert jsonl.columns_of(str(write(tmp_path, "x.jsonl", b'{"a": 1}\n3\n{"b": 1}'))) == ["a", "b"]


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)
)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=6), st.sampled_from([b"", b"\n\n"]), st.integers(30, 200))
def test_json_values_become_the_texts_they_have_alone(rows, end, block_bytes):
    FILES["memory://random/x.jsonl"] = jsonl_bytes(rows) + end
    with patch.object(jsonl, "BLOCK_BYTES", block_bytes):
        found, bad = read("memory://random/x.jsonl")
    assert bad == []
    expected = [tuple(texts_of(column_of([value]))[0][0].as_py() for value in row) for row in rows]
    assert list(found.values()) == expected
