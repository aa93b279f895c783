"""Processes: what an engine is made of; started in a group of their own, watched, stopped by their id."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from engines.errors import EngineError

T = TypeVar("T")
_POLL_S = 0.1
_LOG_LINES = 12
_STOP_S = 15.0
_MARK = "CROWDBEAM_STARTED_AS"  # in the environment of all that `start` starts: their pid file


@dataclass
class Process:
    """A process that was started, and its group.

    Attributes:
        name: what it is, for messages.
        popen: the process; its group has the same id.
        log: the file with its output.
        pid_file: where its id is noted.
        stop_signal: what asks it to end.
    """

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    pid_file: Path
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.popen.poll() is None

    def stop(self, seconds: float = _STOP_S) -> None:
        """Asks it to end, and kills what is left of its group after so many seconds."""
        if self.alive:
            self.popen.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kills the whole group at once, as a power cut would."""
        _kill_group(self.pid)
        self.popen.wait()
        GUARDIAN.forget(self.pid)
        self.pid_file.unlink(missing_ok=True)


@dataclass
class _Guardian:
    """The end of the pipe to `guardian.py`, which outlives this process just long enough to clean up.

    It watches process groups, by id, and folders, which it removes.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    owner: int = 0
    pipe: int = -1

    def watch(self, what: int | Path) -> None:
        self._tell(f"+{what}\n")

    def forget(self, what: int | Path) -> None:
        if self.owner == os.getpid():
            self._tell(f"-{what}\n")

    def _tell(self, line: str) -> None:
        with self.lock:
            if self.owner != os.getpid():
                self._open()
            os.write(self.pipe, line.encode())

    def _open(self) -> None:
        read, self.pipe = os.pipe()
        process = subprocess.Popen(  # noqa: S603 - the command is ours
            [sys.executable, "-S", "-E", str(Path(__file__).with_name("guardian.py"))],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read)
        process.returncode = 0  # nobody waits for it: it ends after this process
        self.owner = os.getpid()


GUARDIAN = _Guardian()


def start(
    name: str,
    command: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    guarded: bool = True,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Process:
    """Starts a command in a process group of its own; its output goes to ``folder/NAME.log``, its id to ``NAME.pid``.

    A guarded process is killed when this process ends, even by SIGKILL; one that is not lives until it is stopped.
    """
    log, pid_file = folder / f"{name}.log", folder / f"{name}.pid"
    with log.open("wb") as output:
        popen = subprocess.Popen(  # noqa: S603 - the commands are ours
            as_user(user, command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {}), _MARK: os.path.realpath(pid_file)},
            cwd=folder,
            start_new_session=True,
        )
    if guarded:
        GUARDIAN.watch(popen.pid)
    pid_file.write_text(f"{popen.pid} {_birth(popen.pid)}\n", "ascii")
    return Process(name, popen, log, pid_file, stop_signal)


def as_user(user: str | None, command: Sequence[str]) -> list[str]:
    """The command, so that it runs as `user`; None: as whoever runs this."""
    if user is None:
        return list(command)
    return [sys.executable, "-S", "-E", str(Path(__file__).with_name("as_user.py")), user, *command]


def stop_by_pid_files(folder: Path, seconds: float = _STOP_S) -> list[str]:
    """Stops what another process has started in the folder; returns the names of what ran."""
    found = []
    for pid_file in sorted(folder.glob("*.pid")):
        group = _group_of(pid_file)
        if group:
            found.append(pid_file.stem)
            _end_group(group, seconds)
        pid_file.unlink(missing_ok=True)
    return found


def running(folder: Path) -> list[str]:
    """The names of what runs in the folder, by its pid files."""
    return [pid_file.stem for pid_file in sorted(folder.glob("*.pid")) if _group_of(pid_file)]


def wait_until(what: str, probe: Callable[[], T | None], seconds: float, processes: Sequence[Process] = ()) -> T:
    """Asks until there is an answer; raises `EngineError` when the time is over, or one of the processes ends."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            found = probe()
            if found:
                return found
        for process in processes:
            if not process.alive:
                raise EngineError(f"{process.name} ended while waiting for {what}; {_tail(process.log)}")
        if time.monotonic() > end:
            tails = "; ".join(_tail(process.log) for process in processes)
            raise EngineError(f"{what} did not come in {seconds:g} s. {tails}")
        time.sleep(_POLL_S)


def members(group: int) -> dict[int, str]:
    """The processes of a group that run, and their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, _, pgrp, *_ = _stat(int(entry.name))
                if int(pgrp) == group and state != "Z":
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def processor_ticks(pid: int) -> int:
    """How much processor time a process has used; 0 when it has ended."""
    try:
        fields = _stat(pid)
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
    return f"{log} ends with: " + " / ".join(line.strip() for line in lines if line.strip())


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the name, which may hold spaces and brackets: state, parent, group, ..."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _birth(pid: int) -> str:
    """When a process was started, in ticks since boot: with it a process is known even after its id is given again."""
    try:
        state, *fields = _stat(pid)
    except OSError:
        return "gone"
    return "gone" if state == "Z" else fields[18]


def _group_of(pid_file: Path) -> int:
    """The process group that a pid file notes, while its leader runs or one whom it has left; 0: nobody does.

    Who is left has the mark of `start`: the id may have gone to another leader since, who left somebody, too.
    """
    pid, birth = pid_file.read_text("ascii").split()
    mark = f"{_MARK}={os.path.realpath(pid_file)}"
    is_ours = _birth(int(pid)) == birth or any(mark in _environment(member) for member in members(int(pid)))
    return int(pid) if is_ours else 0


def _environment(pid: int) -> list[str]:
    """The environment that a process was started with; empty when it has ended, or is somebody else's."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    except OSError:
        return []


def _end_group(group: int, seconds: float) -> None:
    with suppress(ProcessLookupError):
        os.kill(group, signal.SIGTERM)
    end = time.monotonic() + seconds
    while _birth(group) != "gone" and time.monotonic() < end:
        time.sleep(_POLL_S)
    _kill_group(group)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
