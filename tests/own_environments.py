"""Environments that a test needs apart from crowdbeam's own: Airflow, dbt, OpenLineage's client.

`python_of("dbt")` is the Python of the environment that `tests/environments/dbt.lock` describes; it is made in `.cache`
when it is first asked for. Where it cannot be made (no network) the test is skipped with the reason; with CI=true it
fails. To upgrade one, in `tests/environments`: `uv pip compile --upgrade --universal --python-version 3.11
--generate-hashes --no-emit-index-url --no-header dbt.in -o dbt.lock`.
"""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import ROOT
from benchmarks.environment import make_environment

LOCKS = Path(__file__).parent / "environments"
CACHE = ROOT / ".cache"


def python_of(name):
    """The Python of the environment called `name`."""
    folder = CACHE / f"{name}-venv"
    CACHE.mkdir(exist_ok=True)
    try:
        with (CACHE / f"{name}.lock").open("w") as lock:  # several processes of pytest-xdist, one environment
            fcntl.flock(lock, fcntl.LOCK_EX)
            make_environment(folder, LOCKS / f"{name}.lock")
    except (subprocess.CalledProcessError, OSError) as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(f"The environment {name} cannot be made: {error}", pytrace=False)
        pytest.skip(f"The environment {name} cannot be made: {error}")
    return folder / "bin" / "python"
