"""The versions in `versions.toml`, and where engines of these versions are kept."""

import os
import sys
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
CACHE_VARIABLE = "CROWDBEAM_ENGINES"


@cache
def versions() -> dict[str, dict[str, str]]:
    """The sections of `versions.toml`.

    >>> versions()["kafka"]["scala"]
    '2.13'
    """
    found: dict[str, dict[str, str]] = tomllib.loads((HERE / "versions.toml").read_text("utf-8"))
    return found


def cache_folder() -> Path:
    """Where fetched engines are: ``$CROWDBEAM_ENGINES``, else ``.cache/engines`` in the repository."""
    given = os.environ.get(CACHE_VARIABLE, "")
    return Path(given).expanduser().absolute() if given else HERE.parent / ".cache" / "engines"
