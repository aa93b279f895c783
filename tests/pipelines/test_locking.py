"""One process at a time in a folder; the locks of ledgers and of control folders are tested with them."""

import errno
import os

import pytest

from pipelines.errors import InvalidSettingError
from pipelines.ledger.folder import LedgerFolder


def test_a_ledger_where_there_are_no_locks_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    def flock(lock, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    refused = pytest.raises(InvalidSettingError, match=r"--ledger .*ledger cannot be locked: No locks available\.")
    with refused, LedgerFolder(str(tmp_path / "ledger")).locked():
        pass
    assert list(tmp_path.iterdir()) == []
