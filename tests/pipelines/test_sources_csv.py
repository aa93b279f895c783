"""CSV: quotes, line endings and wrong lines of every kind; positions count records."""

import csv as standard_csv
import io
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_files import FILES
from source_files import (
    NAMES,
    ROWS,
    chunks_of,
    csv_bytes,
    read,
    write,
)

from pipelines.sources import FilePart, csv


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [True, False])
def test_csv_is_read_with_any_line_ending_and_with_a_byte_order_mark(tmp_path, small, newline, bom, end):
    data = bom + csv_bytes(ROWS, newline=newline)
    path = write(tmp_path, "x.csv", data if end else data.removesuffix(newline.encode()))
    assert csv.columns_of(str(path)) == list(NAMES)
    assert read(path) == (dict(enumerate(ROWS)), [])


def test_csv_lines_with_too_few_or_too_many_values_keep_their_positions(tmp_path, small):
    lines, good, bad = [b"task,worker,label\n"], {}, []
    for number in range(300):
        if number % 5 == 1 or 100 <= number < 140:
            lines.append(b"t%d,w\n" % number)
            bad.append((number, "malformed-record", f"t{number},w"))
        elif number % 5 == 3:
            lines.append(b't%d,"w\n1",l,more\n\n' % number)
            bad.append((number, "malformed-record", f't{number},"w\n1",l,more'))
        else:
            lines.append(b't%d,"w,\n1",l\n' % number)
            good[number] = (f"t{number}", "w,\n1", "l")
    assert read(write(tmp_path, "x.csv", b"".join(lines))) == (good, bad)


def test_csv_tells_how_many_values_a_line_has(tmp_path):
    chunks = chunks_of(write(tmp_path, "x.csv", b"task,worker,label\nt,w\n"))
    assert chunks[-1].bad[0].detail == "The line has 2 values; the header has 3."


def test_csv_with_bytes_that_are_not_utf8_keeps_all_other_records(tmp_path, small):
    lines = [b"task,worker,label"]
    lines += [b"t%d,w,l" % number for number in range(200)]
    lines[11], lines[51], lines[101] = b"t\xff,w,l", b"\xe9\xe9,w", b"\xf0\x9f\x98,w,l"
    path = write(tmp_path, "x.csv", b"\n".join(lines) + b"\nlast,w,\xc3")
    found, bad = read(path)
    assert bad == [(50, "malformed-record", "\ufffd,w")]
    empty = {position for position, row in found.items() if "" in row}
    assert empty == {10, 100, 200}
    assert len(found) == 200


def test_csv_values_that_end_in_the_middle_of_a_character_at_a_block_s_end_are_whole(tmp_path, monkeypatch):
    rows = [("é" * (number % 9), "w", "😀" * (number % 5)) for number in range(200)]
    path = write(tmp_path, "x.csv", csv_bytes(rows))
    for size in (64, 65, 66, 67):
        monkeypatch.setattr(csv, "BLOCK_BYTES", size)
        assert read(path) == (dict(enumerate(rows)), [])


@pytest.mark.parametrize("where", ['t50,w,"l', 't50,"w,l', '"t50,w,l', 't50,w,"l""'])
def test_csv_after_a_quote_that_is_never_closed_is_one_unreadable_rest(tmp_path, where):
    lines = [f"t{number},w,l" for number in range(50)] + [where] + [f"u{number},w,l" for number in range(30)]
    path = write(tmp_path, "x.csv", "\n".join(["task,worker,label", *lines, ""]).encode())
    found, bad = read(path)
    assert found == {number: (f"t{number}", "w", "l") for number in range(50)}
    assert bad == [(50, "unreadable-rest", "")]


def test_csv_with_a_value_longer_than_a_block_is_read_up_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 1000)
    lines = ["task,worker,label", *(f"t{number},w,l" for number in range(100)), "long,w," + "x" * 5000, "t,w,l"]
    found, bad = read(write(tmp_path, "x.csv", "\n".join(lines).encode()))
    assert found == {number: (f"t{number}", "w", "l") for number in range(100)}
    assert bad == [(100, "unreadable-rest", "")]


def test_csv_with_a_value_of_a_megabyte_is_read(tmp_path):
    rows = [("t", "w" * (1 << 20), "l"), ("u", "w", "l")]
    assert read(write(tmp_path, "x.csv", csv_bytes(rows))) == (dict(enumerate(rows)), [])


def test_csv_columns_are_found_by_place_so_that_others_may_share_names(tmp_path):
    path = write(tmp_path, "x.csv", b'note,task,note,"my worker",label\n1,t,2,w,l\n')
    assert csv.columns_of(str(path)) == ["note", "task", "note", "my worker", "label"]
    part = FilePart(str(path), 0, "labels", "csv", (("task", "task"), ("worker", "my worker"), ("label", "label")))
    (chunk,) = [lazy() for lazy in csv.chunks_of(part)]
    assert {name: column.to_pylist() for name, column in chunk.columns.items()} == {
        "task": [b"t"],
        "worker": [b"w"],
        "label": [b"l"],
    }


def test_csv_may_have_a_single_column(tmp_path):
    path = write(tmp_path, "x.csv", b"task\na\nb,c\nd")
    assert read(path, ("task",)) == ({0: ("a",), 2: ("d",)}, [(1, "malformed-record", "b,c")])


def test_csv_header_may_hold_newlines_and_follow_blank_lines(tmp_path):
    path = write(tmp_path, "x.csv", b'\n\n"task","wor\nker",label\nt,w,l\n')
    assert csv.columns_of(str(path)) == ["task", "wor\nker", "label"]
    assert read(path, ("task", "wor\nker", "label")) == ({0: ("t", "w", "l")}, [])


def test_csv_in_utf16_is_told_apart(tmp_path):
    path = write(tmp_path, "x.csv", "task,worker,label\n".encode("utf-16"))
    with pytest.raises(ValueError, match="UTF-16"):
        csv.columns_of(str(path))


def test_csv_line_ends_inside_values_survive_the_ends_of_blocks(tmp_path, monkeypatch):
    rows = [(f"t{number}\r\n", "\n\r\n", "\r\n\r") for number in range(30)]
    path = write(tmp_path, "x.csv", csv_bytes(rows, newline="\r\n"))
    for size in range(100, 140):
        monkeypatch.setattr(csv, "BLOCK_BYTES", size)
        assert read(path) == (dict(enumerate(rows)), [])


def test_csv_zeros_hide_no_quotes(tmp_path, small):
    rows = [(f"\0{number}\0", "\0", '\0,"\n\0') for number in range(100)]
    data = b"".join(
        b'"%s"\n' % b'","'.join(value.replace('"', '""').encode() for value in row) for row in [NAMES, *rows]
    )
    found, bad = read(write(tmp_path, "x.csv", data + b"\0,\0\n"))
    assert found == dict(enumerate(rows))
    assert bad == [(100, "malformed-record", "\0,\0")]


DIALECTS = [("\n", standard_csv.QUOTE_ALL), ("\r\n", standard_csv.QUOTE_ALL), ("\r\n", standard_csv.QUOTE_MINIMAL)]
SIGNS = st.text(st.sampled_from('ab,"\n\r\0 é😀\x85\u2028') | st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    st.lists(st.tuples(SIGNS, SIGNS, SIGNS), max_size=20),
    st.sampled_from(
        [("\n", standard_csv.QUOTE_ALL), ("\r\n", standard_csv.QUOTE_ALL), ("\r\n", standard_csv.QUOTE_MINIMAL)]
    ),
    st.integers(250, 500),
)
def test_csv_reads_whatever_the_standard_library_writes(rows, dialect, block_bytes):
    text = io.StringIO(newline="")
    standard_csv.writer(text, lineterminator=dialect[0], quoting=dialect[1]).writerows([NAMES, *rows])
    FILES["memory://random/x.csv"] = text.getvalue().encode()
    with patch.object(csv, "BLOCK_BYTES", block_bytes):
        found, bad = read("memory://random/x.csv")
    assert bad == []
    assert list(found.values()) == rows
    assert list(found) == list(range(len(rows)))
