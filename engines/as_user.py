"""Becomes another user, then a program; run as a script by `processes`, with the user's name and the command.

`subprocess` can do the same, but forks for it. gRPC has handlers that a fork runs in the child, on threads that are not
there: with it in the process one in some hundred children crashes before it is the program that was meant.
"""

import os
import pwd
import sys

if __name__ == "__main__":
    entry = pwd.getpwnam(sys.argv[1])
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the commands are ours
