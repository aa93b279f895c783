"""Every format gives the same records at the same positions, whole or in pieces, here or elsewhere, packed or not."""

import gzip
import zlib

import pyarrow as pa
import pytest
import zstandard
from memory_files import FILES
from source_files import (
    NAMES,
    ROWS,
    WRITERS,
    chunks_of,
    csv_bytes,
    parquet_bytes,
    read,
    write,
)

from pipelines.inputs import SUFFIXES, ending_of
from pipelines.sources import FilePart, as_array, is_damage, parquet
from pipelines.sources.formats import FORMATS
from pipelines.sources.storage import open_stream
from pipelines.texts import texts_of


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
@pytest.mark.parametrize("share", [0.6, 0.999])
def test_a_truncated_compressed_file_counts_up_to_the_last_whole_record(tmp_path, small, name, pack, share):
    rows = [(f"t{number * 7919 % 100_003}", f"w{number % 7}", "some label, quoted") for number in range(12_000)]
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


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.int64()])
@pytest.mark.parametrize("n_pieces", [0, 1, 3])
def test_a_column_in_pieces_becomes_one_array(kind, n_pieces):
    pieces = [pa.array([str(10 + piece), "1"]).cast(pa.int64()) for piece in range(n_pieces)]
    if kind != pa.int64():
        pieces = [piece.cast(pa.string()).cast(kind) for piece in pieces]
    array = as_array(pa.chunked_array(pieces, kind))
    assert texts_of(array)[0].to_pylist() == [text for piece in range(n_pieces) for text in (str(10 + piece), "1")]


@pytest.mark.parametrize(
    ("error", "damage"),
    [
        (pa.ArrowInvalid("corrupt"), True),
        (ValueError("corrupt"), True),
        (OSError("Corrupt snappy compressed data."), True),
        (OSError(5, "Input/output error"), False),
        (FileNotFoundError("gone"), False),
        (ConnectionResetError("the network"), False),
        (KeyError("a bug"), False),
    ],
)
def test_what_may_go_away_when_tried_again_is_no_damage(error, damage):
    assert is_damage(error) == damage
