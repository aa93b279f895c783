"""Fetching: engines by their package coordinates, through go, uv or pip, Maven and apt-get, into a cache.

A part of an engine is made aside and renamed when it is whole, so one that is there is whole. Several clones may share
the cache: what one fetches, another waits for.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines.errors import EngineError, EngineMissingError
from engines.programs import java, postgres_programs, program
from engines.versions import HERE, cache_folder, versions

_STAMP = "engine.json"
_LOG_LINES = 15


@dataclass(frozen=True)
class Part:
    """What is fetched in one go.

    Attributes:
        name: its folder in the cache; tells the version.
        coordinates: all that decides what is in it; kept as a stamp.
        fetch: puts it into a folder that exists and is empty.
    """

    name: str
    coordinates: dict[str, str]
    fetch: Callable[[Path], None]

    @property
    def folder(self) -> Path:
        """Where it is once it is fetched."""
        return cache_folder() / self.name

    @property
    def is_there(self) -> bool:
        """Whether it is in the cache, whole, and made from these coordinates."""
        stamp = self.folder / _STAMP
        return stamp.is_file() and json.loads(stamp.read_text("utf-8")) == self.coordinates


def parts_of(engine: str) -> list[Part]:
    """The parts of an engine; of Postgres none when the system has a server, or can have one."""
    given = versions()
    maven = given["maven"]
    if engine == "prism":
        prism = given["prism"]
        return [Part(f"prism-{prism['version']}", prism, _fetch_prism)]
    if engine == "flink":
        flink, runner = given["flink"], given["flink-runner"] | {"flink": given["flink"]["version"]}
        return [
            Part(f"flink-{flink['version']}", flink, lambda folder: _fetch_package(flink, folder)),
            Part(f"flink-{runner['line']}-runner-{runner['version']}", runner | maven, _fetch_flink_runner),
        ]
    if engine == "kafka":
        return [Part(f"kafka-{given['kafka']['version']}", given["kafka"] | maven, _fetch_kafka)]
    if engine == "postgres":
        package = given["postgres"]
        if postgres_programs() is not None:
            return []
        return [Part(f"postgres-{package['version']}", package, lambda folder: _fetch_package(package, folder))]
    raise EngineError(f"There is no engine {engine!r}; there are {', '.join(ENGINES)}.")


ENGINES = ("prism", "flink", "kafka", "postgres")


def fetch(engine: str, say: Callable[[str], object] = print) -> None:
    """Fetches what is missing of an engine; raises `EngineError` with what to do when it cannot."""
    if engine == "postgres" and postgres_programs() is None:
        _install_postgres(say)
    for part in parts_of(engine):
        if part.is_there:
            continue
        with _lock(part.name):
            if not part.is_there:  # another process may have fetched it in the meantime
                _make(part, say)


def require(engine: str) -> list[Path]:
    """The folders of an engine's parts; raises `EngineMissingError` when it cannot run here."""
    if engine in ("flink", "kafka"):
        java()
    parts = parts_of(engine)
    for part in parts:
        if not part.is_there:
            raise EngineMissingError(f"{part.name} is not in {cache_folder()}; fetch it: make engines")
    return [part.folder for part in parts]


def _make(part: Part, say: Callable[[str], object]) -> None:
    started = time.monotonic()
    cache = cache_folder()
    for left in cache.glob(f".{part.name}.*.partial"):
        shutil.rmtree(left)
    aside = Path(tempfile.mkdtemp(prefix=f".{part.name}.", suffix=".partial", dir=cache))
    try:
        aside.chmod(0o755)
        say(f"Fetching {part.name} ...")
        part.fetch(aside)
        (aside / _STAMP).write_text(json.dumps(part.coordinates), "utf-8")
        if part.folder.exists():
            shutil.rmtree(part.folder)
        aside.rename(part.folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    say(f"Fetching {part.name} took {time.monotonic() - started:.0f} s.")


@contextmanager
def _lock(name: str) -> Iterator[None]:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with open(cache_folder() / f".{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_prism(folder: Path) -> None:
    prism = versions()["prism"]
    go = program("go", "Go 1.25 or newer", "golang")
    _run([go, "install", f"{prism['module']}@{prism['version']}"], {"GOBIN": str(folder)})


def _fetch_package(package: dict[str, str], folder: Path) -> None:
    wanted = f"{package['package']}=={package['version']}"
    uv = Path(sys.executable).with_name("uv")
    client = [str(uv), "pip", "install", "--python", sys.executable]
    if not uv.exists():
        client = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    _run([*client, "--quiet", "--no-deps", "--target", str(folder), wanted])


def _fetch_kafka(folder: Path) -> None:
    kafka, maven = versions()["kafka"], versions()["maven"]
    properties = {
        "kafka.scala": kafka["scala"],
        "kafka.version": kafka["version"],
        "slf4j.version": kafka["slf4j"],
        "dependency.plugin.version": maven["dependency-plugin"],
        "engines.output": str(folder),
    }
    _maven("kafka.xml", "dependency:copy-dependencies", properties)


def _fetch_flink_runner(folder: Path) -> None:
    runner, maven = versions()["flink-runner"], versions()["maven"]
    target = folder / "target"
    properties = {
        "beam.version": runner["version"],
        "flink.line": runner["line"],
        "flink.version": versions()["flink"]["version"],
        "slf4j.version": runner["slf4j"],
        "shade.plugin.version": maven["shade-plugin"],
        "engines.output": str(target),
    }
    _maven("flink-runner.xml", "package", properties)
    (target / "job-server.jar").rename(folder / "job-server.jar")
    shutil.rmtree(target)


def _maven(pom: str, goal: str, properties: dict[str, str]) -> None:
    java()
    mvn = program("mvn", "Maven 3.6 or newer", "maven")
    given = [f"-D{name}={value}" for name, value in properties.items()]
    _run([mvn, "--quiet", "--batch-mode", "--file", str(HERE / "poms" / pom), *given, goal])


def _install_postgres(say: Callable[[str], object]) -> None:
    """By the system's package manager where this user may use it; a failure is none: PyPI is left."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return
    package = versions()["postgres"]["apt"]
    say(f"Installing {package} with apt-get ...")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        _run([apt, "update", "--quiet"], quiet)
        _run([apt, "install", "--quiet", "--yes", "--no-install-recommends", package], quiet)
    except EngineError as error:
        say(f"{error} A server from PyPI is taken instead.")


def _run(command: Sequence[str], env: dict[str, str] | None = None) -> None:
    """Runs a client; its output is shown only when it fails."""
    done = subprocess.run(  # noqa: S603 - the commands are ours
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[-_LOG_LINES:])
        raise EngineError(f"{' '.join(command[:3])} ... failed with code {done.returncode}:\n{said}\n")
