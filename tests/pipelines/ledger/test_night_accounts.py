"""What a night says of itself: counts like the batch's, settings and inputs that were really used, exit codes."""

import hashlib
import json

import pytest
from command_line import run_command
from kill_farm import KillFarm
from nights import bytes_of, nightly, write_events

from pipelines import cli, prior
from pipelines.ledger import night_work
from pipelines.ledger.folder import LedgerFolder
from pipelines.run_tables import read_manifest, read_table

LABELS = """task,worker,label,time,op
a,w,x,1,
a,w,,2,delete
b,w,x,1,
b,v,x,1,
b,u,y,1,
c,u,y,1,
c,u,x,2,
"""


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(LABELS, "utf-8")
    return path


def manifest_of(ledger):
    folder = LedgerFolder(str(ledger))
    return read_manifest(folder.at(folder.existing().run))


def test_a_first_night_counts_as_the_batch_does(labels, tmp_path):
    nightly(tmp_path / "ledger", [labels])
    assert cli.main(["aggregate", str(labels), "--output", str(tmp_path / "run"), "--quiet"]) == 0
    ours, theirs = manifest_of(tmp_path / "ledger")["counts"], read_manifest(str(tmp_path / "run"))["counts"]
    names = ("read", "used", "repeated", "rejected", "withdrawn")
    assert [ours[f"labels_{name}"] for name in names] == [theirs[f"labels_{name}"] for name in names] == [7, 4, 1, 0, 2]


def test_gold_is_taken_when_there_are_no_labels(labels, tmp_path):
    nightly(tmp_path / "ledger", [labels])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "gold.csv").write_text("task,label\nb,y\n")
    nightly(tmp_path / "ledger", [tmp_path / "empty.csv"], "--gold", tmp_path / "gold.csv")
    folder = LedgerFolder(str(tmp_path / "ledger"))
    (row,) = read_table(folder.at(folder.existing().run), "scores").to_pylist()
    assert (row["task"], row["label"], row["status"]) == ("b", "y", "gold")


def test_the_manifest_tells_what_was_asked_for(labels, tmp_path):
    (tmp_path / "prior.csv").write_text("worker,skill\nw,0.5\n")
    options = ("--prior-skills", tmp_path / "prior.csv", "--fail-if", "rejects-share>0.5", "--output", tmp_path / "out")
    nightly(tmp_path / "ledger", [labels], *options)
    manifest = manifest_of(tmp_path / "ledger")
    assert {one["role"] for one in manifest["inputs"]} == {"labels", "prior-skills"}
    assert json.loads(manifest["settings"]["fail_if"]) == ["rejects-share>0.5"]
    assert json.loads(manifest["settings"]["output"]) == [str(tmp_path / "out")]
    assert int(manifest["settings"]["shards"]) == LedgerFolder(str(tmp_path / "ledger")).existing().shards


PRIOR, ANOTHER_PRIOR = "worker,skill\nw,0.5\n", "worker,skill\nw,-0.5\n"


def test_the_checksum_of_prior_skills_is_that_of_what_was_used(labels, tmp_path, monkeypatch):
    (tmp_path / "prior.csv").write_text(PRIOR)
    solve = night_work.solve_night

    def solved_late(*args):
        (tmp_path / "prior.csv").write_text(ANOTHER_PRIOR)
        return solve(*args)

    monkeypatch.setattr(night_work, "solve_night", solved_late)
    nightly(tmp_path / "ledger", [labels], "--prior-skills", tmp_path / "prior.csv")
    (found,) = [one for one in manifest_of(tmp_path / "ledger")["inputs"] if one["role"] == "prior-skills"]
    assert found["checksum"] == f"sha256:{hashlib.sha256(PRIOR.encode()).hexdigest()}"


def test_prior_skills_that_change_while_they_are_read_end_the_night(labels, tmp_path, monkeypatch):
    (tmp_path / "prior.csv").write_text(PRIOR)
    read = prior._read

    def read_early(path):
        found = read(path)
        (tmp_path / "prior.csv").write_text(ANOTHER_PRIOR)
        return found

    monkeypatch.setattr(prior, "_read", read_early)
    run = nightly(tmp_path / "ledger", [labels], "--prior-skills", tmp_path / "prior.csv", code=1)
    assert f"{tmp_path}/prior.csv changed while it was read. Write a file under another name" in run.err
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (LABELS + "b,v,x,1,\n", 0),  # repeats only
        ("task,worker,label,time,op\n", 3),  # nothing at all
        ("task,worker,label,time,op\nb,v,,2,delete\n", 0),  # a withdrawal
        ("task,worker,label,time,op\nb,,x,1,\n", 3),  # rejects only
    ],
)
def test_exit_code_3_is_for_labels_of_which_none_is_usable(labels, tmp_path, content, code):
    nightly(tmp_path / "ledger", [labels])
    (tmp_path / "next.csv").write_text(content)
    nightly(tmp_path / "ledger", [tmp_path / "next.csv"], code=code)
    assert LedgerFolder(str(tmp_path / "ledger")).existing_number() == (1 if code else 2)


def test_a_night_without_a_usable_label_can_be_run_again_with_the_right_options(labels, tmp_path):
    nightly(tmp_path / "ledger", [labels])
    before = bytes_of(tmp_path / "ledger")
    (tmp_path / "next.csv").write_text("task,worker,label,who\nd,,x,w\ne,,x,v\n")
    wrong = run_command("nightly", tmp_path / "next.csv", "--ledger", tmp_path / "ledger")
    assert wrong.code == 3
    assert wrong.err == (
        "crowdbeam: There was no usable label among 2: 2 missing-worker. "
        "The ledger is as it was; the night can be run again.\n"
    )
    assert "missing-worker  2" in wrong.out
    assert bytes_of(tmp_path / "ledger") == before
    right = nightly(tmp_path / "ledger", [tmp_path / "next.csv"], "--columns", "worker=who")
    assert (right["counts"]["labels_used"], right["ledger_version"]) == (2, 2)


def test_a_first_night_of_empty_files_finds_nothing_new_and_makes_no_ledger(labels, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    words = ("nightly", tmp_path / "empty.csv", "--ledger", tmp_path / "ledger", "--output", tmp_path / "answers")
    run = run_command(*words)
    assert (run.code, run.err, "The inputs hold no data. No ledger was made." in run.out) == (0, "", True)
    gated = run_command(*words, "--json", "--fail-if", "no-new-labels")
    assert (gated.code, json.loads(gated.out)["ledger_version"]) == (20, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "labels.csv"]
    assert nightly(tmp_path / "ledger", [labels, tmp_path / "empty.csv"])["ledger_version"] == 1


def test_gold_does_not_make_labels_known_of_which_none_is_usable(labels, tmp_path):
    (tmp_path / "gold.csv").write_text("task,label\nb,y\n")
    options = ("--gold", tmp_path / "gold.csv", "--classes", "p,y")
    (tmp_path / "next.csv").write_text("task,worker,label\nd,w,x\n")
    nightly(tmp_path / "ledger", [tmp_path / "next.csv"], *options, code=3)
    assert not (tmp_path / "ledger").exists()


def test_a_night_that_is_tried_again_has_the_id_of_the_first_try(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", [("t", "ann", "a", 1)])])
    night = write_events(tmp_path / "2.csv", [("t", "bob", "a", 1)])
    with KillFarm() as farm:
        assert farm.run("nightly", night, "--ledger", tmp_path / "ledger", point="publish", call=1)["code"] == -9
    killed = read_manifest(str(tmp_path / "ledger" / "runs" / "000002"))
    assert nightly(tmp_path / "ledger", [night])["run_id"] == killed["run_id"]


def test_bytes_read_are_those_of_the_tables_and_of_what_was_looked_up(tmp_path):
    many = [(f"t{task:05d}", f"w{worker}", "ab"[task % 2], 1) for task in range(3000) for worker in range(3)]
    ledger, read = tmp_path / "ledger", []
    assert nightly(ledger, [write_events(tmp_path / "1.csv", many)])["counts"]["ledger_bytes_read"] == 0
    for number, n_tasks in enumerate((1, 100, 3000), 2):
        version = LedgerFolder(str(ledger)).existing()
        tables = sum(one.size_bytes for one in (version.edges, version.workers, version.inputs))
        events = [(f"t{task:05d}", "late", "a", number) for task in range(n_tasks)]
        counts = nightly(ledger, [write_events(tmp_path / f"{number}.csv", events)])["counts"]
        read.append(counts["ledger_bytes_read"] - tables)
        assert 0 < read[-1] <= sum(one.size_bytes for one in version.files()) - tables
    assert read[0] < read[1] < read[2]
