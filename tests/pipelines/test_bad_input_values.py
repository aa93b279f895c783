"""Bad input in the values: types nobody asked for, times of every kind, and all that a CSV file can do."""

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bad_input_runs import run_files
from source_files import avro_bytes, csv_bytes, jsonl_bytes

EARLY, LATE = datetime(2024, 1, 2, 3, 4, 5), datetime(2024, 1, 2, 3, 4, 5, 1)


def parquet_file(folder, name, columns, **options):
    pq.write_table(pa.table(columns), folder / name, **options)
    return {name: (folder / name).read_bytes()}


TYPES = {
    "int8": (pa.array([1, 2], pa.int8()), {"1", "2"}),
    "uint64": (pa.array([2**64 - 1, 3], pa.uint64()), {str(2**64 - 1), "3"}),
    "int64 with null": (pa.array([-(2**63), 4, None]), {str(-(2**63)), "4"}),
    "float as pandas writes integers with gaps": (pa.array([5.0, float("nan"), 2.0**60]), {"5", str(2**60)}),
    "float": (pa.array([0.25, 1e300]), {"0.25", "1e+300"}),
    "float32": (pa.array([0.1], pa.float32()), {"0.1"}),
    "float16": (pa.array(np.array([0.2], np.float16)), {"0.2"}),
    "bool": (pa.array([True, False, None]), {"true", "false"}),
    "decimal": (pa.array([Decimal("7.10")], pa.decimal128(9, 2)), {"7.1"}),
    "date": (pa.array([date(2024, 1, 2)]), {"2024-01-02"}),
    "moment": (pa.array([EARLY, LATE]), {"2024-01-02 03:04:05", "2024-01-02 03:04:05.000001"}),
    "category": (pa.array(["red", "blue", None]).dictionary_encode(), {"red", "blue"}),
    "category of integers": (pa.array([10, 11]).dictionary_encode(), {"10", "11"}),
    "category nobody has": (pa.DictionaryArray.from_arrays(pa.array([1]), pa.array(["", "green"])), {"green"}),
    "large text": (pa.array(["large"], pa.large_string()), {"large"}),
    "text view": (pa.array(["view"], pa.string_view()), {"view"}),
    "bytes": (pa.array([b"bytes"]), {"bytes"}),
    "bytes of one size": (pa.array([b"fixed"], pa.binary(5)), {"fixed"}),
    "struct": (pa.array([{"a": 1}]), {'{"a": 1}'}),
    "nothing at all": (pa.nulls(2), set()),
}


def test_ids_and_labels_of_every_type_come_out_as_texts(tmp_path):
    files = {}
    for number, (column, _) in enumerate(TYPES.values()):
        files |= parquet_file(tmp_path, f"{number}.parquet", {"task": column, "worker": column, "label": column})
    found = run_files(tmp_path, files)
    expected = set().union(*(texts for _, texts in TYPES.values()))
    assert found.column("scores", "task", "label") == {text: text for text in expected}
    assert {row["worker"] for row in found.rows("skills")} == expected
    assert found.manifest["classes"] == sorted(expected)
    n_rows = sum(len(column) for column, _ in TYPES.values())
    assert found.counts["labels_read"] == n_rows
    assert {reason for *_, reason in found.rejects} == {"missing-task"}


def test_a_nan_label_is_missing_whatever_the_format(tmp_path):
    nan = float("nan")
    rows = [("t", "a", nan), ("u", "a", 1.0)]
    labels = {"task": ["t", "u"], "worker": ["a", "a"]}
    types = {"task": "string", "worker": "string", "label": "double"}
    files = {
        **parquet_file(tmp_path, "x.parquet", {**labels, "label": [nan, 1.0]}),
        **parquet_file(tmp_path, "y.parquet", {**labels, "label": pa.array([nan, 1], pa.float32())}),
        "x.avro": avro_bytes(rows, types=types),
        "x.jsonl": jsonl_bytes(rows),
    }
    found = run_files(tmp_path, files)
    assert found.rejects == [(name, 0, "missing-label") for name in sorted(files)]
    assert found.manifest["classes"] == ["1"]


def stamped(times, kind=None):
    """Columns in which the later label stands first, so that only the time tells which is the last."""
    column = times if isinstance(times, pa.Array) else pa.array(times, kind)
    return {"label": ["late", "early"], "worker": ["a", "a"], "time": column}


KINDS = {
    "seconds": stamped([datetime(2024, 1, 2, 3, 4, 6), EARLY], pa.timestamp("s")),
    "microseconds": stamped([LATE, EARLY], pa.timestamp("us")),
    "nanoseconds in a zone": stamped([LATE, EARLY], pa.timestamp("ns", "Asia/Tokyo")),
    "dates": stamped([date(2024, 1, 3), date(2024, 1, 2)]),
    "integers": stamped([1_700_000_001, 1_700_000_000]),
    "large integers": stamped([1_700_000_000_000_000_001, 1_700_000_000_000_000_000]),
    "unsigned": stamped([2**61, 5], pa.uint64()),
    "fractions": stamped([1_700_000_000.75, 1_700_000_000.25]),
    "fractions below one": stamped([0.75, 0.25]),
    "microseconds as floats": stamped([1.700000000000001e15, None], pa.float64()),
    "decimals": stamped([Decimal("0.2"), Decimal("0.1")]),
    "null before any time": stamped([-5, None]),
    "iso": stamped(["2024-01-02T03:04:05.000001", "2024-01-02 03:04:05"]),
    "iso in zones": stamped(["2024-01-02T03:04:05+00:00", "2024-01-02T05:04:04+02:00"]),
    "iso with and without a zone": stamped(["2024-01-02T03:04:05Z", "2024-01-02T03:04:04"]),
    "iso with nanoseconds": stamped(["2024-01-02T03:04:05.100000000Z", "2024-01-02T03:04:05.099999999Z"]),
    "numbers in texts": stamped(["10", "9"]),
    "fractions in texts": stamped(["10.5", "10.25"]),
    "categories": stamped(pa.array(["2024-01-03", "2024-01-02"]).dictionary_encode()),
    "bytes": stamped([b"10", b"9"]),
}


def test_the_last_label_is_the_one_with_the_latest_time_of_any_kind(tmp_path):
    files = {}
    for number, (name, columns) in enumerate(KINDS.items()):
        files |= parquet_file(tmp_path, f"{number}.parquet", {"task": [name, name], **columns})
    old = {"task": ["int96"] * 2, **KINDS["microseconds"]}
    files |= parquet_file(tmp_path, "int96.parquet", old, use_deprecated_int96_timestamps=True)
    found = run_files(tmp_path, files)
    assert found.column("scores", "task", "label") == dict.fromkeys([*KINDS, "int96"], "late")
    assert found.counts["labels_repeated"] == len(files)
    first = run_files(tmp_path, files, aggregate={"repeats": "first"})
    assert set(first.column("scores", "task", "label").values()) == {"early"}


def test_times_of_different_files_are_compared(tmp_path):
    names = ("task", "worker", "label", "time")
    files = {
        "a.csv": csv_bytes([("t", "a", "third", "2024-01-02T03:04:05.5Z")], names),
        **parquet_file(tmp_path, "b.parquet", {"task": ["t"], "worker": ["a"], "label": ["second"], "time": [EARLY]}),
        "c.jsonl": jsonl_bytes([("t", "a", "first", "2024-01-01")], names),
        "d.csv": csv_bytes([("t", "a", "none", "")], names),
        "e.csv": csv_bytes([("t", "a", "no column")]),
    }
    assert run_files(tmp_path, files).column("scores", "task", "label") == {"t": "third"}


def test_a_malformed_time_rejects_its_label_and_a_missing_one_does_not(tmp_path):
    names = ("task", "worker", "label", "when")
    times = ["2024-01-02", "soon", "", "2024-13-01", "7", "1e400", "2024-01-02T25:00"]
    rows = [(f"t{at}", "a", "x", time) for at, time in enumerate(times)]
    as_json = [(*row[:3], {"": None, "7": 7}.get(row[3], row[3])) for row in rows]
    files = {"x.csv": csv_bytes(rows, names), "x.jsonl": jsonl_bytes(as_json, names)}
    columns = {"task": ["p", "q"], "worker": ["a", "a"], "label": ["x", "x"]}
    files |= parquet_file(tmp_path, "x.parquet", {**columns, "when": pa.array([2**62, 0], pa.timestamp("us"))})
    found = run_files(tmp_path, files, columns=(("time", "when"),))
    wrong = [(name, at, "malformed-time") for name in ("x.csv", "x.jsonl") for at in (1, 3, 5, 6)]
    assert found.rejects == [*wrong, ("x.parquet", 0, "malformed-time")]
    assert {row["task"] for row in found.rows("scores")} == {"t0", "t2", "t4", "q"}
    shown = [json.loads(row["record"])["time"] for row in found.rows("rejects") if row["source"].endswith("csv")]
    assert shown == ["soon", "2024-13-01", "1e400", "2024-01-02T25:00"]


def test_a_csv_file_may_have_a_byte_order_mark_odd_line_ends_quotes_and_lines_of_wrong_length(tmp_path):
    lines = [
        b'\xef\xbb\xbf"the task",note,worker,note,label,when',
        b"t0,1,a,2,x,3",
        b't1,"several\r\nlines",a,2,x,3',
        b"",
        b"t2,1,a",
        b'"t3","1","a","2","x","3"',
        b"t4,1,a,2,x,3,more",
        b't5,,a,,"x",',
        b't"6,1,a,2,x,3',
    ]
    good = {f"t{number}" for number in (0, 1, 3, 5)} | {'t"6'}
    files = {"crlf.csv": b"\r\n".join(lines), "lf.csv": b"\n".join(lines) + b"\n", "cr.csv": b"\r".join(lines)}
    files["tabs.tsv"] = b"\n".join(lines).replace(b",", b"\t")
    found = run_files(tmp_path, files, columns=(("task", "the task"),))
    wrong = [(name, at, "malformed-record") for name in sorted(files) for at in (2, 4)]
    assert found.rejects == wrong
    assert {row["task"] for row in found.rows("scores")} == good
    assert found.counts["labels_read"] == 4 * 7
    records = {row["record"] for row in found.rows("rejects") if row["source"].endswith("crlf.csv")}
    assert records == {"t2,1,a", "t4,1,a,2,x,3,more"}


def test_json_lines_may_be_blank_wrong_or_in_another_order(tmp_path):
    lines = [
        '{"label": "x", "task": "t0", "worker": "a"}',
        "",
        '{"task": "t1", "worker": "a"}',
        "not json",
        '  {"task": "t2", "worker": 7, "label": "x", "more": [1]}',
        '["t3", "a", "x"]',
        '{"task": "t4", "worker": "a", "label": "x"',
    ]
    found = run_files(tmp_path, {"x.jsonl": "\ufeff".encode() + "\r\n".join(lines).encode()})
    assert found.rejects == [
        ("x.jsonl", 2, "missing-label"),
        ("x.jsonl", 3, "malformed-record"),
        ("x.jsonl", 5, "malformed-record"),
        ("x.jsonl", 6, "malformed-record"),
    ]
    assert found.column("skills", "worker", "n_labels") == {"a": 1, "7": 1}


def test_avro_moments_and_unions_are_read(tmp_path):
    utc = timezone.utc
    names = ("task", "worker", "label", "time")
    moment = ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    types = {"task": ["long", "string"], "worker": "int", "label": "boolean", "time": moment}
    rows = [(1, 7, True, LATE.replace(tzinfo=utc)), ("1", 7, False, EARLY.replace(tzinfo=utc)), ("1", 7, False, None)]
    found = run_files(tmp_path, {"x.avro": avro_bytes(rows, names, types=types)})
    assert found.column("scores", "task", "label") == {"1": "true"}
    assert found.counts["labels_repeated"] == 2
