"""Supervising a stream: started, watched, and drained when somebody asks it to end."""

import json
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import apache_beam as beam
import grpc

from pipelines.addresses import absolute
from pipelines.debugging import is_debugging
from pipelines.errors import RunError
from pipelines.patience import until_done
from pipelines.prior import read_prior_skills
from pipelines.runners import options_of
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.intervals import WriteIntervals
from pipelines.sinks.targets import sink_of
from pipelines.sinks.write import WriteRows
from pipelines.sources.endless import source_of
from pipelines.stream import StreamPlan, build
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.bootstrap import prepare
from pipelines.streaming.claims import claimed, refuse_occupied, refuse_outlived
from pipelines.streaming.control import Control, Tenure, held, owned
from pipelines.streaming.ending import ENDED, Job, name_job, place_of
from pipelines.streaming.envelopes import DRAIN, Marker
from pipelines.streaming.places import kinds_of
from pipelines.streaming.prism import prism_of, prism_server
from pipelines.streaming.runner_flags import runs_on_flink, runs_on_prism, with_streaming_flags
from pipelines.streaming.settings import StreamSettings
from pipelines.streaming.skill_keeping import SkillRules
from pipelines.streaming.tracking import TrackRules

PATIENCE_S = 120.0
_PAUSE_S = 0.2
_LAST_ERRORS_S = 1.0
_WITH_THE_RUNNER = ("run_worker", "read_state", "read_grpc_client_inputs")
_US = 1_000_000

Watcher = Callable[[dict[str, Any] | None], None]


def run(
    settings: StreamSettings, beam_args: Sequence[str], watch: Watcher, begun: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Runs a stream until a signal ends it; returns its last status.

    `begun` is called when nothing was found wrong and the stream begins, `watch` is told its status as it changes.
    In the status, "ended" is "drained": everything read is answered; or "stopped": somebody ended the job itself.
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
                _quiet_when_gone(),
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
        job = Job(pipeline.run(), options, runs_on_flink(flags), runs_on_prism(flags))
        tenure.job_may_run = True
        try:
            if begun is not None:
                begun()
            if not _watch(job, plan.control, watch, asked):
                return {**(plan.control.status() or {}), "ended": "stopped"}
            return {**_drained(job, plan, watch), "ended": "drained"}
        finally:
            tenure.job_may_run = not job.end()


@contextmanager
def _quiet_when_gone() -> Iterator[None]:
    """Has threads say nothing of `grpc.RpcError`: that a runner has ended is told once, in a sentence.

    All other errors of threads are told as ever; with CROWDBEAM_DEBUG these are, too. In the end it waits a moment for
    those of Beam's threads that the runner's end lets fail.
    """
    before, others = threading.excepthook, set(threading.enumerate())

    def told(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, grpc.RpcError):
            before(args)

    if not is_debugging():
        threading.excepthook = told
    try:
        yield
    finally:
        until = time.monotonic() + _LAST_ERRORS_S
        for thread in set(threading.enumerate()) - others:
            if thread.name.startswith(_WITH_THE_RUNNER):
                thread.join(max(0.0, until - time.monotonic()))
        threading.excepthook = before


def check_addresses(settings: StreamSettings) -> None:
    """Raises an error when the source is not there, or a sink's address cannot be read; nothing is made."""
    for text in filter(None, (*settings.sinks, settings.rejects)):
        sink_of(text)
    source_of(settings).check()


def plan_of(settings: StreamSettings) -> StreamPlan:
    """All that the stream needs to know; the control folder and the sinks are made where they are missing."""
    source = source_of(settings)
    prior = read_prior_skills(settings.prior_skills)
    control = Control(settings.control)
    sinks = tuple(_sink(f"Sink{number}", text, settings) for number, text in enumerate(settings.sinks))
    rejects = _sink("Rejects", settings.rejects, settings) if settings.rejects else None
    begun = settings.bootstrap and prepare(settings.bootstrap, control, settings.shards, settings.events.time_unit)
    control.clear()
    control.describe(_described(settings))
    return StreamPlan(
        source,
        sinks,
        control,
        rejects,
        settings.shards,
        TrackRules(source.n_readers, int(settings.task_ttl_s * _US), settings.late),
        SkillRules(
            settings.aggregate,
            settings.solve_every_s,
            settings.settle_after_s,
            emit_if=settings.emit_if,
            prior_skills=prior,
        ),
        AnswerRules(settings.aggregate, settings.emit_if),
        settings.block,
        begun,
        kinds_of(settings.source, settings.sinks),
    )


def _sink(name: str, text: str, settings: StreamSettings) -> tuple[str, Any]:
    target = sink_of(text)
    target.check()
    if isinstance(target, IntervalFolder):
        return name, WriteIntervals(target.path, settings.file_every_s)
    return name, WriteRows(target)


def _described(settings: StreamSettings) -> dict[str, Any]:
    """What a later command must know of the stream."""
    known: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return known


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
        watch(control.status())
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
        watch(status)
    return control.status() or {}


def drain(control: Control) -> Marker:
    """Asks the stream of a control folder to answer everything it has read, and then to end."""
    marker = Marker(DRAIN, f"drain-{uuid.uuid4().hex[:12]}")
    control.request(marker)
    return marker
