"""Beam with an extra that cannot be in our own environment: `yaml` wants an older pandas, `gcp` is large.

A test asks for the fixture `beam_yaml` or `beam_gcp` and gets the Python of an environment with the extra and all that
crowdbeam needs, from `tests/environments/*.lock`; crowdbeam itself is taken from this tree by PYTHONPATH. It is made
when it is first asked for, under .cache. Where it cannot be made (no network) the test is skipped with
the reason; with CI=true it fails.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = Path(__file__).parent / "environments"
CACHE = ROOT / ".cache"
UV = Path(sys.executable).parent / "uv"
LIMIT_S = 120


def make_environment(name):
    """Makes the environment called `name` unless it is there as locked; gives its Python."""
    folder, lock = CACHE / f"beam-{name}-venv", LOCKS / f"{name}.lock"
    python, made_from = folder / "bin" / "python", folder / "made-from.sha256"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if made_from.exists() and made_from.read_text() == wanted:
        return python
    subprocess.run([str(UV), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
    sync = [str(UV), "pip", "sync", "--compile-bytecode", "--quiet", "--require-hashes", str(lock)]
    subprocess.run(sync, check=True, env={**os.environ, "VIRTUAL_ENV": str(folder)})
    made_from.write_text(wanted)
    return python


def run_python(python, *argv, folder=ROOT, environment=None):
    """A finished process of that Python, with this tree's crowdbeam."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    command = [str(python), *map(str, argv)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder, env=given
    )  # fmt: skip


def _made(name):
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        with (CACHE / f"beam-{name}.lock").open("w") as lock:  # several processes of pytest-xdist, one environment
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make_environment(name)
    except (subprocess.CalledProcessError, OSError) as error:
        sentence = f"the environment of apache-beam[{name}] cannot be made: {error}"
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)


@pytest.fixture(scope="session")
def beam_yaml():
    """The Python of an environment with apache-beam[yaml]."""
    return _made("yaml")


@pytest.fixture(scope="session")
def beam_gcp():
    """The Python of an environment with apache-beam[gcp]."""
    return _made("gcp")
