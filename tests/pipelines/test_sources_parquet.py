"""Parquet: parts, names and damaged row groups."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_files import (
    ROWS,
    parquet_bytes,
    read,
    write,
)

from pipelines.sources import FilePart, parquet


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


@pytest.mark.parametrize(("n_workers", "is_coded"), [(50, True), (30_000, False)])
def test_workers_are_read_as_codes_where_the_file_has_codes(tmp_path, n_workers, is_coded):
    rows = [(f"t{n}", f"worker-{n % n_workers}", "x") for n in range(30_000)]
    path = write(tmp_path, "x.parquet", parquet_bytes(rows, dictionary_pagesize_limit=10_000, row_group_size=30_000))
    columns = (("task", "task"), ("worker", "worker"), ("label", "label"))
    (chunk,) = (lazy() for lazy in parquet.chunks_of(FilePart(str(path), 0, "labels", "parquet", columns)))
    assert pa.types.is_dictionary(chunk.columns["worker"].type) is is_coded
    assert chunk.columns["worker"].to_pylist() == [worker for _, worker, _ in rows]
