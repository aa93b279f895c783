"""How often a folder is listed, by a clock of our own: each listing costs, on some file systems money."""

from itertools import pairwise

import pytest
from source_files import csv_bytes, write
from test_sources_folder import events_of, rows

from pipelines.sources import folder
from pipelines.sources.folder import FolderSource
from pipelines.sources.folder_position import FolderPosition


class Clock:
    """Time goes by only while somebody sleeps."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def time(self):
        return 2e9 + self.now  # long after the files were written

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(folder, "time", made)
    return made


@pytest.fixture
def listings(monkeypatch, clock):
    """The times at which the folder was listed."""
    found, files = [], FolderSource.files
    monkeypatch.setattr(FolderSource, "files", lambda source: found.append(clock.now) or files(source))
    return found


@pytest.mark.parametrize("wait_s", [0.15, 0.6, 2.5])
def test_a_quiet_folder_is_listed_once_a_second_however_long_polls_wait(tmp_path, clock, listings, wait_s):
    write(tmp_path, "a.csv", csv_bytes(rows(1)))
    reader, position = FolderSource(str(tmp_path)).reader(0), b""
    while clock.now < 110:
        began = clock.now
        polled = reader.poll(position, 10, wait_s)
        assert polled.blocks or clock.now - began == pytest.approx(wait_s)
        position = polled.position
    assert 9 <= len(listings) <= 13
    assert min(later - earlier for earlier, later in pairwise(listings)) > 0.999


def test_a_new_file_is_seen_within_a_second(tmp_path, clock):
    write(tmp_path, "a.csv", csv_bytes(rows(1)))
    reader = FolderSource(str(tmp_path)).reader(0)
    polled = reader.poll(b"", 10, 0.3)
    for number in range(2, 6):
        write(tmp_path, f"{number}.csv", csv_bytes(rows(number)))
        began = clock.now
        polled = reader.poll(polled.position, 10, 0.3)
        while not polled.blocks:
            polled = reader.poll(polled.position, 10, 0.3)
        assert [task for *_, task in events_of(polled)] == [f"t{number}"]
        assert clock.now - began <= 1.0


def test_a_large_file_is_read_in_small_turns_without_a_listing_for_each(tmp_path, clock, listings):
    write(tmp_path, "a.csv", csv_bytes(rows(*range(50))))
    reader, position, found = FolderSource(str(tmp_path)).reader(0), b"", []
    while len(found) < 50:
        polled = reader.poll(position, 5, 0.3)
        position, found = polled.position, found + events_of(polled)
    assert [place for _, place, _ in found] == list(range(50))
    assert len(listings) == 1


def test_a_reader_that_is_set_back_or_on_takes_no_old_listing_for_what_is_there(tmp_path, clock):
    write(tmp_path, "a.csv", csv_bytes(rows(1)))
    source = FolderSource(str(tmp_path))
    reader, other = source.reader(0), source.reader(0)
    first = reader.poll(b"", 9, 0)
    write(tmp_path, "a.csv", csv_bytes(rows(1, 2)))
    second = other.poll(first.position, 9, 0)
    assert events_of(second) == [("a.csv", 1, "t2")]
    on, back = reader.poll(second.position, 9, 0), reader.poll(first.position, 9, 0)
    assert (on.blocks, on.rejects) == ((), ())
    assert events_of(back) == events_of(second)


def test_the_names_of_all_files_are_neither_read_nor_written_by_a_poll_that_finds_nothing(tmp_path, clock, monkeypatch):
    write(tmp_path, "a.csv", csv_bytes(rows(1)))
    reader = FolderSource(str(tmp_path)).reader(0)
    position = reader.poll(b"", 10, 0).position
    monkeypatch.setattr(FolderPosition, "of", None)
    monkeypatch.setattr(FolderPosition, "to_bytes", None)
    assert reader.poll(position, 10, 5.0).position == position


def test_a_poll_of_many_small_files_ends_in_time_and_others_bring_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "LONGEST_S", 0.0)
    for number in range(3):
        write(tmp_path, f"{number}.csv", csv_bytes(rows(number)))
    reader, position, brought, more = FolderSource(str(tmp_path)).reader(0), b"", [], True
    while more:
        polled = reader.poll(position, 100, 0)
        position, more = polled.position, polled.more
        brought.append(events_of(polled))
    assert [one for one in brought if one] == [[(f"{number}.csv", 0, f"t{number}")] for number in range(3)]
