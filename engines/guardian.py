"""Kills what a process has started once that process is gone, however it went; run as a script by `processes`.

Lines on the standard input: ``+ID`` watches a process group, ``-ID`` forgets it. The end of the input is the end of the
process that watches: no signal, not even SIGKILL, can keep the pipe open.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def watch(lines: Iterable[str]) -> set[int]:
    """The process groups that are left when the lines end.

    >>> watch(["+7", "+8", "-7"])
    {8}
    """
    groups: set[int] = set()
    for line in lines:
        number = int(line[1:])
        if line.startswith("+"):
            groups.add(number)
        else:
            groups.discard(number)
    return groups


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for group in watch(sys.stdin):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
