"""What Flink tells over REST: its jobs, their checkpoints, and what can be done to them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from engines.errors import EngineError
from engines.processes import wait_until
from pipelines.errors import RunError
from pipelines.ports import LOOPBACK
from pipelines.streaming import flink_jobs
from pipelines.streaming.flink_jobs import GONE

_SAVEPOINT_S = 120
_CANCEL_S = 60


@dataclass(frozen=True)
class Checkpoint:
    """The latest completed checkpoint of a job.

    Attributes:
        id: its number.
        size_bytes: of the whole state in it.
        count: how many the job has completed since it was submitted.
        path: where it is; empty when it is not kept.
    """

    id: int
    size_bytes: int
    count: int
    path: str


@dataclass(frozen=True)
class FlinkRest:
    """A Flink cluster, by the port of its REST service."""

    port: int

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """The answer to a request; `EngineError` when Flink refuses it, `OSError` when it cannot answer yet."""
        try:
            return flink_jobs.ask(f"{LOOPBACK}:{self.port}", path, method, body)
        except RunError as error:
            raise EngineError(f"Flink at port {self.port}: {error}") from error

    def slots(self) -> int:
        """How many slots there are, free or not."""
        found: int = self.ask("/overview")["slots-total"]
        return found

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs the cluster remembers, the newest first: jid, name, state, start-time, tasks, ..."""
        found: list[dict[str, Any]] = self.ask("/jobs/overview")["jobs"]
        return sorted(found, key=lambda job: -job["start-time"])

    def job(self, job_id: str) -> dict[str, Any]:
        """One job: name, state, vertices, timestamps, ..."""
        found: dict[str, Any] = self.ask(f"/jobs/{job_id}")
        return found

    def is_running(self, job_id: str) -> bool:
        """Whether the job runs, every one of its tasks."""
        job = self.job(job_id)
        return job["state"] == "RUNNING" and all(vertex["status"] == "RUNNING" for vertex in job["vertices"])

    def cancel(self, job_id: str) -> None:
        """Cancels a job, and returns when it has ended; one that has ended stays as it is."""
        if self.job(job_id)["state"] not in GONE:
            self.ask(f"/jobs/{job_id}?mode=cancel", "PATCH")
        wait_until(f"the end of job {job_id}", lambda: self.job(job_id)["state"] in GONE, _CANCEL_S)

    def cancel_all(self) -> None:
        """Cancels every job: those left over hold slots."""
        for job in self.jobs():
            if job["state"] not in GONE:
                self.cancel(job["jid"])

    def restored(self, job_id: str) -> dict[str, Any] | None:
        """The checkpoint or savepoint that the job last started again from: id, external_path, ...; or None."""
        found: dict[str, Any] | None = self.ask(f"/jobs/{job_id}/checkpoints")["latest"]["restored"]
        return found

    def checkpoint(self, job_id: str) -> Checkpoint | None:
        """The latest completed checkpoint of a job."""
        found = self.ask(f"/jobs/{job_id}/checkpoints")
        latest = found["latest"]["completed"]
        if latest is None:
            return None
        path = _path(latest.get("external_path") or "")
        return Checkpoint(latest["id"], latest["state_size"], found["counts"]["completed"], path)

    def stop_with_savepoint(self, job_id: str, folder: Path | str) -> str:
        """Stops a job at a savepoint in the folder; returns the path that ``--savepoint_path`` takes."""
        body = {"targetDirectory": Path(folder).absolute().as_uri(), "drain": False}
        request = self.ask(f"/jobs/{job_id}/stop", "POST", body)["request-id"]

        def ended() -> Any:
            found = self.ask(f"/jobs/{job_id}/savepoints/{request}")
            return found["operation"] if found["status"]["id"] == "COMPLETED" else None

        operation = wait_until(f"a savepoint of job {job_id}", ended, _SAVEPOINT_S)
        if "location" not in operation:
            raise EngineError(f"Flink could not take a savepoint: {json.dumps(operation)[:1000]}")
        return _path(operation["location"])


def _path(location: str) -> str:
    """A file's path, from the address that Flink gives it."""
    return unquote(urlparse(location).path)
