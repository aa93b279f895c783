"""Locking: one process of this machine at a time in a folder. The system ends a lock with its process."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from pipelines.errors import InvalidSettingError

LOCK = "lock"


@dataclass(frozen=True)
class Lock:
    """How the folder of an option is locked.

    Attributes:
        option: of the command, for its sentences.
        sign: a file that is in the folder when it is in use: without it a folder that was made is removed in the end.
        in_use: the sentence for a folder that a process has; the process is a number or "unknown".
        noted: asked where the file system has no locks: the process that is noted to have the folder, or 0. None: a
            folder without locks is refused.
    """

    option: str
    sign: str
    in_use: Callable[[str], str]
    noted: Callable[[], int] | None = None


@contextmanager
def alone_in(folder: str, how: Lock) -> Iterator[None]:
    """Makes `folder` if it is missing, and keeps others out; raises `InvalidSettingError` when somebody is in."""
    is_new = not os.path.exists(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, LOCK), "a+", encoding="utf-8")  # noqa: SIM115 - held while the folder is
    except OSError as error:
        raise InvalidSettingError(f"{how.option} {folder} cannot be used: {error.strerror}.") from error
    with lock:
        try:
            other = _taken_by(lock, folder, how)
            if other:
                is_new = False  # it is theirs
                raise InvalidSettingError(how.in_use(other))
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield
        finally:
            if is_new and not os.path.exists(os.path.join(folder, how.sign)):
                shutil.rmtree(folder, ignore_errors=True)


def _taken_by(lock: IO[str], folder: str, how: Lock) -> str:
    """Takes the lock; gives the process that has it already, or nothing."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        return lock.read().strip() or "unknown"
    except OSError as error:  # a file system without locks
        if how.noted is None:
            raise InvalidSettingError(f"{how.option} {folder} cannot be locked: {error.strerror}.") from error
        return str(how.noted() or "")
    try:
        there = os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name))
    except FileNotFoundError:
        there = False
    return "" if there else "unknown"  # one that was refused has just removed the folder
