"""Files that are written beside their place: whole, or not there."""

import pytest
from memory_files import FAIL_ON, FILES

from pipelines.table_files import write_file


@pytest.fixture(autouse=True)
def no_memory():
    FILES.clear()
    yield
    FILES.clear()
    FAIL_ON.clear()


class BrokenOffError(Exception):
    pass


def half(sink):
    sink.write(b"half")
    raise BrokenOffError


def test_a_file_that_was_broken_off_leaves_nothing(tmp_path):
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(BrokenOffError):
        write_file(str(tmp_path / "a"), half)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"before")]


def test_a_file_that_cannot_be_moved_to_its_place_leaves_nothing(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_file(str(tmp_path / "a"), lambda sink: sink.write(b"whole"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_elsewhere_that_cannot_be_moved_to_its_place_leaves_nothing():
    FAIL_ON.append("place")
    with pytest.raises(OSError, match="out of order"):
        write_file("memory://folder/place", lambda sink: sink.write(b"whole"))
    assert FILES == {}


def test_a_file_elsewhere_that_was_broken_off_leaves_nothing():
    with pytest.raises(BrokenOffError):
        write_file("memory://folder/place", half)
    assert FILES == {}
