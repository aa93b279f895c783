"""Bad input, word by word as the issue lists it: an error sentence before anything runs, a reject, or a status."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from bad_input_runs import run_files
from source_files import avro_bytes, csv_bytes, parquet_bytes

from pipelines.errors import InvalidSettingError
from pipelines.settings import AggregateSettings
from pipelines.texts import MAX_BYTES

GOOD = [(f"t{task}", worker, "x" if (task + n) % 3 else "y") for task in range(4) for n, worker in enumerate("abc")]
MEGABYTE = "m" * (1 << 20)
NULLABLE = {"task": ["null", "string"], "worker": ["null", "string"], "label": ["null", "string"]}


def nullable_jsonl(rows):
    return b"".join(json.dumps(dict(zip(NULLABLE, row, strict=True))).encode() + b"\n" for row in rows)


def texts(rows):
    return [tuple("" if value is None else value for value in row) for row in rows]


FORMATS = {
    "x.parquet": parquet_bytes,
    "x.avro": lambda rows: avro_bytes(rows, types=NULLABLE),
    "x.csv": lambda rows: csv_bytes(texts(rows)),
    "x.jsonl": nullable_jsonl,
    "x.csv.gz": lambda rows: gzip.compress(csv_bytes(texts(rows))),
    "x.jsonl.gz": lambda rows: gzip.compress(nullable_jsonl(rows)),
    "x.csv.zst": lambda rows: zstandard.compress(csv_bytes(texts(rows))),
    "x.jsonl.zst": lambda rows: zstandard.compress(nullable_jsonl(rows)),
}

ODD_IDS = [
    "a,b",
    "two\nlines",
    'say "hi"',
    "'",
    "😀🏳️‍🌈",
    " ",
    "é\u0301",
    "\\",
    '5" pipe',
    "null",
    "\x00",
    "x" * MAX_BYTES,
]
WRONG = [
    ((None, "a", "x"), "missing-task"),
    (("", "a", "x"), "missing-task"),
    (("t0", None, "x"), "missing-worker"),
    (("t0", "", "x"), "missing-worker"),
    (("t0", "a", None), "missing-label"),
    (("t0", "a", ""), "missing-label"),
    ((MEGABYTE, "a", "x"), "too-long-task"),
    (("t0", MEGABYTE, "x"), "too-long-worker"),
    (("t0", "a", MEGABYTE), "too-long-label"),
    (("t0", "a", "neither"), "label-not-in-classes"),
    (("t0", "a", "X"), "label-not-in-classes"),
]


@pytest.mark.parametrize("name", FORMATS)
def test_wrong_records_are_rejected_where_they_stand_and_odd_ids_come_out_as_they_went_in(tmp_path, name):
    odd = [(task, worker, "x") for task in ODD_IDS for worker in ODD_IDS[:3]]
    rows = [*GOOD, *(row for row, _ in WRONG), *odd]
    found = run_files(tmp_path, {name: FORMATS[name](rows)}, aggregate={"classes": ("x", "y")})
    assert found.rejects == [(name, len(GOOD) + at, reason) for at, (_, reason) in enumerate(WRONG)]
    assert {row["task"] for row in found.rows("scores")} == {*ODD_IDS, *(task for task, *_ in GOOD)}
    assert found.column("skills", "worker", "n_labels") == dict.fromkeys("abc", 4) | dict.fromkeys(ODD_IDS[:3], 12)
    assert (found.counts["labels_read"], found.counts["labels_used"]) == (len(rows), len(GOOD) + len(odd))


@pytest.mark.parametrize("kind", ["avro", "csv", "jsonl"])
def test_odd_ids_come_out_as_they_went_in_in_every_output_format(tmp_path, kind):
    odd = [(task, worker, label) for task in ODD_IDS for worker, label in zip(ODD_IDS[:4], "xyxx", strict=True)]
    found = run_files(tmp_path, {"x.parquet": parquet_bytes([*odd, ("", "w", 'a,\n"b')])}, output_format=kind)
    assert {row["task"] for row in found.rows("scores")} == set(ODD_IDS)
    assert {row["worker"] for row in found.rows("skills")} == set(ODD_IDS[:4])
    assert found.column("scores", "task", "label") == dict.fromkeys(ODD_IDS, "x")
    assert json.loads(found.rows("rejects")[0]["record"]) == {"task": "", "worker": "w", "label": 'a,\n"b'}


def test_only_rejects_are_a_run_without_answers(tmp_path):
    found = run_files(tmp_path, {"x.csv": csv_bytes([("", "a", "x"), ("t", "", "x")])})
    assert found.rejects == [("x.csv", 0, "missing-task"), ("x.csv", 1, "missing-worker")]
    assert found.counts["tasks"] == 0


def test_bytes_that_are_not_utf8_are_rejected_by_field(tmp_path):
    lines = [b"t\xff,a,x", b"t,\xc3\x28,x", b"t,a,\xed\xa0\x80"]
    as_json = b"".join(b'{"task": "%s", "worker": "%s", "label": "%s"}\n' % tuple(line.split(b",")) for line in lines)
    columns = list(zip(*(line.split(b",") for line in lines), strict=True))
    for name, kind in (("b.parquet", pa.binary()), ("s.parquet", pa.string())):
        arrays = [pa.array(column, pa.binary()) for column in columns]
        arrays = [(kind == pa.string() and as_text(array)) or array for array in arrays]
        pq.write_table(pa.table(arrays, ["task", "worker", "label"]), tmp_path / name)
    files = {"x.csv": b"task,worker,label\n" + b"\n".join(lines), "x.jsonl": as_json}
    files |= {name: (tmp_path / name).read_bytes() for name in ("b.parquet", "s.parquet")}
    found = run_files(tmp_path, {"good.csv": csv_bytes(GOOD), **files})
    expected = ["malformed-task", "malformed-worker", "malformed-label"]
    assert found.rejects == [(name, at, reason) for name in sorted(files) for at, reason in enumerate(expected)]


def as_text(array):
    """Bytes that call themselves text, as some writers leave them."""
    return pa.StringArray.from_buffers(len(array), *array.buffers()[1:])


def test_values_of_mixed_types_in_a_json_column_are_one_label_if_their_texts_are_one(tmp_path):
    values = [1, "1", True, 1.0, None, {"a": 1}, "true", float("nan"), [1, "é"], 2**70]
    rows = [json.dumps({"task": f"t{at}", "worker": "w", "label": value}) for at, value in enumerate(values)]
    found = run_files(tmp_path, {"x.jsonl": "\n".join(rows).encode()})
    assert found.rejects == [("x.jsonl", 4, "missing-label"), ("x.jsonl", 7, "missing-label")]
    assert found.manifest["classes"] == sorted(["1", "true", '{"a": 1}', '[1, "é"]', str(2**70)])
    expected = ["1", "1", "true", "1", None, '{"a": 1}', "true", None, '[1, "é"]', str(2**70)]
    answers = {f"t{at}": text for at, text in enumerate(expected) if text}
    assert found.column("scores", "task", "label") == answers


@pytest.mark.parametrize("shape", ["a worker alone", "one label a task", "one class only"])
def test_thin_input_is_answered_and_flagged(tmp_path, shape):
    more = [(f"s{task}", worker, "xxy"[n]) for task in range(9) for n, worker in enumerate("abc")]
    if shape == "a worker alone":
        found = run_files(tmp_path, {"x.csv": csv_bytes([*more, ("lone", "z", "y")])})
        assert found.column("skills", "worker", "status")["z"] == "isolated"
        assert found.column("scores", "task", "status")["lone"] == "unknown-worker"
        assert found.counts["workers_isolated"] == 1
    elif shape == "one label a task":
        found = run_files(tmp_path, {"x.csv": csv_bytes([(f"t{n}", "ab"[n % 2], "xy"[n % 3 // 2]) for n in range(12)])})
        assert set(found.column("skills", "worker", "status").values()) == {"isolated"}
        assert set(found.column("scores", "task", "status").values()) == {"unknown-worker"}
        assert found.column("scores", "task", "label") == {f"t{n}": "xy"[n % 3 // 2] for n in range(12)}
    else:
        found = run_files(tmp_path, {"x.csv": csv_bytes([(task, worker, "x") for task, worker, _ in more])})
        assert found.manifest["classes"] == ["x"]
        assert set(found.column("scores", "task", "label").values()) == {"x"}
    for row in found.rows("scores"):
        assert 0 <= row["probability"] <= 1


def test_a_task_with_ten_thousand_labels_is_sampled_and_counted(tmp_path):
    rows = [("big", f"w{number}", "x" if number % 4 else "y") for number in range(10_000)]
    found = run_files(tmp_path, {"x.csv": csv_bytes([*rows, *GOOD])})
    assert found.counts["tasks_sampled"] == 1
    (big,) = [row for row in found.rows("scores") if row["task"] == "big"]
    assert (big["label"], big["n_labels"], big["n_workers"]) == ("x", 10_000, 10_000)


REPEATED = [("t", "a", "x", "3"), ("t", "a", "y", "1"), ("t", "a", "x", "2")]
AGREEING = [("t", "b", "y", "1"), ("t", "b", "y", "2")]


@pytest.mark.parametrize(("repeats", "with_time", "label"), [
    ("last", False, "x"), ("first", False, "x"), ("last", True, "x"), ("first", True, "y"), ("error", True, None),
])  # fmt: skip
def test_contradicting_repeats_follow_the_policy(tmp_path, repeats, with_time, label):
    rows = [*REPEATED, *AGREEING, ("u", "a", "x", "1")]
    names = ("task", "worker", "label", "time" if with_time else "other")
    found = run_files(tmp_path, {"x.csv": csv_bytes(rows, names)}, aggregate={"repeats": repeats})
    if label is None:
        assert found.rejects == [("x.csv", -1, "contradicting-repeat")] * 3
        assert (found.counts["labels_used"], found.counts["labels_repeated"]) == (2, 1)
    else:
        assert found.rejects == []
        assert (found.counts["labels_used"], found.counts["labels_repeated"]) == (3, 3)
        (edge,) = found.rows("edges")
        assert (edge["n_common"], edge["n_agree"]) == (1, int(label == "y"))


def test_when_every_label_contradicts_another_there_is_no_answer(tmp_path):
    found = run_files(tmp_path, {"x.csv": csv_bytes([row[:3] for row in REPEATED])}, aggregate={"repeats": "error"})
    assert (found.counts["labels_used"], found.counts["labels_rejected"]) == (0, 3)
    assert found.rows("scores") == []


def test_settings_that_cannot_be_used_are_told():
    with pytest.raises(InvalidSettingError, match="--classes names 'x' alone; name at least two classes"):
        AggregateSettings(classes=("x",))
    with pytest.raises(InvalidSettingError, match="--repeats is 'all'; it takes last, first, error"):
        AggregateSettings(repeats="all")


def test_gold_is_rejected_by_the_same_rules_and_counted_apart(tmp_path):
    gold = csv_bytes([("t0", "x"), ("", "x"), ("t1", "z"), ("t2", ""), ("other", "x"), ("t0", "x")], ("task", "label"))
    found = run_files(
        tmp_path, {"x.csv": csv_bytes(GOOD), "g.csv": gold}, gold=("g.csv",), aggregate={"classes": ("x", "y")}
    )
    reasons = [(1, "missing-task"), (2, "label-not-in-classes"), (3, "missing-label")]
    assert found.rejects == [("g.csv", position, reason) for position, reason in reasons]
    counts = found.counts
    assert (counts["gold_read"], counts["gold_used"], counts["gold_repeated"], counts["gold_unmatched"]) == (6, 2, 1, 1)
    assert found.column("scores", "task", "status")["t0"] == "gold"
