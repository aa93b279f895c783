"""Every format gives the same records at the same positions, whole or damaged, in one block or in many."""

import gzip
import io
import json
import zlib
from datetime import date, datetime, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from memory_files import FILES

from pipelines.inputs import SUFFIXES, ending_of
from pipelines.read import FORMATS
from pipelines.sources import FilePart, as_array, avro, csv, jsonl, parquet
from pipelines.sources.storage import open_stream
from pipelines.texts import texts_of

NAMES = ("task", "worker", "label")
ODD = ["a,b", 'say "hi"', "two\nlines", "é😀", " blank ", "'", "\\", "\t", '5" pipe', "\u2028"]
ROWS = [(f"{odd}{number}", f"w{number % 7}", odd) for number in range(40) for odd in ODD]


def csv_bytes(rows, names=NAMES, newline="\n", delimiter=","):
    def quoted(value):
        return '"' + value.replace('"', '""') + '"' if any(sign in value for sign in '",\n\t\r') else value

    return "".join(delimiter.join(map(quoted, row)) + newline for row in [names, *rows]).encode()


def jsonl_bytes(rows, names=NAMES):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def avro_bytes(rows, names=NAMES, codec="deflate", sync_interval=1000, types=None):
    types = types or dict.fromkeys(names, "string")
    schema = {"type": "record", "name": "L", "fields": [{"name": name, "type": types[name]} for name in names]}
    out = io.BytesIO()
    records = [dict(zip(names, row, strict=True)) for row in rows]
    fastavro.writer(out, schema, records, codec, sync_interval, sync_marker=b"0123456789abcdef")
    return out.getvalue()


def parquet_bytes(rows, names=NAMES, row_group_size=90, **options):
    out = io.BytesIO()
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    pq.write_table(
        pa.table([pa.array(column, pa.string()) for column in columns], names), out, row_group_size, **options
    )
    return out.getvalue()


WRITERS = {
    "x.parquet": parquet_bytes,
    "x.avro": avro_bytes,
    "x.csv": csv_bytes,
    "x.tsv": lambda rows: csv_bytes(rows, delimiter="\t"),
    "x.jsonl": jsonl_bytes,
    "x.csv.gz": lambda rows: gzip.compress(csv_bytes(rows)),
    "x.jsonl.gz": lambda rows: gzip.compress(jsonl_bytes(rows)),
    "x.csv.zst": lambda rows: zstandard.compress(csv_bytes(rows)),
    "x.jsonl.zst": lambda rows: zstandard.compress(jsonl_bytes(rows)),
}


def chunks_of(path, names=NAMES):
    kind = SUFFIXES[ending_of(str(path))]
    part = FilePart(str(path), 0, "labels", kind, tuple((name, name) for name in names))
    return [lazy() for lazy in FORMATS[kind].chunks_of(part)]


def read(path, names=NAMES):
    """({position: values}, [(position, reason, record)])."""
    found, bad = {}, []
    for chunk in chunks_of(path, names):
        bad += [(one.position, one.reason, one.record) for one in chunk.bad]
        if not chunk.columns:
            continue
        texts = [texts_of(chunk.columns[name])[0].to_pylist() for name in names]
        positions = range(chunk.first, chunk.first + len(texts[0])) if chunk.positions is None else chunk.positions
        assert len(positions) == len(texts[0])
        for position, row in zip(positions, zip(*texts, strict=True), strict=True):
            assert position not in found
            found[int(position)] = row
    return found, bad


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.fixture(params=["whole", "in small pieces"])
def small(request, monkeypatch):
    """Runs a test twice: with a file in one block, and in many."""
    if request.param == "in small pieces":
        monkeypatch.setattr(csv, "BLOCK_BYTES", 700)
        monkeypatch.setattr(jsonl, "BLOCK_BYTES", 300)
        monkeypatch.setattr(avro, "CHUNK_BYTES", 300)
        monkeypatch.setattr(parquet, "ROWS_PER_PART", 100)
    return request.param != "whole"


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_records_at_the_same_positions(tmp_path, small, name):
    path = write(tmp_path, name, WRITERS[name](ROWS))
    assert FORMATS[SUFFIXES[ending_of(name)]].columns_of(str(path)) == list(NAMES)
    assert read(path) == (dict(enumerate(ROWS)), [])
    if small and not name.startswith("x.parquet"):
        assert len(chunks_of(path)) > 3


@pytest.mark.parametrize("name", WRITERS)
def test_files_elsewhere_are_read_through_beam(name):
    FILES[f"memory://bucket/{name}"] = WRITERS[name](ROWS)
    assert read(f"memory://bucket/{name}") == (dict(enumerate(ROWS)), [])


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_without_records_gives_none(tmp_path, name):
    path = write(tmp_path, name, WRITERS[name]([]))
    kind = SUFFIXES[ending_of(name)]
    assert FORMATS[kind].columns_of(str(path)) == ([] if kind == "jsonl" else list(NAMES))
    assert read(path) == ({}, [])


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.jsonl.zst"])
def test_a_file_with_nothing_in_it_has_no_columns(tmp_path, name):
    for nothing in (b"", b"\n\n \n" if "json" in name else b"\n\r\n"):
        packed = gzip.compress(nothing) if name.endswith("gz") else nothing
        path = write(tmp_path, name, zstandard.compress(nothing) if name.endswith("zst") else packed)
        assert FORMATS[SUFFIXES[ending_of(name)]].columns_of(str(path)) == []


def test_a_parquet_file_is_read_in_parts_that_know_where_they_begin(tmp_path, small):
    path = write(tmp_path, "x.parquet", parquet_bytes(ROWS))
    parts = parquet.parts_of(str(path))
    assert sum(rows for *_, rows in parts) == len(ROWS)
    assert len(parts) == (5 if small else 1)
    for first, groups, rows in parts:
        part = FilePart(str(path), 0, "labels", "parquet", (("task", "task"),), first, groups)
        (chunk,) = [lazy() for lazy in parquet.chunks_of(part)]
        assert chunk.first == first
        assert texts_of(chunk.columns["task"])[0].to_pylist() == [row[0] for row in ROWS[first : first + rows]]


# --- CSV ---


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


# --- JSON lines ---


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


def test_a_json_line_longer_than_a_block_is_read(tmp_path, small):
    rows = [("t" * 5000, "w", "l"), ("u", "w", "l")]
    assert read(write(tmp_path, "x.jsonl", jsonl_bytes(rows))) == (dict(enumerate(rows)), [])


# --- compression ---


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compression_is_known_by_the_bytes_and_may_come_in_pieces(tmp_path, name, pack):
    data = WRITERS[name](ROWS)
    pieces = pack(data[:100]) + pack(data[100:]) + (b"\0" * 50 if pack is gzip.compress else b"")
    for ending in ("", ".gz", ".zst"):
        assert read(write(tmp_path, name + ending, pieces)) == (dict(enumerate(ROWS)), [])
    assert read(write(tmp_path, f"{name}.gz", data)) == (dict(enumerate(ROWS)), [])


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_truncated_compressed_file_counts_up_to_the_last_whole_record(tmp_path, small, name, pack, share):
    rows = [(f"t{number * 7919 % 100_003}", f"w{number % 7}", "some label, quoted") for number in range(20_000)]
    data = pack(WRITERS[name](rows))
    found, bad = read(write(tmp_path, name, data[: int(len(data) * share)]))
    assert bad == [(len(found), "unreadable-rest", "")]
    assert found == dict(enumerate(rows[: len(found)]))
    assert len(found) > 0.3 * share * len(rows)


def test_gzip_data_with_a_wrong_checksum_are_told(tmp_path):
    data = bytearray(gzip.compress(csv_bytes(ROWS)))
    data[-6] ^= 255
    found, bad = read(write(tmp_path, "x.csv.gz", bytes(data)))
    assert (found, bad) == (dict(enumerate(ROWS)), [(len(ROWS), "unreadable-rest", "")])


def test_a_stream_gives_what_precedes_the_damage_and_then_the_damage(tmp_path):
    whole = bytes(range(256)) * 400
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(whole) + packer.flush(zlib.Z_FULL_FLUSH)
    with open_stream(str(write(tmp_path, "x.gz", data))) as stream:
        assert stream.read(len(whole) + 10) == whole
        for _ in range(2):
            with pytest.raises(ValueError, match="gzip data are damaged"):
                stream.read(1)


# --- Avro ---


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


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
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


# --- Parquet ---


def test_a_damaged_row_group_is_one_bad_record_and_the_others_count(tmp_path, small):
    data = bytearray(parquet_bytes(ROWS, compression="snappy", use_dictionary=False))
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1)
    for column in range(3):
        chunk = group.column(column)
        for place in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size):
            data[place] ^= 0x5A
    found, bad = read(write(tmp_path, "x.parquet", bytes(data)))
    assert bad == [(90, "unreadable-block", "")]
    assert found == {at: row for at, row in enumerate(ROWS) if not 90 <= at < 180}


def test_a_parquet_file_whose_only_row_group_is_damaged_gives_its_bad_record(tmp_path):
    data = bytearray(parquet_bytes(ROWS[:5], compression="gzip"))
    data[4:40] = b"\xff" * 36
    assert read(write(tmp_path, "x.parquet", bytes(data))) == ({}, [(0, "unreadable-block", "")])


def test_parquet_columns_may_have_dots_and_blanks_in_their_names(tmp_path):
    names = ("my.task", "the worker", "label ")
    path = write(tmp_path, "x.parquet", parquet_bytes([("t", "w", "l")], names))
    assert parquet.columns_of(str(path)) == list(names)
    assert read(path, names) == ({0: ("t", "w", "l")}, [])


def test_parquet_fields_of_structs_are_not_mistaken_for_columns(tmp_path):
    table = pa.table({"task": ["t"], "worker": [{"id": "w"}], "label": ["l"]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet") == ({0: ("t", '{"id": "w"}', "l")}, [])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.int64()])
@pytest.mark.parametrize("n_pieces", [0, 1, 3])
def test_a_column_in_pieces_becomes_one_array(kind, n_pieces):
    pieces = [pa.array([str(10 + piece), "1"]).cast(pa.int64()) for piece in range(n_pieces)]
    if kind != pa.int64():
        pieces = [piece.cast(pa.string()).cast(kind) for piece in pieces]
    array = as_array(pa.chunked_array(pieces, kind))
    assert texts_of(array)[0].to_pylist() == [text for piece in range(n_pieces) for text in (str(10 + piece), "1")]
