"""Prism: Beam's Go runner, which streams on one machine."""

from pathlib import Path
from types import TracebackType

from engines.fetch import require
from engines.processes import Process, start, wait_until
from pipelines.ports import LOOPBACK, answers, free_port
from pipelines.streaming.runner_flags import prism_options, with_streaming_flags

_START_S = 60


class Prism:
    """A Prism server on loopback. It takes jobs from any number of processes, and keeps nothing.

    Beam would start one by itself, given ``--prism_location``, and leave it running when it is killed.

    Attributes:
        folder: its log.
        binary: the program, for ``--prism_location``.
    """

    def __init__(self, folder: Path | str, port: int = 0, *, guarded: bool = True) -> None:
        self.folder = Path(folder).absolute()
        self.binary = require("prism")[0] / "prism"
        self.port = port or free_port()
        self._guarded = guarded
        self._server: Process | None = None

    def __enter__(self) -> "Prism":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server, and returns when it takes jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._server = start(
            "prism", [str(self.binary), *prism_options([], self.port)], self.folder, guarded=self._guarded
        )
        try:
            wait_until(f"Prism at {LOOPBACK}:{self.port}", lambda: answers(self.port), _START_S, [self._server])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def pids(self) -> list[int]:
        """The server's process."""
        return [] if self._server is None else [self._server.pid]

    def beam_args(self, *, streaming: bool = False) -> list[str]:
        """What a pipeline needs to run here."""
        args = ["--runner=PrismRunner", f"--job_endpoint={LOOPBACK}:{self.port}"]
        if not streaming:
            return args
        return with_streaming_flags(args)
