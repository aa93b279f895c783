"""A growing folder: every file once, in pieces if it is large, from any position; what changes is read on or told."""

import gzip
import json
import os
import time

import pytest
from memory_files import FILES
from source_files import ROWS, WRITERS, csv_bytes, jsonl_bytes, parquet_bytes, write

from pipelines.errors import InputError, InvalidSettingError
from pipelines.events import EventSettings
from pipelines.sources import folder
from pipelines.sources.folder import FolderSource
from pipelines.sources.unbounded import CAUGHT_UP
from pipelines.tables import from_bytes

pytestmark = pytest.mark.usefixtures("listed_at_every_poll")


def events_of(polled):
    """(file's name, place in it, task) of what a poll brought."""
    return [
        (block.path.rsplit("/", 1)[-1], block.sequence + offset, task)
        for block in polled.blocks
        for task, offset in zip(block.task.to_pylist(), block.offset.tolist(), strict=True)
    ]


def rejects_of(polled):
    rows = [row for data in polled.rejects for row in from_bytes(data).to_pylist()]
    return [(row["source"].rsplit("/", 1)[-1], row["position"], row["reason"]) for row in rows]


class Drained:
    """Polls until nothing is waiting."""

    def __init__(self, reader, position=b"", max_events=100):
        self.position, self.events, self.rejects, self.polls = position, [], [], []
        self._reader, self._max_events = reader, max_events
        self.go_on()

    def go_on(self, fresh=None):
        self._reader = fresh or self._reader
        while True:
            polled = self._reader.poll(self.position, self._max_events, 0)
            self.polls.append(polled)
            self.position = polled.position
            self.events += events_of(polled)
            self.rejects += rejects_of(polled)
            if not polled.more:
                return self


def rows(*numbers):
    return [(f"t{number}", "w", "x") for number in numbers]


def drained(tmp_path, **more):
    return Drained(FolderSource(str(tmp_path)).reader(0), **more)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read_in_small_turns(tmp_path, small, name):
    write(tmp_path, name, WRITERS[name](ROWS))
    found = drained(tmp_path, max_events=37)
    assert [task for *_, task in found.events] == [task for task, *_ in ROWS]
    assert [place for _, place, _ in found.events] == list(range(len(ROWS)))
    assert max(sum(map(len, polled.blocks)) for polled in found.polls) <= 37
    assert sum(polled.counts.get("events_read", 0) for polled in found.polls) == len(ROWS)
    assert found.polls[-1].watermark_us == CAUGHT_UP


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet", "x.avro", "x.jsonl.gz"])
def test_a_new_reader_goes_on_where_any_poll_left_off(tmp_path, small, name):
    write(tmp_path, name, WRITERS[name](ROWS))
    source = FolderSource(str(tmp_path))
    whole = drained(tmp_path, max_events=60)
    for polled in whole.polls:
        again = Drained(source.reader(0), polled.position, 60)
        n_before = len(whole.events) - len(again.events)
        assert again.events == whole.events[n_before:]
        assert json.loads(again.position) == json.loads(whole.position)


def test_new_files_come_in_the_order_of_their_names_and_once(tmp_path):
    write(tmp_path, "b.csv", csv_bytes(rows(2)))
    write(tmp_path, "a.jsonl", jsonl_bytes(rows(1)))
    found = drained(tmp_path)
    write(tmp_path, "c.parquet", parquet_bytes(rows(3)))
    found.go_on().go_on()
    assert found.events == [("a.jsonl", 0, "t1"), ("b.csv", 0, "t2"), ("c.parquet", 0, "t3")]
    numbers = [block.source for polled in found.polls for block in polled.blocks]
    assert numbers == [0, 1, 2]


def test_files_that_are_not_finished_or_not_data_are_left_alone(tmp_path):
    for name in ("x.csv.tmp", "x.csv.partial", "_x.csv", ".x.csv", "notes.txt", "x.csv.TMP"):
        write(tmp_path, name, csv_bytes(rows(1)))
    write(tmp_path, "empty.csv", b"")
    assert drained(tmp_path).events == []
    assert Drained(FolderSource(f"{tmp_path}/*.csv*").reader(0)).events == []
    os.rename(tmp_path / "x.csv.tmp", tmp_path / "x.csv")
    assert drained(tmp_path).events == Drained(FolderSource(f"{tmp_path}/*.csv").reader(0)).events
    assert drained(tmp_path).events == [("x.csv", 0, "t1")]


def test_readers_share_the_files(tmp_path):
    for number in range(20):
        write(tmp_path, f"{number}.csv", csv_bytes(rows(number)))
    source = FolderSource(str(tmp_path), readers=3)
    found = [Drained(source.reader(number)).events for number in range(source.n_readers)]
    assert all(found)
    assert sorted(event for events in found for event in events) == sorted(drained(tmp_path).events)


@pytest.mark.parametrize(("name", "written"), [("x.csv", csv_bytes), ("x.jsonl", jsonl_bytes)])
def test_what_is_added_to_a_file_is_read_with_the_record_before(tmp_path, small, name, written):
    whole = written(rows(*range(60)))
    cut = len(written(rows(*range(40)))) + 5
    write(tmp_path, name, whole[:cut])
    found = drained(tmp_path, max_events=7)
    write(tmp_path, name, whole)
    found.go_on(FolderSource(str(tmp_path)).reader(0))
    tasks = [task for *_, task in found.events]
    assert set(tasks) == {f"t{number}" for number in range(60)}
    assert len(tasks) <= 62
    places = {place: task for _, place, task in found.events}
    assert [places[place] for place in range(60)] == [f"t{number}" for number in range(60)]
    assert len(found.go_on().events) == len(tasks)


def test_a_file_that_grows_while_it_is_read_loses_nothing(tmp_path):
    write(tmp_path, "x.jsonl", jsonl_bytes(rows(*range(50))))
    reader = FolderSource(str(tmp_path)).reader(0)
    first = reader.poll(b"", 20, 0)
    write(tmp_path, "x.jsonl", jsonl_bytes(rows(*range(80))))
    for fresh in (reader, FolderSource(str(tmp_path)).reader(0)):
        found = Drained(fresh, first.position, 20)
        assert {task for *_, task in [*events_of(first), *found.events]} == {f"t{number}" for number in range(80)}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("x.parquet", parquet_bytes(rows(1)), parquet_bytes(rows(*range(50)))),
        ("x.csv", csv_bytes(rows(1, 2)), csv_bytes(rows(3))),
        ("x.csv.gz", gzip.compress(csv_bytes(rows(1))), gzip.compress(csv_bytes(rows(*range(50))))),
    ],
    ids=["parquet", "csv", "gzip"],  # the bytes of a gzip file tell the time
)
def test_a_file_that_changed_otherwise_is_told_once_and_not_read_again(tmp_path, name, before, after):
    write(tmp_path, name, before)
    found = drained(tmp_path)
    n_events = len(found.events)
    write(tmp_path, name, after)
    found.go_on().go_on()
    assert (found.rejects, len(found.events)) == ([(name, 0, "file-changed")], n_events)


def test_a_file_that_vanishes_while_it_is_read_is_told(tmp_path):
    write(tmp_path, "x.jsonl", jsonl_bytes(rows(*range(50))))
    write(tmp_path, "y.jsonl", jsonl_bytes(rows(99)))
    first = FolderSource(str(tmp_path)).reader(0).poll(b"", 20, 0)
    os.remove(tmp_path / "x.jsonl")
    found = Drained(FolderSource(str(tmp_path)).reader(0), first.position)
    assert (found.rejects, found.events) == ([("x.jsonl", 0, "file-changed")], [("y.jsonl", 0, "t99")])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", b"no parquet"),
        ("a.avro", b"Obj\x01 cut"),
        ("a.csv", csv_bytes(rows(1), ("item", "worker", "label"))),
        ("a.jsonl", b"[1, 2]\n"),
        ("a.parquet.gz", b"x"),
    ],
)
def test_a_file_that_cannot_be_read_stops_nobody_and_is_tried_again_when_it_changes(tmp_path, name, data):
    write(tmp_path, name, data)
    write(tmp_path, "b.csv", csv_bytes(rows(1)))
    found = drained(tmp_path).go_on()
    assert found.events == [("b.csv", 0, "t1")]
    assert found.rejects == [(name, 0, "unreadable-rest")]
    if name in WRITERS or name.replace("a", "x", 1) in WRITERS:
        write(tmp_path, name, WRITERS["x" + name[1:]](rows(*range(30))))
        assert len(found.go_on().events) == 31


@pytest.mark.parametrize("age_s", [0, 60])
def test_a_torn_line_waits_for_its_rest_for_a_while(tmp_path, age_s):
    data = csv_bytes(rows(1, 2))
    write(tmp_path, "a.csv", data.rstrip())
    then = time.time() - age_s
    os.utime(tmp_path / "a.csv", (then, then))
    found = drained(tmp_path).go_on()
    assert len(found.events) == (2 if age_s else 0), "after that it counts as it stands"
    write(tmp_path, "a.csv", data)
    assert found.go_on().events[-1] == ("a.csv", 1, "t2")


def test_damage_inside_a_file_is_told_as_in_a_batch(tmp_path):
    write(tmp_path, "x.jsonl", b'{"task": "t", "worker": "w", "label": "x"}\nnonsense\n')
    write(tmp_path, "y.csv.gz", gzip.compress(csv_bytes(rows(*range(500))))[:-20])
    found = drained(tmp_path, max_events=1000)
    assert found.rejects[0] == ("x.jsonl", 1, "malformed-record")
    assert [reason for *_, reason in found.rejects[1:]] == ["unreadable-rest"]


def test_a_file_that_may_not_be_opened_is_tried_again_while_others_are_read(tmp_path, monkeypatch, caplog):
    write(tmp_path, "a.csv", csv_bytes(rows(1)))
    write(tmp_path, "b.csv", csv_bytes(rows(2)))

    def refuse(settings, path, size, role):
        if path.endswith("a.csv"):
            raise InputError("no") from PermissionError(13, "not yours")
        return checked(settings, path, size, role)

    checked = folder.inputs.checked_file
    with monkeypatch.context() as patched:
        patched.setattr(folder.inputs, "checked_file", refuse)
        found = drained(tmp_path).go_on()
    assert (found.events, found.rejects) == ([("b.csv", 0, "t2")], [])
    assert caplog.text.count("is tried again") == 1
    assert found.go_on().events == [("b.csv", 0, "t2"), ("a.csv", 0, "t1")]


def test_events_have_columns_times_and_ops(tmp_path):
    path = write(
        tmp_path,
        "x.csv",
        b"item,worker,label,at,what\nt,w,x,5,\nt,w,,6,delete\nt,w,x,,\nt,w,x,soon,\nt,w,x,9999999999,\n",
    )
    os.utime(path, (1000, 1000))
    columns = (("task", "item"), ("time", "at"), ("op", "what"))
    found = Drained(FolderSource(str(tmp_path), EventSettings(columns=columns, time_unit="s")).reader(0))
    (block,) = found.polls[0].blocks
    assert (block.time.tolist(), block.deleted.tolist()) == ([5_000_000, 6_000_000, 10**9], [False, True, False])
    assert block.arrived_us == 10**9
    assert found.rejects == [("x.csv", 3, "malformed-time"), ("x.csv", 4, "time-in-the-future")]


def test_any_file_system_of_beam_will_do():
    FILES["memory://growing/a.jsonl"] = jsonl_bytes(rows(1))
    source = FolderSource("memory://growing/")
    source.check()
    found = Drained(source.reader(0))
    FILES["memory://growing/b.csv"] = csv_bytes(rows(2))
    assert found.go_on().events == [("a.jsonl", 0, "t1"), ("b.csv", 0, "t2")]


def test_an_empty_folder_is_waited_for(tmp_path):
    reader = FolderSource(str(tmp_path)).reader(0)
    begun = time.monotonic()
    polled = reader.poll(b"", 10, 0.3)
    assert time.monotonic() - begun >= 0.3
    assert (polled.blocks, polled.more, polled.watermark_us) == ((), False, CAUGHT_UP)
    reader.confirm(polled.position)
    reader.close()


def test_a_folder_that_is_missing_is_refused_and_one_that_goes_away_is_waited_for(tmp_path):
    FolderSource(str(tmp_path)).check()
    FolderSource(f"{tmp_path}/*.csv").check()
    for missing in ("none", "none/*.csv"):
        with pytest.raises(InputError, match="There is no folder"):
            FolderSource(f"{tmp_path}/{missing}").check()
    with pytest.raises(InvalidSettingError, match="--readers"):
        FolderSource(str(tmp_path), readers=0)
    with pytest.raises(InvalidSettingError, match="--input-format"):
        EventSettings(input_format="xml")
    reader = FolderSource(str(tmp_path)).reader(0)
    tmp_path.rename(tmp_path.with_name("away"))
    polled = reader.poll(b"", 10, 0)
    assert (polled.blocks, polled.more) == ((), False)
    with pytest.raises(InvalidSettingError, match="no file system that is known"):
        FolderSource("nowhere://x/").reader(0).poll(b"", 10, 0)
