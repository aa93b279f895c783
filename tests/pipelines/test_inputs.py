"""Inputs are found, told apart and checked before anything runs; an error says what was given and what to do."""

import gzip
import hashlib
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from apache_beam.io.filesystems import FileSystems
from command_line import run_command
from memory_files import FILES
from source_files import WRITERS, csv_bytes, parquet_bytes

from pipelines import batch
from pipelines.errors import InputError, InvalidSettingError
from pipelines.input_care import left_out
from pipelines.inputs import checksum_of, find_files, plan_inputs
from pipelines.settings import BatchSettings
from pipelines.sources import storage

ROWS = [("t1", "ann", "x"), ("t2", "bob", "y")]


def plan(*inputs, **settings):
    return plan_inputs(BatchSettings(tuple(map(str, inputs)), "out", **settings))


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(csv_bytes(ROWS))
    return path


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_told_by_its_name(tmp_path, name):
    path = tmp_path / name.upper()
    path.write_bytes(WRITERS[name](ROWS))
    (file,) = plan(path).files
    assert file.format == {"tsv": "csv"}.get(name.split(".")[1], name.split(".")[1])
    later = (("op", "op"),) if file.format == "jsonl" else ()  # may be named after the file's beginning
    assert file.columns == (("task", "task"), ("worker", "worker"), ("label", "label"), *later)
    assert (file.path, file.role, file.size_bytes) == (str(path), "labels", path.stat().st_size)


def test_folders_globs_and_files_are_read_once_each_in_the_order_given(tmp_path):
    for name in ("b.csv", "a.csv", "c.CSV", "_SUCCESS", ".hidden.csv", "_delta.csv", "notes.md", "[1].csv"):
        (tmp_path / name).write_bytes(csv_bytes(ROWS))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "d.csv").write_bytes(csv_bytes(ROWS))
    found = [os.path.relpath(file.path, tmp_path) for file in plan(tmp_path).files]
    assert found == ["[1].csv", "a.csv", "b.csv", "c.CSV"]
    inputs = (tmp_path / "b.csv", tmp_path / "?.csv", tmp_path / "." / "[1].csv", tmp_path / "**" / "d.csv")
    found = [os.path.relpath(file.path, tmp_path) for file in plan(*inputs).files]
    assert found == ["b.csv", "a.csv", "[1].csv", "deeper/d.csv"]


def test_a_folder_may_have_the_signs_of_a_pattern_in_its_name(tmp_path):
    folder = tmp_path / "labels [1] *"
    folder.mkdir()
    (folder / "a?.csv").write_bytes(csv_bytes(ROWS))
    for given in (folder, f"{folder}/", folder / "a?.csv"):
        assert [os.path.relpath(file.path, folder) for file in plan(given).files] == ["a?.csv"]


def test_a_file_reached_by_two_paths_is_read_once(tmp_path, labels, monkeypatch):
    (tmp_path / "link.csv").symlink_to(labels)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    files = plan(labels, "labels.csv", "./labels.csv", tmp_path / "x" / ".." / "labels.csv", "link.csv").files
    assert [file.path for file in files] == [str(labels)]


def test_sources_are_numbered_in_the_order_that_decides_between_repeats(tmp_path):
    for name in ("b.csv", "a.parquet"):
        (tmp_path / name).write_bytes(WRITERS[f"x.{name.split('.')[1]}"](ROWS))
    found = plan(tmp_path / "b.csv", tmp_path / "a.parquet")
    assert [(os.path.basename(part.path), part.source) for part in found.parts] == [("b.csv", 0), ("a.parquet", 1)]


def test_inputs_elsewhere_are_found_through_beam():
    FILES["memory://inputs/part-1.csv"] = FILES["memory://inputs/part-0.csv"] = csv_bytes(ROWS)
    for pattern in ("memory://inputs/part-*.csv", "memory://inputs/"):
        files = plan(pattern).files
        assert [file.path for file in files] == ["memory://inputs/part-0.csv", "memory://inputs/part-1.csv"]
    assert checksum_of("memory://inputs/part-0.csv") == "of memory://inputs/part-0.csv"


def test_the_number_of_labels_is_known_from_parquet_and_guessed_from_sizes(tmp_path):
    rows = [(f"task-{number}", f"worker-{number % 50}", "yes") for number in range(5000)]
    for name, write in WRITERS.items():
        (tmp_path / name).write_bytes(write(rows))
        guess = plan(tmp_path / name).n_labels
        assert guess == 5000 if name == "x.parquet" else 50 < guess < 20_000


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zst"])
def test_a_compressed_file_is_guessed_to_hold_four_times_its_size(tmp_path, name):
    data = np.random.default_rng(0).bytes(48_000)
    compress = gzip.compress if name.endswith("gz") else zstandard.compress
    (tmp_path / name).write_bytes(compress(b"task,worker,label\n" + data.hex().encode()))
    size = (tmp_path / name).stat().st_size
    (tmp_path / "plain.csv").write_bytes(b"task,worker,label\n".ljust(size))
    assert plan(tmp_path / name).n_labels == pytest.approx(4 * plan(tmp_path / "plain.csv").n_labels, abs=4)


def test_the_checksum_is_that_of_the_content(labels):
    assert checksum_of(str(labels)) == "sha256:" + hashlib.sha256(labels.read_bytes()).hexdigest()


def test_empty_files_are_listed_and_give_nothing(tmp_path, labels):
    nothing = {"a.csv": b"", "b.parquet": b"", "c.csv": b"\n\n", "d.jsonl": b" \n", "e.csv.gz": gzip.compress(b"")}
    for name, data in nothing.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "_SUCCESS").write_bytes(b"")
    found = plan(labels, *(tmp_path / name for name in nothing), tmp_path / "_SUCCESS")
    assert [os.path.basename(file.path) for file in found.files] == ["labels.csv", *nothing]
    assert [part.path for part in found.parts] == [str(labels)]


def test_inputs_without_any_data_are_an_error(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(InputError, match=r"There is nothing to read: .*a.csv' holds no data. Give files with labels."):
        plan(tmp_path / "a.csv")


def test_a_header_alone_is_no_error(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"task,worker,label\n")
    assert len(plan(tmp_path / "a.csv").parts) == 1


@pytest.mark.parametrize(("scheme", "extra"), [("gs", "gcp"), ("s3", "aws"), ("azfs", "azure"), ("hdfs", "hadoop")])
def test_a_file_system_that_is_not_installed_is_named_with_its_remedy(tmp_path, labels, monkeypatch, scheme, extra):
    monkeypatch.setattr(storage.importlib.util, "find_spec", lambda name: None)
    advice = rf"its file system is not installed. Try: pip install 'apache-beam\[{extra}\]'$"
    with pytest.raises(InputError, match=rf"INPUT '{scheme}://bucket/labels.csv' cannot be reached: {advice}"):
        plan(f"{scheme}://bucket/labels.csv")
    with pytest.raises(InputError, match=rf"--gold '{scheme}://bucket/gold.csv' cannot be reached: {advice}"):
        plan(labels, gold=(f"{scheme}://bucket/gold.csv",))
    with pytest.raises(InvalidSettingError, match=rf"{scheme}://bucket/run cannot be reached: {advice}"):
        batch.run(BatchSettings((str(labels),), f"{scheme}://bucket/run"))


def test_nothing_is_missing_where_the_packages_are_there(monkeypatch):
    monkeypatch.setattr(storage.importlib.util, "find_spec", lambda name: name)
    assert storage.missing_extra("s3://bucket/labels.csv") is None


def test_beams_options_reach_file_systems_before_inputs_are_looked_up(monkeypatch):
    known = []
    monkeypatch.setattr(batch, "plan_inputs", lambda *_: known.append(FileSystems._pipeline_options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        batch.run(BatchSettings(("labels.csv",), "run"), ["--s3_region_name=here"])
    assert known[0].get_all_options()["s3_region_name"] == "here"


@pytest.mark.parametrize("path", ["nowhere.csv", "no/where/*.csv", "empty"])
def test_a_path_that_names_no_file_is_an_error(tmp_path, path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"INPUT '.*' names no file. Check the path; in a folder, files end in"):
        plan(tmp_path / path)


def test_a_file_system_that_is_not_there_is_an_error():
    with pytest.raises(InvalidSettingError, match=r"^nosuch://bucket/labels.csv is in no file system that is known"):
        plan("nosuch://bucket/labels.csv")


def test_a_file_without_a_known_ending_needs_input_format(tmp_path, labels):
    odd = labels.rename(tmp_path / "labels.dat")
    with pytest.raises(InputError, match=r"labels.dat has none of the known endings .*--input-format"):
        plan(odd)
    assert plan(odd, input_format="csv").files[0].format == "csv"


def test_gold_keeps_the_format_of_its_own_name(tmp_path, labels):
    gold = tmp_path / "gold.parquet"
    gold.write_bytes(parquet_bytes([("t1", "x")], ("task", "label")))
    found = plan(labels.rename(tmp_path / "labels.dat"), input_format="csv", gold=(str(gold),))
    assert [(file.role, file.format) for file in found.files] == [("labels", "csv"), ("gold", "parquet")]


DAMAGED = {
    "a.parquet": (parquet_bytes(ROWS)[:-20], "cannot be read as parquet: .* It may be damaged, or of another format."),
    "b.parquet": (b"task,worker,label\n", "cannot be read as parquet"),
    "c.avro": (b"Obj\x01", "cannot be read as avro"),
    "d.avro": (csv_bytes(ROWS), "cannot be read as avro"),
    "e.parquet.gz": (gzip.compress(parquet_bytes(ROWS)), "compressed inside; decompress the gzip around it"),
    "f.csv": ("task,worker,label\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
    "g.jsonl": (b"[1, 2]\n", "no line is a JSON object"),
    "h.csv.gz": (gzip.compress(csv_bytes(ROWS))[:12], "its gzip data are damaged"),
    "i.csv": (parquet_bytes(ROWS), "no column 'task'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_cannot_be_opened_is_an_error(tmp_path, name):
    data, sentence = DAMAGED[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=sentence) as caught:
        plan(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_a_missing_column_is_told_with_the_names_there_are(tmp_path, labels):
    labels.write_bytes(b"item,worker_id,label\n1,2,3\n")
    with pytest.raises(InputError) as caught:
        plan(labels, columns=(("task", "item"),))
    assert str(caught.value) == (
        f"{labels} has no column 'worker'; it has 'item', 'worker_id', 'label'. "
        "Name it with --columns worker=worker_id."
    )
    found = plan(labels, columns=(("task", "item"), ("worker", "worker_id"))).files[0]
    assert found.columns == (("task", "item"), ("worker", "worker_id"), ("label", "label"))


def test_many_columns_are_not_all_told(labels):
    labels.write_bytes(",".join(f"column{number}" for number in range(100)).encode())
    with pytest.raises(InputError, match="'column19' and 80 more"):
        plan(labels)


def test_values_separated_otherwise_are_told(labels):
    labels.write_bytes(b"task;worker;label\n1;2;3\n")
    with pytest.raises(InputError, match="separated by ';': write commas"):
        plan(labels)


def test_blanks_around_a_name_do_not_matter_unless_they_tell_columns_apart(labels):
    labels.write_bytes(b"task, worker, label ,my note\n1,2,3,4\n")
    assert plan(labels).files[0].columns == (("task", "task"), ("worker", " worker"), ("label", " label "))
    assert plan(labels, columns=(("label", "my note"),)).files[0].columns[2] == ("label", "my note")


@pytest.mark.parametrize("header", ["task,task,worker,label", "task,worker,label,time,time"])
def test_two_columns_of_one_name_are_an_error_where_it_matters(tmp_path, labels, header):
    labels.write_bytes(f"{header}\n".encode())
    with pytest.raises(InputError, match=r"has 2 columns called '(task|time)'. Rename all but one of them."):
        plan(labels)
    table = pa.Table.from_arrays([pa.array(["1"])] * len(header.split(",")), header.split(","))
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match="has 2 columns called"):
        plan(tmp_path / "x.parquet")
    labels.write_bytes(b"note,note,task,worker,label\n1,2,3,4,5\n")
    assert plan(labels).files[0].columns[0] == ("task", "task")


def test_the_time_is_read_when_it_is_there_or_asked_for(labels):
    labels.write_bytes(b"task,worker,label,time,ts\n")
    assert plan(labels).files[0].columns[3] == ("time", "time")
    assert plan(labels, columns=(("time", "ts"),)).files[0].columns[3] == ("time", "ts")
    with pytest.raises(InputError, match=r"no column 'when'.*--columns time=COLUMN"):
        plan(labels, columns=(("time", "when"),))
    labels.write_bytes(b"task,worker,label,submitted_at_us\n")
    assert plan(labels).files[0].columns[3] == ("time", "submitted_at_us")


def test_gold_has_the_names_of_the_labels_or_the_plain_ones(tmp_path, labels):
    labels.write_bytes(b"item,worker,label\n")
    gold = tmp_path / "gold.csv"
    for header, task in (("item,label", "item"), ("task,label", "task"), ("task,item,label", "item")):
        gold.write_text(header + "\n", "utf-8")
        found = plan(labels, columns=(("task", "item"),), gold=(str(gold),)).files[1]
        assert (found.role, found.columns) == ("gold", (("task", task), ("label", "label")))
    gold.write_text("id,label\n", "utf-8")
    with pytest.raises(InputError, match="no column 'item'"):
        plan(labels, columns=(("task", "item"),), gold=(str(gold),))


def test_gold_that_is_not_there_is_an_error(labels):
    with pytest.raises(InputError, match=r"--gold 'nowhere.csv' names no file"):
        plan(labels, gold=("nowhere.csv",))


def test_files_are_found_for_other_options_too(tmp_path, labels):
    assert find_files([str(tmp_path)], "--prior-skills") == [(str(labels), labels.stat().st_size)]


def test_what_of_a_folder_is_not_read_is_told(tmp_path, labels):
    assert list(left_out([str(tmp_path), str(labels), "nowhere"])) == []
    for name in ("c.csv.bz2", "d.txt", "_SUCCESS", ".hidden"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    said = f"2 files and 1 folder in {tmp_path} are left out: c.csv.bz2, d.txt, sub."
    assert list(left_out([str(tmp_path)] * 2)) == [said]
    (tmp_path / "e.xml").write_text("")
    assert next(left_out([str(tmp_path)])).endswith("are left out: c.csv.bz2, d.txt, e.xml …")


@pytest.mark.parametrize("command", ["aggregate", "nightly"])
def test_commands_say_what_they_leave_out(tmp_path, command):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a.csv").write_text("task,worker,label\nt,w,x\nt,v,x\n", "utf-8")
    place = ("--ledger" if command == "nightly" else "--output", tmp_path / "new")
    run = run_command(command, tmp_path / "in", *place, "--json")
    assert (run.code, run.err) == (0, f"crowdbeam: 1 folder in {tmp_path / 'in'} is left out: sub.\n")
