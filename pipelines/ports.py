"""Ports of this machine: one that is free for a program that is to be started, and whether one answers."""

import random
import socket
from contextlib import suppress

from pipelines.errors import RunError

LOOPBACK = "127.0.0.1"
# Below the ports that the system gives to outgoing connections: a client that knocks at the port of a program that is
# down would otherwise, once in a while, be given that very port and answer itself.
_PORTS = range(15_000, 32_000)


def free_port() -> int:
    """A port that nobody listens at."""
    for port in random.SystemRandom().sample(_PORTS, 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise RunError(f"There is no free port between {_PORTS.start} and {_PORTS.stop}.")


def answers(port: int) -> bool:
    """Whether something listens at the port."""
    with suppress(OSError):
        socket.create_connection((LOOPBACK, port), timeout=1).close()
        return True
    return False
