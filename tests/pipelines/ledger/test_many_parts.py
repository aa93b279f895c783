"""A ledger of many parts is read with few files open, and what the system does not give is not called damage."""

import gc
import itertools
import os
import resource
from contextlib import contextmanager

import pytest
from nights import ledger_command, nightly, state_of, write_events

from pipelines.errors import RunError
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.night import OpenLedger

N_PARTS, MORE_FILES = 200, 40
DAY_US = 86_400_000_000
FIRST = [(f"t{n}", worker, "ab"[n % 2], n * DAY_US) for n in range(600) for worker in ("ann", "bob", "cem")]


@contextmanager
def descriptors_below(limit):
    """This process may open files by lower numbers only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def some_more():
    """A limit that leaves a process room for a few files more than it has open."""
    gc.collect()  # what nobody can reach any more is not open when the limit counts
    taken = set(os.listdir("/proc/self/fd"))
    free = (number for number in itertools.count() if str(number) not in taken)
    return next(itertools.islice(free, MORE_FILES, None))


@pytest.fixture
def ledger(tmp_path):
    nightly(tmp_path / "ledger", [write_events(tmp_path / "1.csv", FIRST)], "--shards", N_PARTS)
    nightly(tmp_path / "ledger", [write_events(tmp_path / "2.csv", FIRST[::9])])
    return tmp_path / "ledger"


@pytest.mark.parametrize("options", [(), ("--task-ttl", "200d"), ("--rescore", "all", "--task-ttl", "200d")])
def test_a_night_reads_many_parts_with_few_files_open(ledger, tmp_path, options):
    third = write_events(tmp_path / "3.csv", [(f"t{n}", "dan", "a", n * DAY_US + 1) for n in range(600)])
    with descriptors_below(some_more()):
        assert nightly(ledger, [third], *options)["ledger_version"] == 3
    assert len(state_of(ledger)["rows"]) == 4 * 600


@pytest.mark.parametrize("action", ["verify", "compact", "forget --worker ann", "export --output {}/run"])
def test_care_of_many_parts_takes_few_files(ledger, tmp_path, action):
    with descriptors_below(some_more()):
        name, *options = action.format(tmp_path).split()
        ledger_command(name, ledger, *options)
    assert ledger_command("verify", ledger)["sound"]


def test_where_no_file_can_be_opened_nothing_is_called_damaged(ledger, tmp_path):
    folder = LedgerFolder(str(ledger))
    opened = OpenLedger(folder, folder.existing())
    with descriptors_below(0), pytest.raises(RunError, match=r"cannot be read, at .*: Too many open files"):
        opened.segments(0)
