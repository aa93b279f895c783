"""Locking: one process at a time in the folder of a ledger."""

from contextlib import AbstractContextManager

from pipelines import locking

LOCK = locking.LOCK


def alone_in(folder: str, sign: str) -> AbstractContextManager[None]:
    """Makes `folder` if it is missing, and keeps others out; raises `InvalidSettingError` when somebody is in.

    A folder that was made is removed in the end unless the file `sign` is in it: what was refused leaves nothing.
    """
    how = locking.Lock(
        "--ledger",
        sign,
        lambda process: f"--ledger {folder} is in use by another run (process {process}). Wait for it to end.",
    )
    return locking.alone_in(folder, how)
