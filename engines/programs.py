"""The programs of the machine that engines are fetched and run with."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from engines.errors import EngineMissingError
from engines.versions import cache_folder, versions


def program(name: str, what: str, package: str) -> str:
    """The path of a program; raises `EngineMissingError` when it is not there."""
    found = shutil.which(name)
    if found is None:
        raise EngineMissingError(f"{what} is needed, and there is no {name} on the PATH; apt-get install {package}")
    return found


def java() -> str:
    """The path of Java."""
    home = os.environ.get("JAVA_HOME", "")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    return program("java", "Java 17 or newer", "openjdk-17-jre-headless")


def postgres_programs() -> Path | None:
    """The folder of the newest Postgres server of the system, if there is one."""
    found = [folder for folder in _system_folders() if (folder / "initdb").is_file()]
    return max(found, key=_version, default=None)


def postgres_folder() -> Path:
    """The folder of a Postgres server: the system's, else the one fetched; raises `EngineMissingError`."""
    system = postgres_programs()
    if system is not None:
        return system
    fetched = cache_folder() / f"postgres-{versions()['postgres']['version']}"
    for initdb in fetched.glob("*/pginstall/bin/initdb"):
        return initdb.parent
    raise EngineMissingError("There is no Postgres server on this machine; fetch one: make engines")


def _system_folders() -> Iterator[Path]:
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _version(folder: Path) -> int:
    """15 of ``/usr/lib/postgresql/15/bin``."""
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0
