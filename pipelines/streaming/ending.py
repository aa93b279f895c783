"""The end of a job: why it failed; ending it; and what is heard of a runner that is gone."""

import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.worker import sdk_worker

from pipelines.debugging import is_debugging
from pipelines.errors import RunError
from pipelines.streaming.flink_jobs import UNANSWERED, cancelled

ENDED = ("DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED")
_LAST_WORDS_S = 5.0
_CANCEL_S = 15.0
_LAST_ERRORS_S = 1.0
_WITH_THE_RUNNER = ("run_worker", "read_state", "read_grpc_client_inputs")  # what Beam calls its threads
_MOST_CHARACTERS = 600
_ERROR_LINE = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
_PRISM_HAS_ENDED = (
    "Prism has ended, and the stream with it; what was written stays. Start the stream again: Prism keeps no "
    "checkpoint, so it begins anew. "
)
_SAME_ANSWERS = "and comes to the same answers if all of them are still there."
_BEGINS_ANEW = {
    "folder": f"It reads its folder from the first file on, {_SAME_ANSWERS}",
    "kafka": f"It reads its topic from the first message on, {_SAME_ANSWERS}",
    "kafka latest": "With --from latest it reads only what comes from then on: what it had read no longer counts.",
    "pubsub": "Pub/Sub does not send again what was acknowledged: that no longer counts.",
    "": "It comes to the same answers if all its events can be read again, which of a folder and of a topic they can, "
    "but not with --from latest, nor those that Pub/Sub has acknowledged.",
}
_NO_ANSWER = (
    "Beam's job service no longer answers; the job may run on without it. See to it where the runner shows its "
    "jobs; a job that was lost there can be gone on from its last checkpoint, with --savepoint_path."
)


def begins_anew(source: str = "", start: str = "") -> str:
    """What a stream without a checkpoint reads when it is started again, by the kind of its source and its --from.

    An empty `source` is one that is not known.

    >>> begins_anew("kafka", "latest")
    'With --from latest it reads only what comes from then on: what it had read no longer counts.'
    """
    return _BEGINS_ANEW["kafka latest" if (source, start) == ("kafka", "latest") else source]


def name_job(options: PipelineOptions, name: str) -> str:
    """Gives the job a name, unless it has one, so that it can be found in Flink; returns it."""
    named = options.view_as(GoogleCloudOptions)
    named.job_name = named.job_name or name
    return str(named.job_name)


def place_of(beam_args: Sequence[str], name: str) -> dict[str, str]:
    """What a later command must know of a job to ask for it: its name, and where its Flink answers; empty: nowhere."""
    options = PipelineOptions(list(beam_args))
    return {"job": name_job(options, name), "flink": _address_of(options)}


@contextmanager
def quiet_when_gone() -> Iterator[None]:
    """Has threads say nothing of `grpc.RpcError`: that a runner has ended is told once, in a sentence.

    Nor does Beam's worker in this process print the tracebacks of bundles: of one that failed the job's end tells why,
    and one that is broken off by the job's end means nothing. All other errors of threads are told as ever; with
    CROWDBEAM_DEBUG these are, too. In the end it waits a moment for those of Beam's threads that the runner's end lets
    fail.
    """
    before, others = threading.excepthook, set(threading.enumerate())

    def told(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, grpc.RpcError):
            before(args)

    beams: Any = sdk_worker  # prints by a name that it does not have itself
    if not is_debugging():
        threading.excepthook = told
        beams.print = lambda *texts, **how: None
    try:
        yield
    finally:
        until = time.monotonic() + _LAST_ERRORS_S
        for thread in set(threading.enumerate()) - others:
            if thread.name.startswith(_WITH_THE_RUNNER):
                thread.join(max(0.0, until - time.monotonic()))
        threading.excepthook = before
        vars(beams).pop("print", None)


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
        anew: what `begins_anew` says of it.
    """

    result: Any
    options: PipelineOptions
    on_flink: bool = False
    on_prism: bool = False
    anew: str = begins_anew()
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
            raise RunError(_PRISM_HAS_ENDED + self.anew if self.on_prism else _NO_ANSWER) from error

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
    """Ends the job through Flink itself: Beam's job server only forgets it."""
    name = options.view_as(GoogleCloudOptions).job_name
    address = _address_of(options)
    by_hand = f"end it with `flink cancel`: it is called {name}"
    if not address:
        _say(f"the job stays in Flink; {by_hand}. With --flink_master=HOST:PORT it ends.")
        return False
    try:
        if cancelled(address, name, _CANCEL_S):
            return True
        _say(f"Flink at {address} has not ended the job {name} in {_CANCEL_S:g} s; see there that it does.")
    except UNANSWERED as error:
        _say(f"Flink at {address} cannot be asked to end the job ({error}); {by_hand}.")
    return False


def _address_of(options: PipelineOptions) -> str:
    """Where Flink answers, or nothing: "[auto]" and "[local]" are no addresses."""
    address = str(options.view_as(FlinkRunnerOptions).flink_master or "").rpartition("//")[2].rstrip("/")
    return address if ":" in address else ""


def _say(sentence: str) -> None:
    sys.stderr.write(f"crowdbeam: {sentence}\n")
