"""Prism, Beam's runner on one machine, as a process of ours: the terminal's signals miss it, and it ends with us."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipelines.errors import InvalidSettingError, RunError

_START_S, _STEP_S = 30.0, 0.05
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@contextmanager
def prism_server(beam_args: Sequence[str]) -> Iterator[list[str]]:
    """Beam's arguments for a Prism that was started here; as they are when they name another runner or endpoint.

    Beam would start Prism in our process group: Ctrl-C would end it before the stream has answered what it has read.
    Where no Prism is to be found, it is left to Beam, which fetches one.
    """
    args = list(beam_args)
    given = [arg.partition("=")[2] for arg in args if arg.startswith("--prism_location=")]
    ours = "--runner=PrismRunner" in args and not any(arg.startswith("--job_endpoint") for arg in args)
    binary = given[-1] if given else shutil.which("prism")
    if not ours or binary is None or "://" in binary:
        yield args
        return
    if not os.access(binary, os.X_OK) or os.path.isdir(binary):
        raise InvalidSettingError(f"--prism_location {binary} is no program; give the path of Prism.")
    port = _free_port()
    command = [binary, f"--job_port={port}", "--serve_http=false", "--log_level=warn", "--log_kind=text"]
    server = subprocess.Popen(  # noqa: S603 - the user names the program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    try:
        _wait(server, port)
        yield [arg for arg in args if not arg.startswith("--prism_location=")] + [f"--job_endpoint=127.0.0.1:{port}"]
    finally:
        server.kill()
        server.wait()


def _die_with_parent() -> None:
    """Linux ends the process with its parent; elsewhere it stays when its parent is killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_S
    while not _answers(port):
        if server.poll() is not None or time.monotonic() > until:
            raise RunError("Prism did not start; see that --prism_location is a Prism for this machine.")
        time.sleep(_STEP_S)


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
