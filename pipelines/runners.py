"""Runners: which one a job runs on, and whether it can be reached."""

import socket
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions
from apache_beam.runners.worker import statesampler

from pipelines.dataflow import check_dataflow
from pipelines.errors import InvalidSettingError, RunError

DEFAULT_RUNNER = "FnApiRunner"
IN_PROCESS = ("FnApiRunner", "BundleBasedDirectRunner")
_TIMEOUT_S = 10
# Flink lets go of the Python workers between two stages of a batch, and starting them anew takes seconds. In a stream
# it must: a worker that has died would be kept for the job's next attempt, and so for every one after it.
_KEEP_WORKERS_MS = 10_000
_SAMPLING_MS = 5


class _RememberedOptions(PipelineOptions):
    """Beam's options, whose views are made once: Beam asks for the same ones hundreds of times a pipeline."""

    def view_as(self, cls: type[Any]) -> Any:
        """The view of that class; all views share their values."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]


def options_of(beam_args: Sequence[str]) -> PipelineOptions:
    """Beam's options, with a runner; raises `InvalidSettingError` when it lacks something or does not answer."""
    options = _RememberedOptions(list(beam_args))
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or DEFAULT_RUNNER
    check_dataflow(options)
    portable = options.view_as(PortableOptions)
    if not standard.streaming:
        portable.environment_cache_millis = portable.environment_cache_millis or _KEEP_WORKERS_MS
    _check_endpoint(portable.job_endpoint)
    return options


def is_in_process(options: PipelineOptions) -> bool:
    """Whether the steps run in this process, and so share its files and its cores."""
    return options.view_as(StandardOptions).runner in IN_PROCESS


def sample_often() -> None:
    """Shortens the sleep of the thread that watches each stage: Beam waits for it at the end of the stage.

    Its sleep grows to a fifth of the stage's time, 200 ms at most: a twelfth of a short batch is spent on waiting.
    """
    statesampler.StateSampler.__init__.__defaults__ = (_SAMPLING_MS,)


def finish(pipeline: beam.Pipeline) -> None:
    """Runs a pipeline to its end; raises `RunError` when that is not its success."""
    state = pipeline.run().wait_until_finish()
    if str(state) not in ("DONE", "None"):
        raise RunError(f"The Beam job ended as {state}; there is no new result.")


def _check_endpoint(endpoint: str | None) -> None:
    """Fails at once where Beam would wait for minutes for a job service that is not there."""
    if not endpoint or endpoint == "embed":
        return
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise InvalidSettingError(
            f"--job_endpoint {endpoint} does not answer: {error}. Start the job service, or correct HOST:PORT."
        ) from error
