"""Parquet: parts, names and damaged row groups."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
from source_files import (
    ROWS,
    parquet_bytes,
    read,
    write,
)

from pipelines.sources import parquet


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
