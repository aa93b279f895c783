"""Prism, Beam's runner on one machine, as a process of ours: the terminal's signals miss it, and it ends with us."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.prism_runner import GITHUB_TAG_PREFIX, PrismJobServer
from apache_beam.version import __version__ as beam_version

from pipelines.debugging import is_debugging
from pipelines.errors import InvalidSettingError, RunError
from pipelines.ports import LOOPBACK, answers, free_port
from pipelines.streaming.runner_flags import prism_options, runs_on_prism

_START_S, _STEP_S = 30.0, 0.05


def prism_of(beam_args: Sequence[str]) -> str:
    """The program of the Prism that is to be started: that of --prism_location, else the first that is found.

    It is looked for on the PATH, among what `make engines` has fetched, and where Beam keeps those that it fetches.
    Empty when the arguments name another runner, or a Prism that runs. Raises `InvalidSettingError` when there is none.
    """
    if not runs_on_prism(beam_args) or any(arg.startswith("--job_endpoint") for arg in beam_args):
        return ""
    given = [arg.partition("=")[2] for arg in beam_args if arg.startswith("--prism_location=")]
    if given:
        program = _fetched(beam_args) if "://" in given[-1] else given[-1]
        if not _is_program(program):
            raise InvalidSettingError(f"--prism_location {program} is no program; give the path of Prism.")
        return program
    found = [shutil.which("prism"), *_places()]
    program = next((path for path in found if path and _is_program(path)), "")
    if not program:
        raise InvalidSettingError(
            "There is no Prism, on which a stream runs unless a --runner is given. Fetch it, with `make engines` in a "
            "clone of crowdbeam; or put a program called prism on the PATH; or give --prism_location, its path or "
            f"{GITHUB_TAG_PREFIX}v{beam_version} for Beam to fetch it."
        )
    return program


def _places() -> list[str]:
    """Where a Prism of Beam's version may have been fetched to; $CROWDBEAM_ENGINES goes before this clone's cache."""
    caches = [os.environ.get("CROWDBEAM_ENGINES", ""), str(Path(__file__).parents[2] / ".cache" / "engines")]
    fetched = [str(Path(cache).expanduser() / f"prism-v{beam_version}" / "prism") for cache in caches if cache]
    by_beam = Path(PrismJobServer.BIN_CACHE).glob(f"apache_beam-v{beam_version}-prism-*")
    return [*fetched, *sorted(str(path) for path in by_beam if path.suffix != ".zip")]


def _fetched(beam_args: Sequence[str]) -> str:
    """The program behind the address in --prism_location, fetched by Beam."""
    server = PrismJobServer(PipelineOptions(list(beam_args)))
    try:
        return str(server.local_bin(server.path_to_binary(), PrismJobServer.BIN_CACHE))
    except (RuntimeError, ValueError, OSError, BeamIOError) as error:
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise InvalidSettingError(f"The Prism of --prism_location cannot be fetched: {why}.") from error


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)


@contextmanager
def prism_server(beam_args: Sequence[str], program: str) -> Iterator[list[str]]:
    """Beam's arguments for a Prism that was started here; as they are when `program` is empty.

    Beam would start Prism in our process group: Ctrl-C would end it before the stream has answered what it has read.
    With CROWDBEAM_DEBUG its log is seen.
    """
    args = list(beam_args)
    if not program:
        yield args
        return
    port = free_port()
    ends_with_us = [sys.executable, "-S", "-E", str(Path(__file__).with_name("with_parent.py")), str(os.getpid())]
    log = None if is_debugging() else subprocess.DEVNULL  # None: it goes to the terminal
    server = subprocess.Popen(  # noqa: S603 - the user names the program
        [*ends_with_us, program, *prism_options(args, port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
    )
    try:
        _wait(server, port)
        yield [arg for arg in args if not arg.startswith("--prism_location=")] + [f"--job_endpoint={LOOPBACK}:{port}"]
    finally:
        server.kill()
        server.wait()


def _wait(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_S
    while True:
        somebody_answers = answers(port)
        if server.poll() is not None or time.monotonic() > until:  # then whoever answers is somebody else
            raise RunError("Prism did not start; see that --prism_location is a Prism for this machine.")
        if somebody_answers:
            return
        time.sleep(_STEP_S)
