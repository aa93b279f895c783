"""Removes what a process has started or made once that process is gone, however it went; a script of `processes`.

Lines on the standard input: ``+ID`` watches a process group and ``+/FOLDER`` a folder, ``-ID`` and ``-/FOLDER`` forget
it. The end of the input is the end of the process that watches: no signal, not even SIGKILL, can keep the pipe open.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

_TRIES, _PAUSE_S = 50, 0.1


def watch(lines: Iterable[str]) -> set[str]:
    """The process groups and folders that are left when the lines end.

    >>> sorted(watch(["+7", "+8", "+/tmp/a", "-7"]))
    ['/tmp/a', '8']
    """
    found: set[str] = set()
    for line in lines:
        what = line[1:].rstrip("\n")
        if line.startswith("+"):
            found.add(what)
        else:
            found.discard(what)
    return found


def remove(folder: str) -> None:
    """Removes a folder; those who were killed may still be at work in it for a moment."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left = watch(sys.stdin)
    for group in left:
        if group.isdigit():
            with suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
    for place in left:
        if place.startswith("/"):
            remove(place)
