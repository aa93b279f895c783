"""Avro: every type and codec; damage costs what is damaged."""

import io
import random
from datetime import date, datetime, timezone
from decimal import Decimal

import fastavro
import pytest
from source_files import (
    ROWS,
    avro_bytes,
    read,
    write,
)

from pipelines.sources import avro


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_is_read_with_every_codec(tmp_path, small, codec):
    assert read(write(tmp_path, "x.avro", avro_bytes(ROWS, codec=codec))) == (dict(enumerate(ROWS)), [])


AVRO_TYPES = {
    "enum": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, ["a", "b"], ["a", "b"]),
    "null or enum": (["null", {"type": "enum", "name": "E", "symbols": ["a"]}], ["a", None], ["a", ""]),
    "null or text": (["null", "string"], ["a", None], ["a", ""]),
    "text or null": (["string", "null"], ["a", None], ["a", ""]),
    "text or number": (["string", "long"], ["a", 1], ["a", "1"]),
    "text alone": (["string"], ["a"], ["a"]),
    "long": ("long", [2**62, -1], [str(2**62), "-1"]),
    "float": ("float", [0.1, 2.0], ["0.1", "2"]),
    "double": ("double", [0.1, float("nan")], ["0.1", ""]),
    "boolean": ("boolean", [True], ["true"]),
    "bytes": ("bytes", [b"a", b"\xff"], ["a", ""]),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, [b"ab"], ["ab"]),
    "null": ("null", [None], [""]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        [Decimal("1.50")],
        ["1.5"],
    ),
    "date": ({"type": "int", "logicalType": "date"}, [date(2024, 1, 2)], ["2024-01-02"]),
    "moment": (
        {"type": "long", "logicalType": "timestamp-millis"},
        [datetime(2024, 1, 2, tzinfo=timezone.utc)],
        ["2024-01-02 00:00:00Z"],
    ),
    "record": (
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]},
        [{"x": 1}],
        ['{"x": 1}'],
    ),
    "array": ({"type": "array", "items": "int"}, [[1, 2]], ["[1, 2]"]),
}


@pytest.mark.parametrize("name", AVRO_TYPES)
def test_avro_values_of_every_type_have_their_texts(tmp_path, name):
    kind, values, expected = AVRO_TYPES[name]
    data = avro_bytes(
        [("t", "w", value) for value in values], types={"task": "string", "worker": "string", "label": kind}
    )
    assert read(write(tmp_path, "x.avro", data)) == ({at: ("t", "w", text) for at, text in enumerate(expected)}, [])


def avro_blocks(data):
    """The places at which the blocks of a file begin, and its end."""
    places, at = [], data.index(b"0123456789abcdef")
    while at >= 0:
        places.append(at + 16)
        at = data.find(b"0123456789abcdef", at + 1)
    return places


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_a_truncated_avro_file_counts_up_to_the_last_whole_block(tmp_path, small, codec):
    data = avro_bytes(ROWS, codec=codec)
    places = avro_blocks(data)
    for cut in (places[3] + 1, places[3] + 40, places[4] - 1, len(data) - 1):
        found, bad = read(write(tmp_path, "x.avro", data[:cut]))
        assert bad == [(len(found), "unreadable-rest", "")]
        assert found == dict(enumerate(ROWS[: len(found)]))
        assert len(found) > 0
    assert read(write(tmp_path, "x.avro", data[: places[3]]))[1] == []


def test_an_avro_file_with_a_damaged_sync_marker_counts_up_to_it(tmp_path, small):
    data = bytearray(avro_bytes(ROWS))
    data[avro_blocks(data)[2] - 3] ^= 255
    found, bad = read(write(tmp_path, "x.avro", bytes(data)))
    assert bad == [(len(found), "unreadable-rest", "")]
    assert found == dict(enumerate(ROWS[: len(found)]))


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\xff\x3f", b"\xff\xff\x03", b"\x01", b"\xff" * 11])
def test_an_avro_block_that_claims_impossible_sizes_does_no_harm(tmp_path, count):
    data = avro_bytes(ROWS, codec="null")
    place = avro_blocks(data)[1]
    end = place
    while data[end] >= 128:
        end += 1
    found, bad = read(write(tmp_path, "x.avro", data[:place] + count + data[end + 1 :]))
    assert [(position, reason) for position, reason, _ in bad] == [(len(found), "unreadable-rest")]
    assert found == dict(enumerate(ROWS[: len(found)]))


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_damaged_avro_block_is_one_bad_record_and_the_blocks_around_it_count(tmp_path, small, codec):
    data = bytearray(avro_bytes(ROWS, codec=codec))
    begin, end = avro_blocks(data)[1:3]
    for place in range(begin + 8, end - 20):
        data[place] ^= 0x5A
    found, bad = read(write(tmp_path, "x.avro", bytes(data)))
    ((position, reason, _),) = bad
    assert reason == "unreadable-block"
    lost = len(ROWS) - len(found)
    assert lost > 5
    assert found == {at: row for at, row in enumerate(ROWS) if not position <= at < position + lost}


def test_an_avro_text_that_is_not_utf8_is_lost_alone(tmp_path):
    data = avro_bytes([("taaat", "w", "l"), ("u", "w", "l")], codec="null").replace(b"taaat", b"ta\xffat")
    assert read(write(tmp_path, "x.avro", data)) == ({0: ("", "w", "l"), 1: ("u", "w", "l")}, [])


def test_an_avro_header_may_be_longer_than_a_peek(tmp_path, monkeypatch):
    monkeypatch.setattr(avro, "_HEADER_BYTES", 32)
    assert read(write(tmp_path, "x.avro", avro_bytes(ROWS))) == (dict(enumerate(ROWS)), [])


def test_an_avro_file_of_single_values_has_no_columns(tmp_path):
    out = io.BytesIO()
    fastavro.writer(out, "string", ["a"])
    with pytest.raises(ValueError, match="no fields"):
        avro.columns_of(str(write(tmp_path, "x.avro", out.getvalue())))


def test_no_damage_to_a_file_ends_the_process_or_raises_what_is_not_expected(tmp_path):
    data = avro_bytes(ROWS[:60], codec="null", sync_interval=200)
    header = avro_blocks(data)[0]
    for number in range(150):
        rng = random.Random(number)
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 3])):
            damaged[rng.randrange(len(data))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path = write(tmp_path, "x.avro", bytes(damaged))
        try:
            avro.columns_of(str(path))
            found, bad = read(path, avro.columns_of(str(path)))
        except ValueError:
            assert damaged[:header] != data[:header]
            continue
        assert len(found) <= 60
        assert {reason for _, reason, _ in bad} <= {"unreadable-rest", "unreadable-block"}
