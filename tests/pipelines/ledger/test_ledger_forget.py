"""`crowdbeam ledger forget`: the ledger is what it would be had it never seen the worker."""

import itertools
import shutil

import pytest
from command_line import run_command
from kill_farm import KillFarm, moments
from nights import (
    BEGIN_US,
    aggregate,
    assert_same_run,
    assert_same_scores,
    assert_same_skills,
    bytes_of,
    crowd_nights,
    latest_of,
    ledger_command,
    nightly,
    rows_of,
    run_of,
    state_of,
    warehouse_rows,
    write_events,
    write_nights,
)

from pipelines.ledger.folder import LedgerFolder

GONE = "worker-004"
ALONE = [("task-alone", GONE, "c1", BEGIN_US), ("task-shared", GONE, "c0", BEGIN_US)]
SHARED = [("task-shared", "worker-001", "c2", BEGIN_US), ("task-0001", GONE, "c9", BEGIN_US)]


def nights_of(n_nights=4):
    """Nights in which the worker repeats, corrects and withdraws, too; one class is only his."""
    nights = crowd_nights(n_nights, n_tasks=120, n_workers=12, seed=3)
    nights[0] += ALONE
    nights[1] += SHARED
    nights[1].append(("task-shared", GONE, "c0", BEGIN_US + 50))  # his is the latest event
    nights[2] += [(*ALONE[0][:2], "c2", BEGIN_US + 5), ALONE[1], ("task-0002", GONE, None, BEGIN_US * 2)]
    return nights


def without(nights, worker=GONE):
    return [[event for event in night if event[1] != worker] for night in nights]


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """A ledger that never saw the worker, and the batch of its files."""
    folder = tmp_path_factory.mktemp("never")
    files = write_nights(folder / "labels", without(nights_of()))
    for one in files:
        nightly(folder / "ledger", one, "--shards", "3", "--rescore", "all")
    aggregate(folder / "batch", itertools.chain(*files))
    return folder


@pytest.fixture
def seen(tmp_path):
    """A ledger that saw everything."""
    for files in write_nights(tmp_path / "labels", nights_of()):
        nightly(tmp_path / "ledger", files, "--shards", "3", "--output", f"duckdb:{tmp_path}/crowd.duckdb")
    return tmp_path / "ledger"


def assert_never_seen(ledger, never):
    assert state_of(ledger) == state_of(never / "ledger")
    assert latest_of(ledger) == latest_of(never / "ledger")  # it decides when tasks close
    assert_same_run(run_of(ledger), never / "batch")
    kept = [LedgerFolder(str(one)).existing() for one in (ledger, never / "ledger")]
    assert kept[0].n_tasks == kept[1].n_tasks
    assert ledger_command("verify", ledger)["sound"]


def assert_no_trace(ledger, worker=GONE):
    found = {path for path, content in bytes_of(ledger).items() if worker.encode() in content or worker in path}
    assert found == set()


def test_forgetting_is_never_having_seen_the_worker(seen, never):
    assert any(GONE.encode() in content for content in bytes_of(seen).values())
    assert ledger_command("forget", seen, "--worker", GONE) == {"version": 5, "kind": "forget"}
    assert_never_seen(seen, never)
    assert_no_trace(seen)
    assert LedgerFolder(str(seen)).numbers() == [5]


@pytest.mark.parametrize("harm", ["{", None])
def test_forgetting_reaches_versions_whose_account_is_damaged_or_gone(seen, never, harm):
    account = seen / "versions" / "000002.json"
    account.unlink() if harm is None else account.write_text(harm)
    ledger_command("forget", seen, "--worker", GONE)
    assert_never_seen(seen, never)
    assert_no_trace(seen)


def test_forgetting_after_compaction_and_compaction_after_it(seen, never):
    ledger_command("compact", seen)
    ledger_command("forget", seen, "--worker", GONE)
    assert_never_seen(seen, never)
    ledger_command("compact", seen)
    assert state_of(seen) == state_of(never / "ledger")
    assert_no_trace(seen)


def test_warehouses_follow_with_the_next_night(seen, never, tmp_path):
    ledger_command("forget", seen, "--worker", GONE)
    more = write_events(tmp_path / "more.csv", [("task-0001", "worker-001", "c1", BEGIN_US * 2)])
    nightly(seen, [more], "--output", f"duckdb:{tmp_path}/crowd.duckdb")
    nightly(never / "ledger", [more], "--rescore", "all")
    try:
        found = warehouse_rows(tmp_path / "crowd.duckdb", "scores", "task")
        expected = rows_of(run_of(never / "ledger"), "scores", "task")
        assert found.keys() == expected.keys()
        assert_same_scores({"task-0001": found["task-0001"]}, {"task-0001": expected["task-0001"]})
        found = warehouse_rows(tmp_path / "crowd.duckdb", "skills", "worker")
        assert_same_skills(found, rows_of(run_of(never / "ledger"), "skills", "worker"))
        pair = ("worker_a", "worker_b")
        assert warehouse_rows(tmp_path / "crowd.duckdb", "edges", pair) == rows_of(
            run_of(never / "ledger"), "edges", pair
        )
    finally:
        ledger_command("rollback", never / "ledger", "--to", "4")


def test_nights_go_on_as_if_the_worker_had_never_been(seen, never, tmp_path):
    """A label he gave before can come again: it is a new one."""
    ledger_command("forget", seen, "--worker", GONE)
    again = [("task-alone", GONE, "c1", BEGIN_US - 9), ("task-new", "worker-002", "c0", BEGIN_US)]
    file = write_events(tmp_path / "again.csv", again)
    told = nightly(seen, [file])
    assert told["counts"]["labels_used"] == 2
    assert state_of(seen)["rows"]["task-alone", GONE] == ("c1", BEGIN_US - 9, 1)


def test_a_worker_all_of_whose_labels_are_withdrawn_can_be_forgotten(tmp_path):
    rows = [("t", "ann", "a", 1), ("t", "bob", "a", 1), ("u", "ann", "b", 1), ("u", "cem-the-third", "b", 1)]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)])
    nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("u", "cem-the-third", None, 2)])])
    assert LedgerFolder(str(tmp_path / "ledger")).existing().classes == {"a": 2, "b": 1}
    told = ledger_command("forget", tmp_path / "ledger", "--worker", "cem-the-third")
    assert told["version"] == 3
    assert ("u", "cem-the-third") not in state_of(tmp_path / "ledger")["rows"]
    assert_no_trace(tmp_path / "ledger", "cem-the-third")


def test_the_last_worker_can_be_forgotten(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", [("t", "ann", "a", 1), ("u", "ann", "b", 1)])])
    ledger_command("forget", tmp_path / "ledger", "--worker", "ann")
    assert state_of(tmp_path / "ledger")["rows"] == {}
    assert LedgerFolder(str(tmp_path / "ledger")).existing().n_tasks == 0
    told = nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("t", "bob", "a", 1)])])
    assert (told["ledger_version"], told["counts"]["scores"]) == (3, 1)


@pytest.mark.parametrize("worker", ["nobody", "worker-0"])
def test_a_worker_who_is_not_there_is_told_and_nothing_changes(seen, worker):
    before = bytes_of(seen)
    run = ledger_command("forget", seen, "--worker", worker, code=2)
    assert f"holds no label of the worker '{worker}'" in run.err
    assert bytes_of(seen) == before
    run = run_command("ledger", "forget", seen)
    assert (run.code, "forget needs --worker" in run.err) == (2, True)


def test_forgetting_that_was_killed_before_any_change_is_done_again_or_finished(seen, never, tmp_path):
    before, forgetting = shutil.copytree(seen, tmp_path / "before"), ("ledger", "forget", seen, "--worker", GONE)
    with KillFarm() as farm:
        changes = farm.run(*forgetting)["changes"]
        for call in moments(changes):
            shutil.rmtree(seen)
            shutil.copytree(before, seen)
            assert farm.run(*forgetting, point="change", call=call)["code"] == -9, changes[call - 1]
            if LedgerFolder(str(seen)).existing().kind != "forget":
                ledger_command("forget", seen, "--worker", GONE)
            assert_never_seen(seen, never)  # verify, as any command that looks closely, finishes the removal
            assert_no_trace(seen)
            assert LedgerFolder(str(seen)).numbers() == [5]


def test_a_task_with_an_event_without_a_time_closes_as_it_would_have(tmp_path):
    """Such an event counts as of its night, which no row tells: the task stays open as long as it was to stay."""
    rows = [
        ("t", "ann", "a", None),
        ("t", GONE, "a", BEGIN_US),
        ("u", "ann", "a", BEGIN_US),
        ("u", GONE, "a", BEGIN_US + 9),
    ]
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)])
    before = latest_of(tmp_path / "ledger")
    ledger_command("forget", tmp_path / "ledger", "--worker", GONE)
    assert latest_of(tmp_path / "ledger") == {"t": before["t"], "u": BEGIN_US}
