"""The end of a job: why it failed; and ending it, on Flink through Flink itself: Beam's job server only forgets it."""

import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2

from pipelines.errors import RunError

ENDED = ("DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED")
_GONE = ("CANCELED", "FAILED", "FINISHED")
_UNANSWERED = (OSError, http.client.HTTPException, ValueError, KeyError, RunError)
_TIMEOUT_S = 10.0
_LAST_WORDS_S = 5.0
_CANCEL_S, _STEP_S = 15.0, 0.1
_MOST_CHARACTERS = 600
_ERROR_LINE = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
_PRISM_HAS_ENDED = (
    "Prism has ended, and the stream with it; what was written stays. Start the stream again: Prism keeps no "
    "checkpoint, so it reads a topic from --from on, or a folder from its first file, and comes to the same answers."
)
_NO_ANSWER = (
    "Beam's job service no longer answers; the job may run on without it. See to it where the runner shows its "
    "jobs; a job that was lost there can be gone on from its last checkpoint, with --savepoint_path."
)


def name_job(options: PipelineOptions, name: str) -> str:
    """Gives the job a name, unless it has one, so that it can be found in Flink; returns it."""
    named = options.view_as(GoogleCloudOptions)
    named.job_name = named.job_name or name
    return str(named.job_name)


def place_of(beam_args: Sequence[str], name: str) -> dict[str, str]:
    """What a later command must know of a job to ask for it: its name, and where its Flink answers; empty: nowhere."""
    options = PipelineOptions(list(beam_args))
    return {"job": name_job(options, name), "flink": _address_of(options)}


def has_ended_on_flink(address: str, name: str) -> bool:
    """Whether the Flink that answers at the address says that it runs no job of that name."""
    try:
        return set(_states(address, name).values()) <= set(_GONE)
    except _UNANSWERED:
        return False


class _Messages(threading.Thread):
    """Hears what a runner says of a job, while the job lasts: Beam does so only where somebody waits for its end."""

    def __init__(self, result: Any) -> None:
        super().__init__(name="job-messages", daemon=True)
        self._stream = getattr(result, "_message_stream", ())
        self.errors: list[str] = []
        self.start()

    def run(self) -> None:
        try:
            for message in self._stream:
                said = message.message_response
                if said.importance == beam_job_api_pb2.JobMessage.JOB_MESSAGE_ERROR:
                    self.errors.append(said.message_text)
        except grpc.RpcError:
            pass  # the runner is gone: whoever asks for the job's state will tell


@dataclass(frozen=True)
class Job:
    """A job that has begun.

    Attributes:
        result: what Beam gave for it.
        options: Beam's, it was begun with.
        on_flink, on_prism: where it runs; neither: elsewhere.
    """

    result: Any
    options: PipelineOptions
    on_flink: bool = False
    on_prism: bool = False
    _messages: _Messages = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_messages", _Messages(self.result))

    def why(self) -> str:
        """The last error that the runner told of a job that has failed, as a sentence; empty when it told none."""
        self._messages.join(_LAST_WORDS_S)
        text = self._messages.errors[-1] if self._messages.errors else ""
        lines = _ERROR_LINE.findall(text) or text.strip().splitlines()[:1]
        cause = "".join(lines[-1:]).removeprefix("pipelines.errors.").removeprefix("RunError: ").strip()
        return f"{cause[:_MOST_CHARACTERS].rstrip('.')}." if cause else ""

    def state(self) -> str:
        """Its state, as Beam calls it; raises `RunError` when nobody can tell."""
        try:
            return str(self.result.state)
        except grpc.RpcError as error:
            raise RunError(_PRISM_HAS_ENDED if self.on_prism else _NO_ANSWER) from error

    def end(self) -> bool:
        """Ends it; returns whether it surely has ended. What cannot be ended is told, with what to do."""
        has_ended = True
        try:
            if self.state() in ENDED:
                return True
            self.result.cancel()
        except RunError:
            has_ended = self.on_prism  # whoever watched the job has told it
        except (RuntimeError, NotImplementedError, OSError, ValueError, grpc.RpcError) as error:
            has_ended = False
            _say(f"the job could not be cancelled: {' '.join(str(error).split())[:300]}")
        return _end_on_flink(self.options) if self.on_flink else has_ended


def _end_on_flink(options: PipelineOptions) -> bool:
    name = options.view_as(GoogleCloudOptions).job_name
    address = _address_of(options)
    by_hand = f"end it with `flink cancel`: it is called {name}"
    if not address:
        _say(f"the job stays in Flink; {by_hand}. With --flink_master=HOST:PORT it ends.")
        return False
    try:
        if _cancelled(address, name):
            return True
        _say(f"Flink at {address} has not ended the job {name} in {_CANCEL_S:g} s; see there that it does.")
    except _UNANSWERED as error:
        _say(f"Flink at {address} cannot be asked to end the job ({error}); {by_hand}.")
    return False


def _cancelled(address: str, name: str) -> bool:
    """Cancels Flink's jobs of that name; False when they have not ended in time, or none has come yet."""
    asked: set[str] = set()
    until = time.monotonic() + _CANCEL_S
    while time.monotonic() < until:
        states = _states(address, name)
        going = {job for job, state in states.items() if state not in _GONE}
        if states and not going:
            return True
        for job in going - asked:
            _ask(address, f"/jobs/{job}?mode=cancel", "PATCH")
        asked |= going
        time.sleep(_STEP_S)
    return False


def _address_of(options: PipelineOptions) -> str:
    """Where Flink answers, or nothing: "[auto]" and "[local]" are no addresses."""
    address = str(options.view_as(FlinkRunnerOptions).flink_master or "").rpartition("//")[2].rstrip("/")
    return address if ":" in address else ""


def _states(address: str, name: str) -> dict[str, str]:
    """Flink's jobs of that name, ended ones included: their states by their ids."""
    jobs = _ask(address, "/jobs/overview")["jobs"]
    return {job["jid"]: job["state"] for job in jobs if job["name"] == name}


def _ask(address: str, path: str, method: str = "GET") -> Any:
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise RunError(f"it answers with {answer.status}")
    return json.loads(text) if text else None


def _say(sentence: str) -> None:
    sys.stderr.write(f"crowdbeam: {sentence}\n")
