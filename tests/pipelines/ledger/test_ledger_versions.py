"""The accounts of versions: what is done without one that is damaged, and what lies beside them and is none."""

import pytest
from nights import bytes_of, ledger_command, nightly, write_events

from pipelines.ledger.folder import LedgerFolder


@pytest.fixture
def ledger(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", [("t", "ann", "a", 1), ("t", "bob", "a", 1)])])
    nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("u", "bob", "b", 2)])])
    return tmp_path / "ledger"


@pytest.mark.parametrize("between", [("compact",), ("rollback", "--to", "1")])
@pytest.mark.parametrize("gate", [(), ("--fail-if", "skill-drift>0.3")])
def test_a_damaged_account_of_what_was_compacted_or_gone_back_to_stops_no_night(ledger, tmp_path, between, gate):
    ledger_command(between[0], ledger, *between[1:])
    parent = LedgerFolder(str(ledger)).existing().parent
    (ledger / "versions" / f"{parent:06d}.json").write_text("{")
    told = nightly(ledger, [write_events(tmp_path / "3.csv", [("v", "ann", "a", 3)])], *gate)
    assert told["ledger_version"] == 4
    assert [(one["value"], one["tripped"]) for one in told["gates"]] == [(None, False)] * (len(gate) // 2)


def test_what_is_no_account_of_a_version_harms_no_command_and_is_left_alone(ledger, tmp_path):
    strange = ("._000001.json", "000001 (conflict).json", "000009 (conflict).json", "1.json", "notes.json", "notes.txt")
    for name in strange:
        (ledger / "versions" / name).write_text("not crowdbeam's")
    assert [one["number"] for one in ledger_command("show", ledger)["versions"]] == [1, 2]
    third = write_events(tmp_path / "3.csv", [("v", "ann", "a", 3), ("v", "cem", "a", 3)])
    assert nightly(ledger, [third], "--keep-versions", "2")["ledger_version"] == 3
    assert ledger_command("rollback", ledger, "--to", "2")["version"] == 4
    assert ledger_command("compact", ledger)["version"] == 5
    assert ledger_command("forget", ledger, "--worker", "ann")["version"] == 6
    assert ledger_command("verify", ledger)["sound"]
    assert set(bytes_of(ledger / "versions")) == {"000006.json", *strange}
