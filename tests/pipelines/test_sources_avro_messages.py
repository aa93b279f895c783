"""Avro messages: three framings and every published schema, mixed as they come; what is no label spoils no other."""

import io
import json
import struct
from pathlib import Path

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemas
from pipelines.events import EventSettings
from pipelines.records import Origin
from pipelines.sources.messages import parse_messages, read_messages
from pipelines.tables import from_bytes

NEW = schemas.avro_schema("label")
OLD = json.loads((Path(__file__).parents[1] / "schemas" / "v1" / "label.avsc").read_text("utf-8"))
ROW = {"task": "t", "worker": "w", "label": "x", "submitted_at_us": 5, "op": "delete"}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}


def body(row, schema=NEW):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, row)
    return file.getvalue()


def single(row, schema=NEW):
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + body(row, schema)


def confluent(row, schema=NEW, number=7):
    return b"\0" + struct.pack(">I", number) + body(row, schema)


def rows_of(chunk):
    names = ("task", "worker", "label", "time", "op")
    columns = [chunk.columns[name].to_pylist() if name in chunk.columns else None for name in names]
    size = len(columns[0]) if columns[0] is not None else 0
    columns = [column or [None] * size for column in columns]
    places = range(size) if chunk.positions is None else chunk.positions.tolist()
    values = [[one.decode() if isinstance(one, bytes) else one for one in row] for row in zip(*columns, strict=True)]
    return dict(zip(places, map(tuple, values), strict=True))


def reasons_of(chunk):
    return [(bad.position, bad.reason) for bad in chunk.bad]


TEXT = st.text(max_size=3) | st.sampled_from(["x" * 64, "é" * 100, "z" * 9000])
TIME = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 63, 64, 2**55, 2**56, 2**62])
RECORD = st.builds(
    lambda task, worker, label, time, op: {
        "task": task,
        "worker": worker,
        "label": label,
        "submitted_at_us": time,
        "op": op,
    },
    TEXT.filter(bool),
    TEXT,
    TEXT,
    TIME,
    st.none() | TEXT,
)
FRAMING = st.sampled_from([body, single, confluent])


@given(st.lists(st.tuples(RECORD, FRAMING, st.sampled_from([NEW, OLD])), max_size=8))
def test_labels_are_read_in_any_framing_and_version(records):
    chunk = read_messages([framed(row, schema) for row, framed, schema in records], "avro")
    assert chunk.bad == ()
    assert rows_of(chunk) == {
        place: (*list(row.values())[:4], row["op"] if schema is NEW else None)
        for place, (row, _, schema) in enumerate(records)
    }


@given(st.lists(st.binary(max_size=12) | RECORD.map(body) | RECORD.map(confluent), max_size=8), st.randoms())
def test_any_bytes_are_either_what_fastavro_reads_or_rejected(values, random):
    values = [value[: random.randrange(len(value) + 1)] if random.random() < 0.3 else value for value in values]
    chunk = read_messages(values, "avro")
    found = rows_of_bytes(chunk)
    assert sorted([*found, *(place for place, _ in reasons_of(chunk))]) == list(range(len(values)))
    for place, row in found.items():
        assert row in [decoded for decoded in (plain(values[place][at:]) for at in (0, 5, 10)) if decoded]


def rows_of_bytes(chunk):
    columns = [chunk.columns[name].to_pylist() for name in ("task", "worker", "label")] if chunk.columns else [[]] * 3
    places = range(len(columns[0])) if chunk.positions is None else chunk.positions.tolist()
    return dict(zip(places, zip(*columns, strict=True), strict=True))


def plain(value):
    """The same by fastavro, one message at a time."""
    for schema in (NEW, OLD):
        file = io.BytesIO(value)
        try:
            row = fastavro.schemaless_reader(file, schema, None, handle_unicode_errors="surrogateescape")
        except (EOFError, IndexError, ValueError, OverflowError, MemoryError, StopIteration):
            continue
        if file.tell() == len(value):
            return tuple(row[name].encode("utf-8", "surrogateescape") for name in ("task", "worker", "label"))
    return None


def test_a_message_of_another_schema_is_told_apart():
    other = {"a": 1, "b": "text"}
    values = [body(ROW), single(other, OTHER), confluent(other, OTHER), body(other, OTHER), single(ROW), None, b""]
    chunk = read_messages(values, "avro")
    assert sorted(rows_of(chunk)) == [0, 4]
    assert reasons_of(chunk) == [
        (1, "unknown-schema"),
        (2, "unknown-schema"),
        (3, "malformed-message"),
        (5, "empty-message"),
        (6, "empty-message"),
    ]
    assert chunk.bad[0].record == values[1].hex()


@pytest.mark.parametrize(
    "damaged",
    [
        body(ROW)[:-1],
        body(ROW) + b"\0",
        single(ROW)[:-1],
        single(ROW)[:11],
        b"\x02",
        b"\x01" + body(ROW)[1:],
        b"\xff" * 9 + b"\x01" + b"rest of the text",
        b"\xff" * 9 + b"\x7f" + b"seventy bits",
        b"\xff" * 30,
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        body({**ROW, "op": None})[:-1] + b"\x04",
    ],
)
def test_a_damaged_message_is_one_reject(damaged):
    chunk = read_messages([body(ROW), damaged, body(ROW)], "avro")
    assert reasons_of(chunk) == [(1, "malformed-message")]
    assert rows_of(chunk) == dict.fromkeys((0, 2), tuple(ROW.values()))


def test_an_empty_task_is_missing_not_a_framing():
    empty = {"task": "", "worker": "w", "label": "x", "submitted_at_us": None, "op": None}
    assert rows_of(read_messages([body(empty), body(ROW)], "avro"))[0] == ("", "w", "x", None, None)


def test_times_in_avro_are_microseconds_whatever_the_unit_of_numbers_elsewhere():
    settings = EventSettings(format="avro", time_unit="s")
    old = body({**ROW, "submitted_at_us": None}, OLD)
    found = parse_messages([body(ROW), old], np.array([3, 9]), np.array([100, 200]), Origin(0, "p"), settings)
    assert (found.block.time.tolist(), found.block.deleted.tolist()) == ([5, 200], [True, False])
    assert found.block.offset.tolist() == [0, 6]


def test_text_that_is_not_utf8_rejects_its_own_label_only():
    broken = body(ROW).replace(b"\x02w", b"\x02\xff")
    found = parse_messages(
        [body(ROW), broken], np.array([0, 1]), np.array([9, 9]), Origin(0, "p"), EventSettings(format="avro")
    )
    assert found.block.offset.tolist() == [0]
    assert from_bytes(found.rejects)["reason"].to_pylist() == ["malformed-worker"]
