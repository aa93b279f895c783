"""After `crowdbeam ledger forget` those tasks are closed that would be, had the worker never been there."""

import pytest
from nights import ledger_command, nightly, write_events

from pipelines.ledger.folder import LedgerFolder

HOUR_US = 3_600_000_000


def test_who_is_forgotten_has_not_closed_tasks_either(tmp_path):
    rows = [("t", "ann", "a", HOUR_US), ("t", "bob", "a", HOUR_US), ("u", "mad", "a", 1000 * HOUR_US)]
    ttl = ("--task-ttl", "24h")
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", rows)], *ttl)
    ledger_command("forget", tmp_path / "ledger", "--worker", "mad")
    later = write_events(tmp_path / "2.csv", [("t", "cem", "a", 2 * HOUR_US)])
    told = nightly(tmp_path / "ledger", [later], *ttl)
    assert (told["counts"]["labels_used"], told["counts"]["labels_rejected"]) == (1, 0)


HOURS = [(f"t{hour}", worker, "a", hour * HOUR_US) for hour in range(30) for worker in ("ann", "bob")]


@pytest.mark.parametrize(("first", "second"), [("10h", "0"), ("10h", "50h"), ("10h", "5h"), ("0", "10h")])
@pytest.mark.parametrize("timeless", [False, True])
@pytest.mark.parametrize("third", ["0", "10h"])
def test_after_a_worker_is_forgotten_as_many_tasks_are_closed_as_if_he_had_never_been_there(
    tmp_path, first, second, third, timeless
):
    mine = [("u", "mad", "a", 100 * HOUR_US)]
    others = [("v", "cem", "a", 30 * HOUR_US), *([("w", "cem", "a", "")] if timeless else [])]
    late = write_events(tmp_path / "3.csv", [(f"t{hour}", "dan", "a", 40 * HOUR_US) for hour in range(30)])
    rejected, verdicts = {}, {}
    for name, rows in (("forgotten", [*others, *mine]), ("never", others)):
        ledger = tmp_path / name
        nightly(ledger, [write_events(tmp_path / "1.csv", HOURS)], "--task-ttl", first)
        nightly(ledger, [write_events(tmp_path / f"2-{name}.csv", rows)], "--task-ttl", second)
        if name == "forgotten":
            ledger_command("forget", ledger, "--worker", "mad")
        rejected[name] = nightly(ledger, [late], "--task-ttl", third)["counts"]["labels_rejected"]
        verdicts[name] = LedgerFolder(str(ledger)).existing().closed
    assert rejected["forgotten"] == rejected["never"] > 0
    assert verdicts["forgotten"] == verdicts["never"]


def test_where_who_is_forgotten_alone_had_times_no_task_is_closed_any_more(tmp_path):
    ledger = tmp_path / "ledger"
    rows = [("t", "ann", "a", ""), ("t", "bob", "a", ""), ("u", "ann", "a", ""), ("u", "mad", "a", HOUR_US * 900)]
    ttl = ("--task-ttl", "24h")
    nightly(ledger, [write_events(tmp_path / "1.csv", [*rows, ("old", "mad", "a", HOUR_US)])], *ttl)
    assert LedgerFolder(str(ledger)).existing().closed == {"a": 1}
    ledger_command("forget", ledger, "--worker", "mad")
    assert LedgerFolder(str(ledger)).existing().closed == {}
    new = write_events(tmp_path / "2.csv", [("new", "ann", "a", 2 * HOUR_US)])
    told = nightly(ledger, [new], *ttl)["counts"]
    assert (told["tasks_closed"], told["labels_used"]) == (0, 1)
    more = write_events(tmp_path / "3.csv", [("new", "bob", "a", 3 * HOUR_US)])
    assert nightly(ledger, [more], *ttl)["counts"]["labels_rejected"] == 0
