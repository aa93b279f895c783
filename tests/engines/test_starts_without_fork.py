"""Nothing here is started by a fork: gRPC's handlers, which a fork runs in the child, crash it now and then."""

import subprocess
import sys

import pytest

# Python starts a program by vfork, which runs no such handlers, unless it has something to do between fork and exec.
COUNT_FORKS = """\
import ctypes, sys
forks = []
handler = ctypes.CFUNCTYPE(None)(lambda: forks.append(1))
ctypes.CDLL(None).__register_atfork(handler, None, None, None)
"""
FORKED = "import os\nif not os.fork():\n    os._exit(0)\nos.wait()\n"
POSTGRES = "from engines.postgres import Postgres\nwith Postgres(sys.argv[1]) as server:\n    assert server.dsn\n"
PRISM = "from pipelines.streaming.prism import prism_server\nwith prism_server([], sys.argv[1]):\n    pass\n"


def forks_of(code, *args):
    script = f"{COUNT_FORKS}{code}print(len(forks))"
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets one count forks like this")
def test_engines_are_started_without_a_fork(postgres, prism, tmp_path):
    assert forks_of(FORKED) == 1
    assert forks_of(POSTGRES, tmp_path) == 0
    assert forks_of(PRISM, prism.binary) == 0
