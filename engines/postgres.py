"""Postgres: a private server, for tests and demos."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from engines.errors import EngineError
from engines.processes import GUARDIAN, Process, as_user, start, wait_until
from engines.programs import postgres_folder
from pipelines.ports import LOOPBACK, answers, free_port

_START_S = 60
_USER = "crowdbeam"
# Nothing here outlives the machine: safety against power cuts would only cost time.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Postgres:
    """A server on loopback; trusts whoever connects.

    Postgres refuses to run as root: then it runs as the user postgres, or nobody, in a folder of its own that this user
    may enter, and the folder is removed by `close`, which the end of a block calls; also when this process is killed,
    if the server is `guarded`.

    Attributes:
        folder: its data and log.
        dsn: what psycopg connects to.
    """

    def __init__(self, folder: Path | str, port: int = 0, *, guarded: bool = True) -> None:
        self.folder = Path(folder).absolute()
        self.port = port or free_port()
        self.dsn = f"postgresql://{_USER}@{LOOPBACK}:{self.port}/postgres"
        self._guarded = guarded
        self._user = _other_user() if os.geteuid() == 0 else None
        self._own: Path | None = None
        self._server: Process | None = None

    def __enter__(self) -> "Postgres":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server, on the data of before if there are any, and returns when it answers."""
        programs = postgres_folder()
        if answers(self.port):
            raise EngineError(f"Something listens at port {self.port} already; stop it, or take another port.")
        data = self._prepared() / "data"
        if not (data / "PG_VERSION").exists():
            self._make(programs, data)
        settings = [f"port={self.port}", f"listen_addresses={LOOPBACK}", "unix_socket_directories=", *_QUICK]
        words = [word for setting in settings for word in ("-c", setting)]
        command = [str(programs / "postgres"), "-D", str(data), *words]
        self._server = start(
            "postgres", command, self.folder, user=self._user, guarded=self._guarded, stop_signal=signal.SIGINT
        )
        try:
            wait_until(f"Postgres at {LOOPBACK}:{self.port}", self._serves, _START_S, [self._server])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server in order, its clients too; `start` goes on with the same port and data."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def close(self) -> None:
        """Ends the server, and removes a folder that was made for it."""
        self.stop()
        if self._own is not None:
            shutil.rmtree(self._own)
            GUARDIAN.forget(self._own)
            self._own = None

    def _serves(self) -> bool:
        return self._server is not None and b"ready to accept connections" in self._server.log.read_bytes()

    def _prepared(self) -> Path:
        """The folder, made; as root another one that the server's user may enter."""
        if self._user is not None and self._own is None:
            self._own = self.folder = Path(tempfile.mkdtemp(prefix="crowdbeam-postgres-"))
            if self._guarded:
                GUARDIAN.watch(self._own)
            self._own.chmod(0o755)
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    def _make(self, programs: Path, data: Path) -> None:
        data.mkdir()
        if self._user is not None:
            shutil.chown(data, self._user)
        options = ["-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        done = subprocess.run(  # noqa: S603 - the command is ours
            as_user(self._user, [str(programs / "initdb"), "-D", str(data), *options]),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EngineError(f"Postgres cannot make its data folder: {(done.stderr or done.stdout).strip()}")


def _other_user() -> str:
    """A user that is not root: the package's own, else nobody."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
