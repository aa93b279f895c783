"""Locking: one process at a time in the folder of a ledger."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from pipelines.errors import InvalidSettingError

LOCK = "lock"


@contextmanager
def alone_in(folder: str, sign: str) -> Iterator[None]:
    """Makes `folder` if it is missing, and keeps others out; raises `InvalidSettingError` when somebody is in.

    A folder that was made is removed in the end unless the file `sign` is in it: what was refused leaves nothing.
    """
    is_new = not os.path.exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, LOCK), "a+", encoding="utf-8")  # noqa: SIM115 - held while the ledger is
    except OSError as error:
        raise InvalidSettingError(f"--ledger {folder} cannot be used: {error.strerror}.") from error
    with lock:
        _take(lock, folder)
        try:
            yield
        finally:
            if is_new and not os.path.exists(os.path.join(folder, sign)):
                shutil.rmtree(folder)


def _take(lock: IO[str], folder: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise _in_use(folder, lock.read().strip()) from None
    try:
        there = os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name))
    except FileNotFoundError:
        there = False
    if not there:  # a run that was refused has just removed it
        raise _in_use(folder, "")
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _in_use(folder: str, process: str) -> InvalidSettingError:
    who = process or "unknown"
    return InvalidSettingError(f"--ledger {folder} is in use by another run (process {who}). Wait for it to end.")
