"""crowd-kit as an independent implementation to compare with, in an environment of its own.

A test asks for the fixture `crowd_kit` and gives it a script, which only that environment imports:

    answers = crowd_kit(Path("script.py"), {"rows": [...]}, tmp_path)

The script gets two arguments: a JSON file with what was given, and a JSON file to write, whose content comes back. The
environment is made as the benchmarks make it. Where it cannot be made (no network) the test is skipped with the reason;
with CI=true it fails.
"""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.environment import FOLDER, PYTHON, make_environment

LIMIT_S = 240


def run_in_crowd_kit(script, given, folder):
    """What `script` writes to its second argument, in crowd-kit's environment, having read `given` from its first."""
    asked, told = Path(folder) / "given.json", Path(folder) / "found.json"
    asked.write_text(json.dumps(given), encoding="utf-8")
    told.unlink(missing_ok=True)
    command = [str(PYTHON), str(script), str(asked), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return json.loads(told.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def crowd_kit():
    """A function (script, given, folder) that runs a script beside crowd-kit and gives back what it wrote."""
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (FOLDER.parent / "crowd-kit.lock").open("w") as lock:  # several processes of pytest-xdist, one environment
            fcntl.flock(lock, fcntl.LOCK_EX)
            make_environment()
    except (subprocess.CalledProcessError, OSError) as error:
        if os.environ.get("CI", "") not in ("", "0", "false"):
            pytest.fail(f"crowd-kit's environment cannot be made: {error}", pytrace=False)
        pytest.skip(f"crowd-kit's environment cannot be made: {error}")
    return run_in_crowd_kit
