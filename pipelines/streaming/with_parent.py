"""Becomes a program that ends with its parent; run as a script, with the parent's process id and the command.

Linux then kills the program when its parent has ended, however it did; elsewhere it stays when its parent is killed.
`subprocess` could do the same between fork and exec, but gRPC has handlers that a fork runs in the child, where they
crash it at times.
"""

import ctypes
import os
import signal
import sys

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

if __name__ == "__main__":
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):  # it has ended before it could be watched
        sys.exit(1)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the user names the program
