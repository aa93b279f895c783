"""Actions on a ledger that a signal ends when their version holds: what is said, and that the removal is finished."""

import signal

import pytest
from command_line import run_command
from nights import bytes_of, ledger_command, nightly, write_events

from pipelines.ledger.folder import LedgerFolder

WHO = "ann-who-leaves"
FORGET = ("forget", "--worker", WHO)


@pytest.fixture
def ledger(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", [("t", WHO, "a", 1), ("t", "bob", "a", 1)])])
    nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", [("u", WHO, "b", 2), ("u", "cem", "b", 2)])])
    return tmp_path / "ledger"


def interrupted(ledger, action, number, monkeypatch):
    """Sends a signal between the exchange of the version, the third, and the removal of the two before it."""

    def stop(folder, oldest):
        if oldest == 3:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFolder, "forget_versions", stop)
        run = run_command("ledger", action[0], ledger, *action[1:])
    assert (LedgerFolder(str(ledger)).existing_number(), LedgerFolder(str(ledger)).numbers()) == (3, [1, 2, 3])
    return run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "action", [FORGET, ("rollback", "--to", "1", "--keep-versions", "1"), ("compact", "--keep-versions", "1")]
)
def test_an_action_that_is_interrupted_says_how_to_see_what_holds(ledger, action, number, code, monkeypatch):
    run = interrupted(ledger, action, number, monkeypatch)
    assert run.code == code
    assert run.err.endswith(
        "; crowdbeam ledger show tells which version holds. If it is a new one, any other command on the ledger "
        "finishes the removal of earlier ones; if not, run this one again.\n"
    )
    ledger_command("verify", ledger)
    assert LedgerFolder(str(ledger)).numbers() == [3]


def test_forgetting_again_after_an_interrupt_finishes_the_removal(ledger, monkeypatch):
    interrupted(ledger, FORGET, signal.SIGINT, monkeypatch)
    assert any(WHO.encode() in content for content in bytes_of(ledger).values())
    assert f"holds no label of the worker {WHO!r}" in ledger_command(*FORGET[:1], ledger, *FORGET[1:], code=2).err
    assert LedgerFolder(str(ledger)).numbers() == [3]
    assert not any(WHO.encode() in content for content in bytes_of(ledger).values())
    assert ledger_command("verify", ledger)["sound"]
