"""Measuring: wall time, processor time and peak memory of a command and all processes it starts (Linux).

The command runs under a small process of its own (`python -m benchmarks.measure`): the kernel counts what the parent of
a process held as that process's memory, and the benchmark itself may hold much.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import ROOT

SAMPLE_SECONDS = 0.05
LONG_S = 60.0
SHOWN_LINES = 15
NOT_FOUND = 127


@dataclass(frozen=True)
class Usage:
    """What one run took.

    Attributes:
        wall_s: from start to end, interpreter and imports included.
        cpu_s: user and system time of the process and those it waited for.
        memory_mb: peak of the process, or of the sum over its processes if that is more; 10⁶ bytes.
        exit_code: as the shell gives it; negative: the signal that ended it.
        timed_out: whether it was stopped at the time limit.
        output: the last lines of what it printed.
    """

    wall_s: float
    cpu_s: float
    memory_mb: float
    exit_code: int
    timed_out: bool
    output: str

    @property
    def failed(self) -> bool:
        return self.exit_code != 0 and not self.timed_out


@dataclass(frozen=True)
class Median:
    """Medians of some runs; a run that was stopped or failed gives no median."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    n_runs: int


def median_of(runs: Sequence[Usage]) -> Median | None:
    """The medians, unless a run failed or was stopped, or there is none.

    >>> runs = [Usage(wall, 2 * wall, 100.0, 0, False, "") for wall in (3.0, 1.0, 2.0)]
    >>> median_of(runs)
    Median(wall_s=2.0, cpu_s=4.0, memory_mb=100.0, n_runs=3)
    """
    if not runs or any(run.failed or run.timed_out for run in runs):
        return None
    columns = ([run.wall_s for run in runs], [run.cpu_s for run in runs], [run.memory_mb for run in runs])
    wall, cpu, memory = (statistics.median(column) for column in columns)
    return Median(wall, cpu, memory, len(runs))


def run_interleaved(
    names: Sequence[str], run: Callable[[str], Usage], n_runs: int, report: Callable[[str, int, Usage], None]
) -> dict[str, list[Usage]]:
    """Runs each once, then each again, …; one that failed, or took over a minute, is not run again."""
    usages: dict[str, list[Usage]] = {name: [] for name in names}
    for round_number in range(1, n_runs + 1):
        for name in names:
            if any(usage.failed or usage.timed_out or usage.wall_s > LONG_S for usage in usages[name]):
                continue
            usage = run(name)
            usages[name].append(usage)
            report(name, round_number, usage)
    return usages


def measure(command: Sequence[str], limit_s: float) -> Usage:
    """Runs `command` from the top of the checkout, for at most `limit_s` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "usage.json")
        wrapper = [sys.executable, "-m", "benchmarks.measure", str(result), str(limit_s), *command]
        subprocess.run(wrapper, cwd=ROOT, check=True)
        return Usage(**json.loads(result.read_text()))


def _measure_here(command: Sequence[str], limit_s: float) -> Usage:
    if not Path(command[0]).exists():
        return Usage(0.0, 0.0, 0.0, NOT_FOUND, False, f"{Path(command[0]).name} is not installed")
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        watch = _Watch(process.pid, start + limit_s)
        watch.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays taken until the watch has ended
        wall = time.perf_counter() - start
        watch.stop()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()
    memory = max(used.ru_maxrss * 1024, watch.peak_bytes) / 1e6
    cpu = used.ru_utime + used.ru_stime
    return Usage(wall, cpu, memory, process.returncode, watch.timed_out, "\n".join(lines[-SHOWN_LINES:]))


class _Watch(threading.Thread):
    """Adds up the memory of a process and its descendants now and then, and stops them at the time limit."""

    def __init__(self, pid: int, end: float) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self.timed_out = False
        self._pid = pid
        self._end = end
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, _family(self._pid))))
            if time.perf_counter() > self._end:
                self.timed_out = True
                os.killpg(self._pid, signal.SIGKILL)
                return

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _family(pid: int) -> list[int]:
    """The process and its descendants; those that ended meanwhile are left out."""
    family = [pid]
    for member in family:
        for thread in Path(f"/proc/{member}/task").glob("*/children"):
            family += map(int, _read_live(thread).split())
    return family


def _resident_bytes(pid: int) -> int:
    pages = _read_live(Path(f"/proc/{pid}/statm")).split()
    return int(pages[1]) * os.sysconf("SC_PAGESIZE") if pages else 0


def _read_live(path: Path) -> str:
    """A file of a process, empty if that has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asdict(_measure_here(sys.argv[3:], float(sys.argv[2])))))
