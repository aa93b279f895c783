"""A folder whose files cannot be reached for a while: what was read stays read, and the clock waits."""

import errno
import io
import os

import pytest
from memory_files import FILES, MemoryFileSystem
from source_files import csv_bytes, jsonl_bytes, write
from test_sources_folder import Drained, drained, events_of, rows

from pipelines.errors import InputError
from pipelines.events import EventSettings
from pipelines.sources import folder
from pipelines.sources.folder import FolderSource
from pipelines.sources.unbounded import CAUGHT_UP

pytestmark = pytest.mark.usefixtures("listed_at_every_poll")


class Disk:
    """Files whose reading fails while the disk is `broken`."""

    def __init__(self):
        self.broken = False

    def open(self, path, mime_type="", compression_type=""):
        disk = self

        class File(io.BytesIO):
            def read(self, *size):
                if disk.broken:
                    raise OSError(errno.EIO, "the disk is broken")
                return super().read(*size)

            def readinto(self, buffer):
                data = self.read(len(buffer))
                buffer[: len(data)] = data
                return len(data)

        return File(FILES[path])


@pytest.fixture
def disk(monkeypatch):
    made = Disk()
    monkeypatch.setattr(MemoryFileSystem, "open", lambda _, *given, **more: made.open(*given, **more))
    return made


@pytest.mark.parametrize(("name", "written"), [("x.csv", csv_bytes), ("x.jsonl", jsonl_bytes)])
def test_a_file_whose_reading_fails_half_way_is_read_on_when_it_works_again(small, disk, name, written):
    whole = rows(*range(99))
    FILES[f"memory://disk-{small}-{name}/{name}"] = written(whole)
    reader = FolderSource(f"memory://disk-{small}-{name}/").reader(0)
    first = reader.poll(b"", 2, 0)
    disk.broken = True
    away = Drained(reader, first.position, 70)
    disk.broken = False
    found = Drained(reader, away.position, 70)
    tasks = [task for *_, task in [*events_of(first), *away.events, *found.events]]
    assert tasks == [task for task, *_ in whole]
    assert not found.rejects


def test_a_file_of_which_some_was_read_is_not_begun_anew_when_it_may_not_be_opened_for_a_while(tmp_path, monkeypatch):
    write(tmp_path, "a.csv", csv_bytes(rows(*range(5))))
    write(tmp_path, "b.csv", csv_bytes(rows(9)))
    first = FolderSource(str(tmp_path)).reader(0).poll(b"", 2, 0)
    checked = folder.inputs.checked_file

    def refuse(settings, path, size, role):
        if path.endswith("a.csv"):
            raise InputError("no") from PermissionError(13, "not yours")
        return checked(settings, path, size, role)

    with monkeypatch.context() as patched:
        patched.setattr(folder.inputs, "checked_file", refuse)
        away = drained(tmp_path, position=first.position)
    assert (away.events, away.rejects) == ([], []), "others come behind it, for it is under way"
    found = drained(tmp_path, position=away.position)
    assert found.events == [("a.csv", place, f"t{place}") for place in (2, 3, 4)] + [("b.csv", 0, "t9")]


def test_the_clock_is_that_of_the_events_while_more_are_waiting_or_the_folder_is_away():
    FILES["memory://clock/x.csv"] = b"task,worker,label,submitted_at_us\n" + b"".join(
        b"t,w,x,%d\n" % n for n in range(9)
    )
    source = FolderSource("memory://clock/", EventSettings())
    reader, position, marks = source.reader(0), b"", []
    for _ in range(3):
        polled = reader.poll(position, 4, 0)
        position = polled.position
        marks.append(polled.watermark_us)
    assert marks == [3, 7, CAUGHT_UP]


def test_a_reader_whose_folder_is_away_holds_the_clock_back(tmp_path):
    there = tmp_path / "in"
    there.mkdir()
    write(there, "x.csv", b"task,worker,label,submitted_at_us\nt,w,x,5\n")
    found = drained(there)
    assert found.polls[-1].watermark_us == CAUGHT_UP
    there.rename(tmp_path / "away")
    polled = found.go_on().polls[-1]
    assert polled.watermark_us == 5
    assert polled.away.startswith("The source cannot be read: ")
    assert str(there) in polled.away
    (tmp_path / "away").rename(there)
    polled = found.go_on().polls[-1]
    assert (polled.watermark_us, polled.away) == (CAUGHT_UP, "")


TIMED = b"task,worker,label,submitted_at_us\n"


def test_a_file_that_cannot_be_read_holds_the_clock_where_it_was_until_all_of_it_is_read(tmp_path, monkeypatch):
    write(tmp_path, "a.csv", TIMED + b"t,w,x,5\n")
    found = drained(tmp_path)
    write(tmp_path, "b.csv", TIMED + b"t,w,x,6\nu,w,x,7\n")
    write(tmp_path, "c.csv", TIMED + b"t,w,x,900\n")
    checked = folder.inputs.checked_file

    def refuse(settings, path, size, role):
        if path.endswith("b.csv"):
            raise InputError("no") from PermissionError(13, "not yours")
        return checked(settings, path, size, role)

    with monkeypatch.context() as patched:
        patched.setattr(folder.inputs, "checked_file", refuse)
        polled = found.go_on().go_on().polls[-1]
        assert [task for name, _, task in found.events if name == "c.csv"] == ["t"]
        assert polled.watermark_us == 5
        assert "b.csv of the source cannot be read: " in polled.away
    half = found._reader.poll(polled.position, 1, 0)
    assert (half.more, half.watermark_us) == (True, 5)
    whole = found._reader.poll(half.position, 99, 0)
    assert (whole.watermark_us, whole.away) == (CAUGHT_UP, "")


def test_a_file_whose_last_line_is_torn_holds_the_clock_until_it_is_whole_or_gone(tmp_path):
    write(tmp_path, "a.csv", TIMED + b"t,w,x,5\n")
    found = drained(tmp_path)
    write(tmp_path, "b.csv", TIMED + b"t,w,x,6")
    assert found.go_on().polls[-1].watermark_us == 5
    write(tmp_path, "b.csv", TIMED + b"t,w,x,6\n")
    assert found.go_on().polls[-1].watermark_us == CAUGHT_UP
    write(tmp_path, "c.csv", TIMED + b"t,w,x,7")
    assert found.go_on().polls[-1].watermark_us == 6
    os.remove(tmp_path / "c.csv")
    assert found.go_on().polls[-1].watermark_us == CAUGHT_UP


def test_a_folder_that_goes_away_while_a_file_of_it_is_read_is_waited_for(tmp_path):
    there = tmp_path / "in"
    there.mkdir()
    write(there, "x.csv", csv_bytes(rows(*range(5))))
    first = FolderSource(str(there)).reader(0).poll(b"", 2, 0)
    there.rename(tmp_path / "away")
    found = Drained(FolderSource(str(there)).reader(0), first.position)
    assert (found.events, found.rejects) == ([], [])
    (tmp_path / "away").rename(there)
    assert found.go_on().events == [("x.csv", place, f"t{place}") for place in (2, 3, 4)]
