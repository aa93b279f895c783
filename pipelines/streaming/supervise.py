"""Supervising a stream: started, watched, and drained when somebody asks it to end."""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam

from pipelines.addresses import absolute
from pipelines.errors import RunError
from pipelines.patience import until_done
from pipelines.runners import options_of
from pipelines.stream import StreamPlan, build
from pipelines.streaming.claims import claimed, refuse_occupied, refuse_outlived
from pipelines.streaming.control import Control, Tenure, held, owned
from pipelines.streaming.ending import ENDED, Job, begins_anew, name_job, place_of, quiet_when_gone
from pipelines.streaming.envelopes import DRAIN, Marker
from pipelines.streaming.planning import check_addresses, plan_of
from pipelines.streaming.prism import prism_of, prism_server
from pipelines.streaming.runner_flags import runs_on_flink, runs_on_prism, with_streaming_flags
from pipelines.streaming.settings import StreamSettings

PATIENCE_S = 120.0
_PAUSE_S = 0.2

Watcher = Callable[[dict[str, Any] | None, list[str]], None]


def run(
    settings: StreamSettings, beam_args: Sequence[str], watch: Watcher, begun: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Runs a stream until a signal ends it; returns its last status.

    `begun` is called when nothing was found wrong and the stream begins, `watch` is told its status as it changes, and
    with it what the stream waits for, such as a sink that is away. In the last status, "ended" is "drained": everything
    read is answered; or "stopped": somebody ended the job itself.
    """
    control, given = Control(absolute(settings.control)), with_streaming_flags(_with_runner(beam_args))
    refuse_occupied(settings)
    with held(control):
        refuse_outlived(control)
        check_addresses(settings)
        prism = prism_of(given)
        with claimed(settings):
            plan = plan_of(settings.absolute())
            outlived, job = not runs_on_prism(given), place_of(given, plan.job_name)
            with (
                owned(control, outlived, job) as tenure,
                quiet_when_gone(),
                prism_server(given, prism) as flags,
            ):
                return _supervised(plan, flags, tenure, watch, begun)


def _supervised(
    plan: StreamPlan, flags: Sequence[str], tenure: Tenure, watch: Watcher, begun: Callable[[], None] | None
) -> dict[str, Any]:
    options = options_of(flags)
    name_job(options, plan.job_name)
    pipeline = beam.Pipeline(options=options)
    build(pipeline, plan)
    with _signals() as asked:
        anew = begins_anew(plan.kinds.get("source", ""), getattr(plan.source, "start", ""))
        job = Job(pipeline.run(), options, runs_on_flink(flags), runs_on_prism(flags), anew)
        tenure.job_may_run = True
        try:
            if begun is not None:
                begun()
            if not _watch(job, plan.control, watch, asked):
                return {**(plan.control.status() or {}), "ended": "stopped"}
            return {**_drained(job, plan, watch), "ended": "drained"}
        finally:
            tenure.job_may_run = not job.end()


def _with_runner(beam_args: Sequence[str]) -> list[str]:
    """Beam's arguments, with a runner: Prism, where none is given."""
    args = list(beam_args)
    if not any(arg.partition("=")[0] == "--runner" for arg in args):
        args.append("--runner=PrismRunner")
    return args


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets; the second signal goes its usual way."""
    asked = threading.Event()
    before: dict[int, Any] = {}

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            before[number](number, frame)
        asked.set()

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(job: Job, control: Control, watch: Watcher, asked: threading.Event) -> bool:
    """Returns when the stream is to end: True when it was asked to, False when its job was stopped at a savepoint."""
    while not asked.wait(_PAUSE_S):
        state = job.state()
        if state == "DONE":
            return False
        if state in ENDED:
            raise RunError(
                f"The Beam job ended as {state}; what was written so far stays. {job.why()} "
                "Where its runner keeps checkpoints, give the last one's path to --savepoint_path to go on from there."
            )
        if any(marker.kind == DRAIN for marker in control.requests()):
            return True
        watch(control.status(), control.waits())
    return True


def _drained(job: Job, plan: StreamPlan, watch: Watcher) -> dict[str, Any]:
    """Asks the stream to stop reading and to answer all it has read, and waits for that."""
    control = plan.control
    what = f"The control folder {control.folder} could not be used"
    marker = next((one for one in control.requests() if one.kind == DRAIN), None) or until_done(
        lambda: drain(control), what, PATIENCE_S
    )
    wanted = (plan.shards + 1) * len(plan.sinks)  # each shard's answers, and the skills
    wanted += plan.shards if plan.rejects is not None else 0
    until, seen = time.monotonic() + PATIENCE_S, None
    while (n_finished := control.n_finished(marker)) < wanted:
        status = control.status() or {}
        progress = (n_finished, status.get("at_s"))
        if progress != seen:
            until, seen = time.monotonic() + PATIENCE_S, progress
        if job.state() in ENDED or time.monotonic() > until:
            raise RunError("The stream could not answer everything it had read before it ended; start it again.")
        time.sleep(_PAUSE_S)
        watch(status, control.waits())
    return control.status() or {}


def drain(control: Control) -> Marker:
    """Asks the stream of a control folder to answer everything it has read, and then to end."""
    marker = Marker(DRAIN, f"drain-{uuid.uuid4().hex[:12]}")
    control.request(marker)
    return marker
