"""Bad input, file by file: missing columns, damage, nothing at all, wrong paths."""

import gzip
import io

import pyarrow.parquet as pq
import pytest
import zstandard
from bad_input_runs import run_files, run_paths
from source_files import avro_bytes, csv_bytes, jsonl_bytes, parquet_bytes

from pipelines.errors import InputError
from pipelines.records import REASONS
from pipelines.texts import MAX_BYTES

GOOD = [(f"t{task}", worker, "x" if (task + n) % 3 else "y") for task in range(4) for n, worker in enumerate("abc")]
MANY = [(f"t{number:05}", "abc"[number % 3], "xy"[number % 2]) for number in range(24_000)]
PACKED = {
    "x.csv.gz": gzip.compress(csv_bytes(MANY)),
    "x.jsonl.gz": gzip.compress(jsonl_bytes(MANY)),
    "x.csv.zst": zstandard.compress(csv_bytes(MANY)),
    "x.jsonl.zst": zstandard.compress(jsonl_bytes(MANY)),
    "x.avro": avro_bytes(MANY),
}
UNUSABLE = {
    "truncated.parquet": parquet_bytes(GOOD)[:-10],
    "no.parquet": b"these are no labels",
    "no.avro": csv_bytes(GOOD),
    "truncated.avro": avro_bytes(GOOD)[:60],
    "truncated.csv.gz": gzip.compress(csv_bytes(GOOD))[:11],
    "no.jsonl": b"[1, 2]",
}


@pytest.mark.parametrize("name", ["x.parquet", "x.avro", "x.csv", "x.jsonl", "x.csv.gz"])
def test_a_missing_column_is_an_error_before_anything_runs(tmp_path, name):
    write = {"parquet": parquet_bytes, "avro": avro_bytes, "csv": csv_bytes, "jsonl": jsonl_bytes}[name.split(".")[1]]
    data = write([("t", "w", "x")], ("task", "annotator", "label"))
    with pytest.raises(InputError, match=r"has no column 'worker'; it has .*'annotator'.* --columns worker="):
        run_files(tmp_path, {name: gzip.compress(data) if name.endswith("gz") else data})
    assert not (tmp_path / "run0").exists()
    found = run_files(
        tmp_path, {"y.csv": csv_bytes(GOOD, ("task", "the worker", "label"))}, columns=(("worker", "the worker"),)
    )
    assert found.counts["labels_used"] == len(GOOD)


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unreadable_file_is_an_error_before_anything_runs(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name} cannot be read as .*damaged, or of another format"):
        run_files(tmp_path, {"good.csv": csv_bytes(GOOD), name: UNUSABLE[name]})
    assert not (tmp_path / "run0").exists()


@pytest.mark.parametrize("name", PACKED)
def test_what_a_truncated_file_still_holds_counts_and_the_rest_is_one_reject(tmp_path, name):
    data = PACKED[name]
    found = run_files(tmp_path, {"good.csv": csv_bytes(GOOD), name: data[: len(data) * 3 // 4]})
    n_read = found.counts["labels_used"] - len(GOOD)
    assert len(MANY) / 5 < n_read < len(MANY)
    assert found.rejects == [(name, n_read, "unreadable-rest")]
    tasks = {row["task"] for row in found.rows("scores")}
    assert tasks == {task for task, *_ in GOOD} | {task for task, *_ in MANY[:n_read]}


def test_what_surrounds_a_damaged_block_counts(tmp_path):
    avro = bytearray(avro_bytes(MANY))
    middle = avro.index(b"0123456789abcdef", len(avro) // 2) + 40
    avro[middle : middle + 20] = bytes(20)
    parquet = bytearray(parquet_bytes(MANY, row_group_size=4000, use_dictionary=False, compression="zstd"))
    page = pq.ParquetFile(io.BytesIO(parquet)).metadata.row_group(2).column(0).data_page_offset
    parquet[page : page + 40] = b"\xff" * 40
    found = run_files(tmp_path, {"a.avro": bytes(avro), "b.parquet": bytes(parquet)})
    (in_avro, in_parquet) = found.rejects
    assert in_avro[::2] == ("a.avro", "unreadable-block")
    assert in_parquet == ("b.parquet", 8000, "unreadable-block")
    assert found.counts["labels_used"] == len(MANY)
    assert len(MANY) - 1000 < found.counts["labels_repeated"] + 4000 < len(MANY)


def test_empty_files_beside_a_good_one_give_nothing(tmp_path):
    empty = {
        "a.csv": b"",
        "b.parquet": b"",
        "c.avro": b"",
        "d.jsonl": b"",
        "e.csv.gz": gzip.compress(b""),
        "f.csv": b"\n",
    }
    found = run_files(tmp_path, {**empty, "good.csv": csv_bytes(GOOD)})
    assert found.counts["labels_read"] == found.counts["labels_used"] == len(GOOD)
    assert len(found.manifest["inputs"]) == 7


def test_files_without_any_record_are_a_run_without_answers(tmp_path):
    files = {"a.csv": csv_bytes([]), "b.parquet": parquet_bytes([]), "c.avro": avro_bytes([]), "d.jsonl": b"\n"}
    found = run_files(tmp_path, files)
    assert found.counts["labels_read"] == found.counts["tasks"] == 0
    assert found.rows("scores") == found.rows("skills") == found.rows("graph") == []
    with pytest.raises(InputError, match=r"There is nothing to read.*Give files with labels"):
        run_files(tmp_path, {"a.csv": b"", "d.jsonl": b"\n"})


@pytest.mark.parametrize("given", ["folder", "glob", "nowhere", "nowhere/*.csv", "empty", "labels"])
def test_folders_and_globs_are_read_and_wrong_paths_are_told(tmp_path, given):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "labels").write_bytes(csv_bytes(GOOD))
    for name, rows in (("a.csv", GOOD[:6]), ("b.csv", GOOD[6:])):
        (tmp_path / "folder" / name).write_bytes(csv_bytes(rows))
    if given in ("folder", "glob"):
        path = tmp_path / "folder" / "*.csv" if given == "glob" else tmp_path / "folder"
        assert run_paths(tmp_path, [path]).counts["labels_used"] == len(GOOD)
    elif given == "labels":
        with pytest.raises(InputError, match=r"has none of the known endings.*Say what it is with --input-format"):
            run_paths(tmp_path, [tmp_path / given])
        assert run_paths(tmp_path, [tmp_path / given], input_format="csv").counts["labels_used"] == len(GOOD)
    else:
        with pytest.raises(InputError, match=r"names no file. Check the path"):
            run_paths(tmp_path, [tmp_path / given])


def test_every_reason_can_be_given_in_one_run(tmp_path):
    long = "x" * (MAX_BYTES + 1)
    lines = [
        b"task,worker,label,time,op",
        *(
            b",a,x,1,",
            b"t,,x,1,",
            b"t,a,,1,",
            b"t,a,z,1,",
            b"t,a,x,soon,",
            b"t,a,x,1,undo",
            b"t,a",
            b"\xff,a,x,1,",
            b"t,\xff,x,1,",
            b"t,a,\xff,1,",
        ),
        *(line.encode() for line in (f"{long},a,x,1,", f"t,{long},x,1,", f"t,a,{long},1,")),
        *(b"t,a,x,1,", b"t,a,y,2,", b"u,b,x,1,"),
    ]
    parquet = bytearray(parquet_bytes(GOOD, compression="gzip"))
    parquet[4:40] = b"\xff" * 36
    files = {"x.csv": b"\n".join(lines), "x.parquet": bytes(parquet), "x.avro": PACKED["x.avro"][:-1]}
    found = run_files(tmp_path, files, aggregate={"classes": ("x", "y"), "repeats": "error"})
    assert {reason for *_, reason in found.rejects} == REASONS
