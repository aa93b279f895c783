"""What would harm a ledger or a warehouse is refused before anything runs, and damage is told in a sentence."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from command_line import run_command
from nights import bytes_of, ledger_command, nightly, rows_of, run_of, state_of, warehouse_rows, write_events
from test_nightly_gates import FIRST as MANY
from test_nightly_gates import QUIET, TURNED

from pipelines.ledger.folder import LedgerFolder
from pipelines.run_tables import read_table

FIRST = [("t", "ann", "a", 1), ("t", "bob", "a", 1), ("u", "ann", "b", 1)]


@pytest.fixture
def night(tmp_path):
    return write_events(tmp_path / "1.csv", FIRST)


@pytest.fixture
def ledger(night, tmp_path):
    nightly(tmp_path / "ledger", [night])
    nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("u", "bob", "b", 2)])])
    return tmp_path / "ledger"


def test_a_ledger_that_lost_its_pointer_is_not_begun_anew(ledger, night):
    (ledger / "CURRENT").unlink()
    before = bytes_of(ledger)
    run = nightly(ledger, [night], code=2)
    assert "the last one is 2" in run.err
    assert bytes_of(ledger) == before
    (ledger / "CURRENT").write_text("2\n")
    assert ledger_command("verify", ledger)["sound"]


def test_a_ledger_of_one_night_that_lost_its_pointer_is_not_begun_anew(night, tmp_path):
    ledger = tmp_path / "ledger"
    nightly(ledger, [night])
    (ledger / "CURRENT").unlink()
    before = bytes_of(ledger)
    for run in (nightly(ledger, [night], code=2), ledger_command("compact", ledger, code=2)):
        assert "Restore it: it holds the number of the version that counts, the last one is 1." in run.err
    assert bytes_of(ledger) == before
    (ledger / "CURRENT").write_text("1\n")
    assert ledger_command("verify", ledger)["sound"]


@pytest.mark.parametrize("output", ["duckdb:{}/crowd.duckdb", "{}/answers"])
def test_a_warehouse_with_the_runs_of_another_ledger_is_refused(ledger, night, tmp_path, output):
    to = output.format(tmp_path)
    nightly(ledger, [night], "--output", to)
    before = bytes_of(tmp_path / "answers") if (tmp_path / "answers").exists() else {}
    run = run_command("nightly", night, "--ledger", tmp_path / "leger", "--output", to)
    assert (run.code, "holds the runs of another ledger" in run.err) == (2, True)
    assert not (tmp_path / "leger").exists()
    assert before == (bytes_of(tmp_path / "answers") if (tmp_path / "answers").exists() else {})
    nightly(ledger, [night], "--output", to)  # its own may go on


@pytest.mark.parametrize("output", ["{}", "{}/answers", "duckdb:{}/crowd.duckdb", "{}/../ledger/answers"])
def test_nothing_is_written_into_a_ledger(ledger, night, output):
    run = run_command("nightly", night, "--ledger", ledger, "--output", output.format(ledger))
    assert (run.code, "lies in the ledger" in run.err) == (2, True)
    assert ledger_command("verify", ledger)["sound"]


def test_an_export_that_cannot_be_written_says_so(ledger, tmp_path):
    (tmp_path / "file").touch()
    run = ledger_command("export", ledger, "--output", tmp_path / "file" / "run", code=1)
    assert run.err == f"crowdbeam: --output {tmp_path}/file/run cannot be written: Not a directory. Nothing is in it.\n"


def test_a_ledger_is_not_exported_into_itself(ledger):
    assert "lies in the ledger" in ledger_command("export", ledger, "--output", ledger / "run", code=2).err


@pytest.mark.parametrize(
    "place", ["duckdb:run.duckdb", "postgresql://me:secret@localhost/crowd", "iceberg://lake/crowd"]
)
def test_a_warehouse_is_no_folder(ledger, night, tmp_path, monkeypatch, place):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for words in (
        ("aggregate", night, "--output", place),
        ("ledger", "export", ledger, "--output", place),
        ("nightly", night, "--ledger", place),
        ("ledger", "show", place),
    ):
        run = run_command(*words)
        assert (run.code, f"{place.partition(':')[0]}:… is a warehouse. " in run.err) == (2, True), run.err
        assert "secret" not in run.err
    assert list((tmp_path / "here").iterdir()) == []


def test_files_of_the_system_are_no_harm_and_others_are_named(ledger, night):
    (ledger / ".DS_Store").write_text("")
    (ledger / "lost+found").mkdir()
    assert ledger_command("verify", ledger)["sound"]
    (ledger / "notes.txt").write_text("")
    assert "holds 'notes.txt', which no ledger has. Remove it." in nightly(ledger, [night], code=2).err


@pytest.mark.parametrize("part", ["labels", "edges", "workers", "inputs"])
@pytest.mark.parametrize("harm", ["torn", "gone"])
def test_damage_is_told_in_a_sentence(ledger, tmp_path, part, harm):
    for path in [path for path in (ledger / part).rglob("*") if path.is_file()]:
        path.write_bytes(path.read_bytes()[:20]) if harm == "torn" else path.unlink()
    events = [(f"{task}", "cem", "a", 9) for task in ("t", "u")]
    run = nightly(ledger, [write_events(tmp_path / "3.csv", events)], code=1)
    assert "The ledger is damaged" in run.err
    assert "crowdbeam ledger verify" in run.err


def test_a_ledger_below_a_file_is_refused(night, tmp_path):
    (tmp_path / "file").write_text("")
    assert run_command("nightly", night, "--ledger", tmp_path / "file" / "ledger").code == 2


def test_a_ledger_restored_from_a_copy_brings_its_warehouse_back_with_the_next_night(ledger, tmp_path):
    to = ("--output", f"duckdb:{tmp_path / 'crowd.duckdb'}")
    nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])], *to)
    shutil.copytree(ledger, tmp_path / "copy")
    nightly(ledger, [write_events(tmp_path / "4.csv", [("lost", "ann", "a", 4)])], *to)
    shutil.rmtree(ledger)
    shutil.move(tmp_path / "copy", ledger)
    told = nightly(ledger, [write_events(tmp_path / "5.csv", [("w", "ann", "a", 5)])], *to)
    assert told["ledger_version"] == 5
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "scores", "task")) == {"t", "u", "v", "w"}


def test_a_damaged_account_of_an_old_version_stops_no_night(ledger, tmp_path):
    (ledger / "versions" / "000001.json").write_text("{")
    events = write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])
    assert nightly(ledger, [events], "--keep-versions", "1")["ledger_version"] == 3
    assert ledger_command("verify", ledger)["sound"]


@pytest.mark.parametrize("damage", ["{", "{}", "[]", '{"segments": 7}'])
def test_a_damaged_version_can_be_gone_back_from(ledger, night, tmp_path, damage):
    before = state_of(ledger)
    nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])])
    (ledger / "versions" / "000003.json").write_text(damage)
    assert "Go back to another version" in nightly(ledger, [night], code=1).err
    assert ledger_command("rollback", ledger, "--to", "2")["version"] == 4
    assert state_of(ledger) == before
    told = nightly(ledger, [tmp_path / "3.csv"], "--output", f"duckdb:{tmp_path / 'crowd.duckdb'}")
    assert told["ledger_version"] == 5
    assert set(warehouse_rows(tmp_path / "crowd.duckdb", "scores", "task")) == {"t", "u", "v"}


@pytest.mark.parametrize("current", ["", "0\n", "three\n", "7\n"])
def test_a_pointer_that_names_no_version_is_told_and_can_be_gone_back_from(ledger, night, tmp_path, current):
    state = state_of(ledger)
    (ledger / "CURRENT").write_text(current)
    before = bytes_of(ledger)
    way_out = f"Go back to a version that is kept (1, 2): crowdbeam ledger rollback {ledger} --to N."
    for run in (ledger_command("verify", ledger, code=1), nightly(ledger, [night], code=1)):
        assert way_out in run.err
    shown = run_command("ledger", "show", ledger)
    assert (shown.code, way_out in shown.err, "Versions that are kept" in shown.out) == (1, True, True)
    assert "Version 7" not in shown.out
    assert bytes_of(ledger) == before
    assert ledger_command("rollback", ledger, "--to", "2")["version"] == (8 if current == "7\n" else 3)
    assert state_of(ledger) == state
    assert ledger_command("verify", ledger)["sound"]


def test_show_lists_the_versions_to_go_back_to_when_the_last_is_damaged(ledger):
    (ledger / "versions" / "000002.json").write_text("{")
    shown = ledger_command("show", ledger, code=1)
    assert [one["number"] for one in json.loads(shown.out)["versions"]] == [1]
    assert "Go back to another version" in shown.err


def test_show_passes_over_a_version_that_a_night_removes_meanwhile(ledger, monkeypatch):
    read = LedgerFolder.version

    def overtaken(folder, number):
        if number == 1:
            Path(folder.at("versions", "000001.json")).unlink()
        return read(folder, number)

    monkeypatch.setattr(LedgerFolder, "version", overtaken)
    assert [one["number"] for one in ledger_command("show", ledger)["versions"]] == [2]


def test_all_of_a_night_is_on_the_disk_before_it_holds(ledger, tmp_path, monkeypatch):
    synced, at_exchange, sync, exchange = set(), [], os.fsync, os.replace

    def noted_sync(file):
        sync(file)
        synced.add(os.readlink(f"/proc/self/fd/{file}"))

    def noted_exchange(source, target):
        if str(target).endswith("CURRENT"):
            at_exchange.append(set(synced))
        exchange(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_exchange)
    before = set(bytes_of(ledger))
    nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])])
    new = {str(ledger / name) for name in set(bytes_of(ledger)) - before}
    folders = {str(ledger / part) for part in ("labels", "edges", "workers", "inputs", "runs", "versions")}
    (known,) = at_exchange
    assert any("/runs/000003/scores/" in path for path in new)
    assert new | folders | {os.path.dirname(path) for path in new} <= known | {str(ledger / "CURRENT")}


def test_a_file_of_labels_may_be_given_as_gold_too(ledger, night):
    told = nightly(ledger, [night], "--gold", night)
    assert (told["ledger_version"], told["counts"]["gold_read"], told["counts"]["labels_read"]) == (3, 3, 0)
    assert nightly(ledger, [night], "--gold", night)["ledger_version"] == 3


def test_rejects_name_the_warehouse_that_they_came_from(tmp_path):
    with duckdb.connect(str(tmp_path / "in.duckdb")) as connection:
        connection.execute(
            "create table labels as select 't' task, 'ann' worker, 'a' label union select '', 'bob', 'a'"
        )
    address = f"duckdb:{tmp_path / 'in.duckdb'}?table=labels"
    nightly(tmp_path / "ledger", [address])
    (reject,) = read_table(run_of(tmp_path / "ledger"), "rejects").to_pylist()
    assert reject["source"] == address


@pytest.mark.parametrize("between", [("compact",), ("rollback", "--to", "1")])
def test_skills_have_drifted_also_since_a_version_without_a_run(tmp_path, between):
    ledger = tmp_path / "ledger"
    nightly(ledger, [write_events(tmp_path / "1.csv", MANY)])
    nightly(ledger, [write_events(tmp_path / "2.csv", QUIET)])
    ledger_command(between[0], ledger, *between[1:])
    turned = write_events(tmp_path / "3.csv", TURNED)
    assert nightly(ledger, [turned], "--fail-if", "skill-drift>0.3", code=12)["held"]


def test_skills_known_beforehand_are_kept_for_export_and_forget(ledger, tmp_path):
    prior = tmp_path / "prior.csv"
    prior.write_text("worker,skill\nann,-0.75\nbob,0.25\n")
    nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])], "--prior-skills", prior)
    skills = {worker: row["skill"] for worker, row in rows_of(run_of(ledger), "skills", "worker").items()}
    prior.unlink()
    ledger_command("export", ledger, "--output", tmp_path / "all")
    exported = rows_of(tmp_path / "all", "skills", "worker")
    assert {worker: row["skill"] for worker, row in exported.items()} == skills
    ledger_command("forget", ledger, "--worker", "ann")
    assert b"ann" not in b"".join(bytes_of(ledger / "versions").values())


def damaged_segment(ledger, number):
    """A segment of a version, one bit of which is turned."""
    folder = LedgerFolder(str(ledger))
    segment = Path(folder.at(folder.version(number).segments[0].file.path))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    return segment


@pytest.mark.parametrize("action", [("export", "--output", "{}/all"), ("compact",), ("forget", "--worker", "ann")])
def test_nothing_is_made_of_a_damaged_version(ledger, tmp_path, action):
    segment = damaged_segment(ledger, 2)
    before = bytes_of(ledger)
    run = ledger_command(action[0], ledger, *(word.format(tmp_path) for word in action[1:]), code=1)
    assert f"Version 2 is damaged. {segment} has changed since it was written." in run.err
    assert bytes_of(ledger) == before
    assert not (tmp_path / "all").exists()


def test_nobody_goes_back_to_a_damaged_version(ledger):
    damaged_segment(ledger, 1)
    assert "Version 1 is damaged." in ledger_command("rollback", ledger, "--to", "1", code=1).err
    assert (ledger / "CURRENT").read_text() == "2\n"
