"""The environment of rival (b): crowd-kit as locked in crowd-kit.lock, apart from crowdbeam's own.

To upgrade: `uv pip compile --upgrade --universal --python-version 3.10 --generate-hashes --no-emit-index-url
--no-header benchmarks/crowd-kit.in -o benchmarks/crowd-kit.lock`.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT

FOLDER = ROOT / ".cache" / "crowd-kit-venv"
PYTHON = FOLDER / "bin" / "python"
LOCK = ROOT / "benchmarks" / "crowd-kit.lock"
UV = Path(sys.executable).parent / "uv"


def make_environment(folder: Path = FOLDER, lock: Path = LOCK) -> bool:
    """Makes the environment in `folder` unless it is there as locked; says whether it had to."""
    made_from = folder / "made-from.sha256"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if made_from.exists() and made_from.read_text() == wanted:
        return False
    subprocess.run([str(UV), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
    sync = [str(UV), "pip", "sync", "--compile-bytecode", "--quiet", "--require-hashes", str(lock)]
    subprocess.run(sync, check=True, env={**os.environ, "VIRTUAL_ENV": str(folder)})
    made_from.write_text(wanted)
    return True


def versions_there(names: list[str]) -> dict[str, str]:
    """The versions of the named packages in that environment."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    asked = subprocess.run([str(PYTHON), "-c", code, *names], check=True, capture_output=True, text=True)
    return dict(zip(names, asked.stdout.split(), strict=True))
