"""Flink's jobs, through its REST service: how they are, and ending them."""

import http.client
import json
import time
from typing import Any

from pipelines.errors import RunError

GONE = ("CANCELED", "FAILED", "FINISHED")
UNANSWERED = (OSError, ValueError, KeyError, RunError)
_TIMEOUT_S, _STEP_S = 10.0, 0.1


def ask(address: str, path: str, method: str = "GET", body: Any = None) -> Any:
    """The answer to a request; raises `RunError` when Flink refuses it, `OSError` when it cannot answer yet."""
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise ConnectionError(f"it answers {path} with nonsense: {error!r}") from error
    finally:
        connection.close()
    if answer.status == http.client.SERVICE_UNAVAILABLE:
        raise ConnectionError(f"it is not ready: {text[:500]}")
    if answer.status >= http.client.BAD_REQUEST:
        raise RunError(f"it answers {method} {path} with {answer.status}: {text[:500]}")
    return json.loads(text) if text else None


def has_ended_on_flink(address: str, name: str) -> bool:
    """Whether the Flink that answers at the address says that it runs no job of that name."""
    try:
        return set(states_of(address, name).values()) <= set(GONE)
    except UNANSWERED:
        return False


def cancelled(address: str, name: str, seconds: float) -> bool:
    """Cancels Flink's jobs of that name; False when they have not ended in time, or none has come yet."""
    asked: set[str] = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        states = states_of(address, name)
        going = {job for job, state in states.items() if state not in GONE}
        if states and not going:
            return True
        for job in going - asked:
            ask(address, f"/jobs/{job}?mode=cancel", "PATCH")
        asked |= going
        time.sleep(_STEP_S)
    return False


def states_of(address: str, name: str) -> dict[str, str]:
    """Flink's jobs of that name, ended ones included: their states by their ids."""
    jobs = ask(address, "/jobs/overview")["jobs"]
    return {job["jid"]: job["state"] for job in jobs if job["name"] == name}
