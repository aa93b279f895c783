"""Flink: a cluster with Beam's job server and a pool of Python workers, for tests and demos."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from engines.errors import EngineError
from engines.fetch import require
from engines.flink_rest import FlinkRest
from engines.flink_settings import FlinkPorts, FlinkSettings
from engines.processes import Process, members, processor_ticks, start, wait_until
from pipelines.ports import LOOPBACK, answers

_START_S = 180
_LOOK_S = 2.0


class Flink:
    """JobManager, TaskManagers, Beam's job server and Python workers, all on loopback.

    Attributes:
        folder: settings, logs, ``checkpoints/`` and ``savepoints/``.
        ports: where everything listens.
        rest: what Flink tells about its jobs.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        task_managers: int = 1,
        slots: int = 2,
        ports: FlinkPorts | None = None,
        state_backend: str = "hashmap",
        heartbeat_ms: int = 6000,
        restarts: int = 100,
        python_path: Sequence[Path | str] = (),
        guarded: bool = True,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.ports = ports or FlinkPorts()
        self.rest = FlinkRest(self.ports.rest)
        libraries, runner = require("flink")
        self._settings = FlinkSettings(
            self.folder, libraries, runner, self.ports, slots, state_backend, heartbeat_ms, restarts
        )
        self._task_managers = task_managers
        self._python_path = [str(path) for path in python_path]
        self._guarded = guarded
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> "Flink":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Starts everything at once, and returns when jobs can be sent."""
        for port in vars(self.ports).values():
            if answers(port):
                raise EngineError(f"Something listens at port {port} already; stop it, or take other ports.")
        self._settings.write()
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends everything; checkpoints and savepoints stay in the folder."""
        processes = [self._processes.pop(name) for name in reversed(list(self._processes))]
        for process in processes:
            process.popen.send_signal(process.stop_signal)
        for process in processes:
            process.stop()

    def beam_args(self, parallelism: int = 2, *, streaming: bool = False) -> list[str]:
        """What a pipeline needs to run here."""
        args = [
            "--runner=PortableRunner",
            f"--job_endpoint={LOOPBACK}:{self.ports.job_endpoint}",
            "--environment_type=EXTERNAL",
            f"--environment_config={LOOPBACK}:{self.ports.pool}",
            f"--parallelism={parallelism}",
            f"--flink_master={LOOPBACK}:{self.ports.rest}",
        ]
        if not streaming:
            return args
        from pipelines.streaming.runner_flags import with_streaming_flags

        return with_streaming_flags(args)

    def kill_task_manager(self, number: int = 0) -> None:
        """Kills a TaskManager with SIGKILL; jobs go on once there are slots again."""
        self._processes.pop(_task_manager(number)).kill()

    def start_task_manager(self, number: int = 0) -> None:
        """Starts a TaskManager, and returns when its slots are there; those of one that was killed are not counted."""
        before = {manager["id"] for manager in self.rest.ask("/taskmanagers")["taskmanagers"]}
        process = self._start(_task_manager(number), self._settings.task_manager())

        def is_new() -> bool:
            found = self.rest.ask("/taskmanagers")["taskmanagers"]
            return any(manager["id"] not in before and manager["slotsNumber"] for manager in found)

        wait_until("the TaskManager", is_new, _START_S, [process])

    def kill_job_manager(self) -> None:
        """Kills the JobManager with SIGKILL; its jobs are lost, their kept checkpoints are not."""
        self._processes.pop("jobmanager").kill()

    def start_job_manager(self) -> None:
        """Starts the JobManager again, and returns when the TaskManagers have found it."""
        self._start("jobmanager", self._settings.job_manager())
        self._wait_for_slots(self._settings.slots * sum(name.startswith("taskmanager") for name in self._processes))

    def pids(self) -> list[int]:
        """The processes of the cluster itself, without the Python workers."""
        return [process.pid for name, process in self._processes.items() if name != "pool"]

    def workers(self) -> list[int]:
        """The ids of the Python processes that run the steps of jobs, the oldest first."""
        pool = self._processes["pool"].pid
        return sorted(pid for pid, command in members(pool).items() if pid != pool and "SdkHarness" in command)

    def kill_worker(self) -> int:
        """Kills one of the Python workers with SIGKILL, the busiest now: others may have nothing to do."""
        workers = self.workers()
        if not workers:
            raise EngineError("There is no Python worker: no job runs.")
        before = {pid: processor_ticks(pid) for pid in workers}
        time.sleep(_LOOK_S)
        busiest = max(workers, key=lambda pid: processor_ticks(pid) - before[pid])
        os.kill(busiest, signal.SIGKILL)
        return busiest

    def stop_with_savepoint(self, job_id: str, folder: Path | str | None = None) -> str:
        """Stops a job at a savepoint; returns the path that ``--savepoint_path`` takes."""
        return self.rest.stop_with_savepoint(job_id, folder or self.folder / "savepoints")

    def latest_retained_checkpoint(self, job_id: str) -> str:
        """The path of the newest whole checkpoint on disk, known even to a cluster that has forgotten the job."""
        found = (self.folder / "checkpoints" / job_id).glob("chk-*/_metadata")
        paths = sorted((file.parent for file in found), key=lambda path: int(path.name.removeprefix("chk-")))
        if not paths:
            raise EngineError(f"Job {job_id} has kept no checkpoint in {self.folder / 'checkpoints'}.")
        return str(paths[-1])

    def _start(self, name: str, command: list[str], env: dict[str, str] | None = None) -> Process:
        self._processes[name] = start(name, command, self.folder, env=env, guarded=self._guarded)
        return self._processes[name]

    def _start_all(self) -> None:
        self._start("jobmanager", self._settings.job_manager())
        for number in range(self._task_managers):
            self._start(_task_manager(number), self._settings.task_manager())
        self._start("jobserver", self._settings.job_server())
        self._start_pool()
        self._wait_for_slots(self._task_managers * self._settings.slots)
        started = list(self._processes.values())
        wait_until("Beam's job server", lambda: answers(self.ports.job_endpoint), _START_S, started)
        wait_until("the pool of Python workers", lambda: answers(self.ports.pool), _START_S, started)

    def _start_pool(self) -> None:
        """The pool starts its workers as ``python``: the one of this process has to be the first on the path."""
        script = str(Path(__file__).with_name("worker_pool.py"))
        python_path = [*self._python_path, *filter(None, [os.environ.get("PYTHONPATH", "")])]
        env = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(python_path),
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._start("pool", [sys.executable, script, str(self.ports.pool)], env)

    def _wait_for_slots(self, wanted: int) -> None:
        started = list(self._processes.values())
        wait_until(f"{wanted} slots of Flink", lambda: self.rest.slots() == wanted, _START_S, started)


def _task_manager(number: int) -> str:
    return f"taskmanager-{number}"
