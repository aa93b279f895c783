"""Ledgers that earlier formats wrote: frozen copies, made of the nights beside them, that must go on."""

import shutil
import tarfile
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.version import FORMAT_VERSION
from pipelines.run_tables import read_table

FROZEN = Path(__file__).parent / "ledger_formats"
FIFTH_NIGHT = """task,worker,label,time,op
tâche-1,w0,a,1700500000,
tâche-30,w1,,1700500000,delete
tâche-99,w2,c,1700500000,
tâche-99,w3,c,,
"""


@pytest.fixture(params=sorted(path.name for path in FROZEN.glob("format-*.tar.gz")))
def frozen(request, tmp_path):
    with tarfile.open(FROZEN / request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def crowdbeam(*args):
    return cli.main([str(arg) for arg in args])


def tables_of(folder, name, keys):
    return read_table(str(folder), name).sort_by([(key, "ascending") for key in keys])


def test_there_is_a_frozen_ledger_of_every_earlier_format():
    kept = {int(path.name.removeprefix("format-").removesuffix(".tar.gz")) for path in FROZEN.glob("format-*.tar.gz")}
    assert kept >= set(range(1, FORMAT_VERSION))


def test_a_frozen_ledger_is_sound(frozen):
    assert crowdbeam("ledger", "verify", frozen / "ledger") == 0


def test_a_frozen_ledger_goes_on_and_gives_what_the_batch_gives(frozen):
    (frozen / "night-4.csv").write_text(FIFTH_NIGHT, "utf-8")
    ledger = frozen / "ledger"
    assert LedgerFolder(str(ledger)).existing().format_version < FORMAT_VERSION
    nightly = ("nightly", frozen / "night-4.csv", "--ledger", ledger, "--time-unit", "s", "--rescore", "all", "--quiet")
    assert crowdbeam(*nightly) == 0
    assert LedgerFolder(str(ledger)).existing().format_version == FORMAT_VERSION
    nights = sorted(frozen.glob("night-*.csv"))
    assert crowdbeam("aggregate", *nights, "--output", frozen / "batch", "--quiet") == 0
    run = ledger / "runs" / "000005"
    for name, keys in (("edges", ("worker_a", "worker_b")), ("scores", ("task",)), ("skills", ("worker",))):
        assert tables_of(run, name, keys).equals(tables_of(frozen / "batch", name, keys))


def test_the_nights_of_a_frozen_ledger_are_known(frozen, capsys):
    shutil.copy(frozen / "night-2.csv", frozen / "again.csv")
    assert crowdbeam("nightly", frozen / "again.csv", "--ledger", frozen / "ledger", "--time-unit", "s") == 0
    assert "since version 3" in capsys.readouterr().out
