"""`crowdbeam ledger`: show, verify, rollback, compact, export; versions that are kept, formats that are not known."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run_command
from nights import (
    aggregate,
    assert_same_run,
    assert_same_scores,
    bytes_of,
    crowd_nights,
    ledger_command,
    nightly,
    rows_of,
    run_of,
    state_of,
    warehouse_rows,
    write_nights,
)

from pipelines.ledger import night
from pipelines.ledger.counts_file import KeptCounts
from pipelines.ledger.folder import LedgerFolder, digest_of
from pipelines.ledger.version import FORMAT_VERSION

N_NIGHTS = 5


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nights")
    return write_nights(folder / "labels", crowd_nights(N_NIGHTS, n_tasks=100, n_workers=10, seed=11))


@pytest.fixture(scope="module")
def made(nights, tmp_path_factory):
    """A ledger of five nights whose segments were never merged, a warehouse that follows it, and the batch."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(night, "_MERGED_ROWS", 0)
        for files in nights:
            nightly(folder / "ledger", files, "--shards", "3", "--output", f"duckdb:{folder}/crowd.duckdb")
    for number in range(3, N_NIGHTS + 1):
        aggregate(folder / f"batch-{number}", itertools.chain(*nights[:number]))
    return folder


@pytest.fixture
def ledger(made, tmp_path):
    """A copy of the ledger, beside one of its warehouse."""
    shutil.copy(made / "crowd.duckdb", tmp_path / "crowd.duckdb")
    return shutil.copytree(made / "ledger", tmp_path / "ledger")


def test_a_rollback_is_a_new_version_and_the_nights_can_be_run_again(ledger, nights, tmp_path):
    before = state_of(ledger)
    told = ledger_command("rollback", ledger, "--to", "2")
    assert told == {"version": N_NIGHTS + 1, "kind": "rollback"}
    assert state_of(ledger)["rows"] != before["rows"]
    for files in nights[:2]:
        assert nightly(ledger, files)["ledger_version"] == N_NIGHTS + 1  # they are still known
    for number, files in enumerate(nights[2:], N_NIGHTS + 2):
        assert nightly(ledger, files)["ledger_version"] == number
    assert state_of(ledger) == before
    assert ledger_command("verify", ledger)["sound"]


@pytest.mark.parametrize("with_more", [False, True])
def test_after_a_rollback_warehouses_get_a_whole_run(ledger, nights, made, tmp_path, with_more):
    """With the next night, which may bring something new, or nothing."""
    ledger_command("rollback", ledger, "--to", "3")
    files = nights[3] if with_more else nights[2]
    nightly(ledger, files, "--output", f"duckdb:{tmp_path}/crowd.duckdb")
    path, batch = tmp_path / "crowd.duckdb", made / f"batch-{4 if with_more else 3}"
    assert_same_scores(warehouse_rows(path, "scores", "task"), rows_of(batch, "scores", "task"))
    pair = ("worker_a", "worker_b")
    assert warehouse_rows(path, "edges", pair) == rows_of(batch, "edges", pair)
    runs = warehouse_rows(path, "runs", "version", keep=("version",))
    assert [number for number, row in runs.items() if row["whole"]] == [1, 7 if with_more else 6]
    assert not any("whole" in name for name in bytes_of(ledger))


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--to", "5"), 2, "Version 5 is not earlier than 5"),
        (("--to", "9"), 2, "has no version 9; it has 1, 2, 3, 4, 5"),
        ((), 2, "rollback needs --to"),
        (("--to", "0"), 2, "--to is 0, but versions begin at 1. To begin from nothing give another --ledger"),
        (("--to", "1", "--keep-versions", "0"), 2, "--keep-versions is 0"),
    ],
)
def test_a_rollback_that_cannot_be_says_so(ledger, options, code, sentence):
    before = bytes_of(ledger)
    assert sentence in ledger_command("rollback", ledger, *options, code=code).err
    assert bytes_of(ledger) == before


def test_compaction_changes_no_number(ledger, nights, tmp_path):
    before, edges = state_of(ledger), bytes_of(ledger)["edges/000005.frame"]
    files = len(LedgerFolder(str(ledger)).existing().segments)
    assert ledger_command("compact", ledger) == {"version": 6, "kind": "compact"}
    version = LedgerFolder(str(ledger)).existing()
    assert len(version.segments) == 3 < files
    assert sum(one.n_tasks for one in version.segments) == version.n_tasks == before["n_tasks"]
    assert state_of(ledger) == before
    assert bytes_of(ledger)[version.edges.path] == edges
    assert ledger_command("verify", ledger)["sound"]
    told = nightly(ledger, nights[0], "--output", f"duckdb:{tmp_path}/crowd.duckdb")
    assert list(told["loaded"].values()) == [{}]  # warehouses have nothing to do


def test_after_compaction_and_without_earlier_versions_nights_go_on(ledger, nights, tmp_path):
    ledger_command("compact", ledger, "--keep-versions", "1")
    assert LedgerFolder(str(ledger)).numbers() == [6]
    assert {path.split("/")[1] for path in bytes_of(ledger) if path.startswith("labels/")} == {"000006"}
    more = write_nights(tmp_path / "more", [[("task-0001", "worker-001", "c1", 1 << 52)]], 1)
    assert nightly(ledger, more[0], "--output", f"duckdb:{tmp_path}/crowd.duckdb")["counts"]["scores"] == 1
    aggregate(tmp_path / "batch", itertools.chain(*nights, *more))
    found = warehouse_rows(tmp_path / "crowd.duckdb", "edges", ("worker_a", "worker_b"))
    assert found == rows_of(tmp_path / "batch", "edges", ("worker_a", "worker_b"))


@pytest.mark.parametrize("kind", ["", "parquet", "csv", "jsonl", "avro"])
def test_an_export_is_the_batch(ledger, made, tmp_path, kind):
    told = ledger_command("export", ledger, "--output", tmp_path / "run", *(["--output-format", kind] if kind else []))
    assert_same_run(tmp_path / "run", made / f"batch-{N_NIGHTS}")
    batch = json.loads((made / f"batch-{N_NIGHTS}" / "manifest.json").read_text("utf-8"))
    for name in ("labels_used", "scores", "workers", "edges", "classes"):
        assert told["counts"][name] == batch["counts"][name]
    assert {path.suffix for path in (tmp_path / "run" / "scores").iterdir()} == {f".{kind or 'parquet'}"}


def test_an_export_does_not_write_over_things(ledger, tmp_path):
    assert "export needs --output" in ledger_command("export", ledger, code=2).err
    run = ledger_command("export", ledger, "--output", tmp_path, code=2)
    assert "is there already" in run.err
    run = ledger_command("export", ledger, "--output", tmp_path / "new", "--output-format", "xml", code=2)
    assert "--output-format is 'xml'" in run.err


def test_show_tells_the_versions(ledger):
    found = ledger_command("show", ledger)["versions"]
    assert [one["number"] for one in found] == [1, 2, 3, 4, 5]
    assert [one["parent"] for one in found] == [0, 1, 2, 3, 4]
    run = run_command("ledger", "show", ledger)
    assert run.code == 0
    version = LedgerFolder(str(ledger)).existing()
    for text in ("Version 5", f"{version.n_tasks:,}", version.ledger, version.run_id[:12], "night"):
        assert text in run.out


@pytest.mark.parametrize("kind", ["labels", "edges", "workers", "inputs"])
@pytest.mark.parametrize("damage", ["flipped", "missing", "shorter"])
def test_verify_finds_damaged_files(ledger, kind, damage):
    version = LedgerFolder(str(ledger)).existing()
    file = version.segments[-1].file if kind == "labels" else getattr(version, kind)
    path = Path(ledger, file.path)
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        content[len(content) // 2] ^= 4
        path.write_bytes(content if damage == "flipped" else content[:-1])
    run = ledger_command("verify", ledger, code=1)
    assert str(path) in run.err
    assert ("cannot be read" if damage == "missing" else "has changed since it was written") in run.err


def kept_counts(folder, version):
    files = (folder.at(one.path) for one in (version.edges, version.workers))
    return KeptCounts.of_files(*files, version.classes, version.n_sampled)


@pytest.mark.parametrize("field", ["n_common", "n_agree"])
def test_verify_finds_counts_that_are_not_those_of_the_labels(ledger, field):
    """A file that is whole, and wrong."""
    folder = LedgerFolder(str(ledger))
    version = folder.existing()
    kept = kept_counts(folder, version)
    column = getattr(kept.edges, field).copy()
    column[0] += 1
    changed = replace(kept, edges=replace(kept.edges, **{field: column}))
    Path(folder.at(version.edges.path)).write_bytes(changed.to_files()[0])
    path = folder.at("versions", "000005.json")
    found = json.loads(Path(path).read_text("utf-8"))
    found["edges"]["checksum"] = digest_of(Path(folder.at(version.edges.path)).read_bytes())
    Path(path).write_text(json.dumps(found), "utf-8")
    run = ledger_command("verify", ledger, code=1)
    assert "The counts of worker pairs are not those of the labels." in run.err


@pytest.mark.parametrize(
    ("field", "value"), [("n_tasks", 7), ("classes", {"c0": 1}), ("n_sampled", 3), ("segments", [])]
)
def test_verify_finds_a_version_that_does_not_fit_its_labels(ledger, field, value):
    path = ledger / "versions" / "000005.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {field: value}), "utf-8")
    assert ledger_command("verify", ledger, code=1).err


def test_verify_finds_a_run_that_is_damaged(ledger):
    """Warehouses that are behind would get it."""
    part = Path(run_of(ledger), "scores", "part-00000.parquet")
    content = part.read_bytes()
    part.unlink()
    assert str(part) in ledger_command("verify", ledger, code=1).err
    part.write_bytes(content[:-1])
    assert str(part) in ledger_command("verify", ledger, code=1).err


def test_a_version_file_that_is_damaged_is_told(ledger):
    path = ledger / "versions" / "000005.json"
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")
    run = ledger_command("verify", ledger, code=1)
    assert str(path) in run.err
    (ledger / "CURRENT").write_text("seven\n")
    assert "CURRENT holds no number" in ledger_command("show", ledger, code=1).err


@pytest.mark.parametrize("command", ["show", "verify", "compact"])
def test_a_ledger_of_a_newer_format_is_refused(ledger, nights, command):
    path = ledger / "versions" / "000005.json"
    found = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(found | {"format_version": FORMAT_VERSION + 1, "segments": {"of": "another kind"}}))
    before = bytes_of(ledger)
    run = ledger_command(command, ledger, code=2)
    told = f"(format {FORMAT_VERSION + 1}; this one knows {FORMAT_VERSION})"
    assert f"was written by a newer crowdbeam {told}. Upgrade crowdbeam." in run.err
    assert "newer crowdbeam" in nightly(ledger, nights[0], code=2).err
    assert bytes_of(ledger) == before


@pytest.mark.parametrize("action", ["show", "verify", "rollback", "compact", "export", "forget"])
def test_a_folder_without_a_ledger_is_told_and_stays_as_it_is(tmp_path, action):
    (tmp_path / "other.txt").write_text("mine")
    options = {"rollback": ("--to", "1"), "forget": ("--worker", "w"), "export": ("--output", tmp_path / "x")}
    run = run_command("ledger", action, tmp_path, *options.get(action, ()))
    assert (run.code, "holds no ledger" in run.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


@pytest.mark.parametrize(
    ("action", "options"),
    [("show", ("--to", "3")), ("compact", ("--worker", "w")), ("verify", ("--output-format", "csv")),
     ("forget", ("--worker", "w", "--keep-versions", "3")), ("rollback", ("--to", "1", "--output", "x"))],
)  # fmt: skip
def test_an_option_of_another_action_is_refused(ledger, action, options):
    before = bytes_of(ledger)
    run = run_command("ledger", action, ledger, *options)
    assert (run.code, f", not of {action}. Leave it out." in run.err) == (2, True)
    assert bytes_of(ledger) == before


def test_an_unknown_action_is_told(tmp_path):
    run = run_command("ledger", "burn", tmp_path)
    assert (run.code, "'burn' is no action; there are show, verify" in run.err) == (2, True)


@pytest.mark.parametrize("keep", [1, 3])
def test_versions_that_are_not_kept_take_what_only_they_need(nights, tmp_path, keep):
    for number, files in enumerate(nights, 1):
        nightly(tmp_path / "ledger", files, "--shards", "3", "--keep-versions", keep)
        folder = LedgerFolder(str(tmp_path / "ledger"))
        numbers = list(range(max(1, number - keep + 1), number + 1))
        assert folder.numbers() == numbers
        versions = [folder.version(one) for one in numbers]
        needed = {"CURRENT"} | {f"versions/{one:06d}.json" for one in numbers}
        needed |= {file.path for version in versions for file in version.files()}
        there = set(bytes_of(folder.path))
        runs = {version.run for version in versions}
        assert {path for path in there if not path.startswith("runs/")} == needed
        assert {"/".join(path.split("/")[:2]) for path in there if path.startswith("runs/")} == runs


def test_an_earlier_version_that_is_kept_is_as_it_was(nights, tmp_path):
    """All of its files are there: going back to it gives the state of its night."""
    states = []
    for files in nights:
        nightly(tmp_path / "ledger", files, "--keep-versions", "3")
        states.append(state_of(tmp_path / "ledger"))
    ledger_command("rollback", tmp_path / "ledger", "--to", "3", "--keep-versions", "3")
    assert state_of(tmp_path / "ledger") == states[2]
    assert ledger_command("verify", tmp_path / "ledger")["sound"]


def test_skills_are_kept_for_the_next_night(ledger):
    folder = LedgerFolder(str(ledger))
    version = folder.existing()
    kept = kept_counts(folder, version)
    skills = rows_of(run_of(ledger), "skills", "worker")
    assert np.array_equal(kept.skills, [skills[worker]["skill"] for worker in kept.edges.workers])
