"""Syncing: what is there after a power cut, too."""

import os


def sync(path: str) -> None:
    """Has the system write down a file, or which files a folder has."""
    opened = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
