"""A file that grows costs what is new in it: reading goes on at the byte where it ended, if a line ended there."""

import json
import os
import time

import pytest
from memory_files import FILES
from source_files import ODD, csv_bytes, jsonl_bytes, write
from test_sources_folder import Drained, drained, events_of, rows

from pipelines.sources.folder import FolderSource

pytestmark = pytest.mark.usefixtures("listed_at_every_poll")
LINES = pytest.mark.parametrize(("name", "written"), [("x.csv", csv_bytes), ("x.jsonl", jsonl_bytes)])


def again(found, tmp_path):
    """Another reader goes on, from the position that is known."""
    return found.go_on(FolderSource(str(tmp_path)).reader(0))


def last_lines(written, n, whole):
    """The last `n` lines of a file."""
    return b"".join(written(whole).splitlines(keepends=True)[-n:])


@LINES
def test_what_was_read_of_a_growing_file_is_not_parsed_again(tmp_path, small, name, written):
    """The lines that were read are made one meanwhile: who parses them again takes new lines for old ones."""
    before, whole = written(rows(*range(40))), written(rows(*range(60)))
    write(tmp_path, name, before)
    found = drained(tmp_path, max_events=7)
    head, _, body = before.removesuffix(b"\n").partition(b"\n")
    write(tmp_path, name, head + b"\n" + body.replace(b"\n", b" ") + b"\n" + whole[len(before) :])
    again(found, tmp_path)
    assert [(place, task) for _, place, task in found.events] == [(n, f"t{n}") for n in range(60)]
    assert not found.rejects


@LINES
def test_a_file_that_grows_again_and_again_has_every_record_once_at_its_place(tmp_path, small, name, written):
    odd = [(f"{sign}{n}", "w", "x") for n in range(30) for sign in ODD]
    data = written(odd).splitlines(keepends=True)
    found = None
    for n_lines in range(50, len(data) + 50, 50):
        write(tmp_path, name, b"".join(data[:n_lines]))
        found = drained(tmp_path, max_events=20) if found is None else again(found, tmp_path)
    tasks = {place: task for _, place, task in found.events}
    assert [tasks[place] for place in range(len(odd))] == [task for task, *_ in odd]


@LINES
def test_a_bad_line_among_those_that_were_added_is_told_with_its_place(tmp_path, small, name, written):
    write(tmp_path, name, written(rows(1, 2)))
    found = drained(tmp_path)
    write(tmp_path, name, written(rows(1, 2, 3)) + b"nonsense\n" + last_lines(written, 1, rows(4)))
    again(found, tmp_path)
    assert found.rejects == [(name, 3, "malformed-record")]
    assert found.events == [(name, place, f"t{n}") for place, n in ((0, 1), (1, 2), (2, 3), (4, 4))]


@LINES
def test_a_header_or_blank_lines_alone_do_not_move_what_follows(tmp_path, small, name, written):
    begin = written([]) or b"\n"
    write(tmp_path, name, begin)
    found = drained(tmp_path)
    for more in (last_lines(written, 1, rows(1)), b"\n", last_lines(written, 1, rows(2))):
        begin += more
        write(tmp_path, name, begin)
        again(found, tmp_path)
    assert [task for *_, task in found.events][:1] == ["t1"]
    assert found.events[-1][2] == "t2"
    assert not found.rejects


def test_a_record_that_ends_within_a_quote_is_read_when_the_quote_is_closed(tmp_path):
    write(tmp_path, "x.csv", csv_bytes(rows(1)) + b't2,w,"two\n')
    found = drained(tmp_path)
    assert [reason for *_, reason in found.rejects] == ["unreadable-rest"]
    write(tmp_path, "x.csv", csv_bytes(rows(1)) + b't2,w,"two\nlines"\nt3,w,x\n')
    assert [task for *_, task in again(found, tmp_path).events][-2:] == ["t2", "t3"]


@LINES
def test_a_line_that_was_cut_off_for_long_comes_again_when_it_is_whole(tmp_path, name, written):
    path = write(tmp_path, name, written(rows(1, 2))[:-3])
    then = time.time() - 60
    os.utime(path, (then, then))
    found = drained(tmp_path)
    write(tmp_path, name, written(rows(1, 2, 3)))
    assert again(found, tmp_path).events[-2:] == [(name, 1, "t2"), (name, 2, "t3")]


@LINES
def test_positions_of_earlier_versions_are_gone_on_from(tmp_path, small, name, written):
    whole = written(rows(*range(60)))
    write(tmp_path, name, whole)
    path, size = str(tmp_path / name), len(written(rows(*range(40))))
    done = {"done": {path: [size, 39]}, "under": None}
    assert [place for _, place, _ in drained(tmp_path, position=json.dumps(done).encode()).events] == [*range(39, 60)]
    under = {"name": path, "size": size, "skip": 7, "chunk": 0, "row": 0, "reached": 0}
    found = drained(tmp_path, position=json.dumps({"done": {}, "under": under}).encode())
    assert {place for _, place, _ in found.events} == {*range(7, 60)}


def test_a_reader_that_is_set_back_reads_again_what_it_has_read_since(tmp_path):
    write(tmp_path, "x.jsonl", jsonl_bytes(rows(*range(50))))
    reader = FolderSource(str(tmp_path)).reader(0)
    first = reader.poll(b"", 20, 0)
    second, again = reader.poll(first.position, 20, 0), reader.poll(first.position, 20, 0)
    assert events_of(again) == events_of(second) == [("x.jsonl", n, f"t{n}") for n in range(20, 40)]


@LINES
def test_what_was_told_of_a_growing_file_of_another_file_system_is_not_told_again(small, name, written):
    path, begin = f"memory://grown-{small}-{name}/{name}", written(rows(*range(30))) + b"nonsense\n"
    FILES[path] = begin + last_lines(written, 2, rows(31, 32))
    found = Drained(FolderSource(f"memory://grown-{small}-{name}/").reader(0), max_events=7)
    FILES[path] += last_lines(written, 1, rows(33))
    found.go_on()
    assert found.rejects == [(name, 30, "malformed-record")]
    assert [place for _, place, _ in found.events] == [*range(30), 31, 32, 32, 33], "only the last comes again"


@LINES
def test_a_file_to_which_a_blank_line_was_added_is_not_read_again(tmp_path, small, name, written):
    data = written(rows(1, 2))
    write(tmp_path, name, data)
    found = drained(tmp_path)
    for more in (b"\n", last_lines(written, 1, rows(3))):
        data += more
        write(tmp_path, name, data)
        again(found, tmp_path)
    assert [task for *_, task in found.events] == ["t1", "t2", "t3"]
