"""The options that Beam knows: those of all its runners, and those of a Flink job server."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from apache_beam.options import pipeline_options
from apache_beam.runners import (
    create_runner,
    render,  # noqa: F401 - it adds the options of the RenderRunner
)

from pipelines.arguments import option_table
from pipelines.errors import InvalidSettingError

# A job server tells its own options only when a job is sent to it; these are Flink's. Beam drops them elsewhere.
_WITH_JOB_SERVER = ("flink", "portable")
_FLINK_VALUES = (
    "auto_watermark_interval", "checkpoint_timeout_millis", "checkpointing_interval", "checkpointing_mode",
    "execution_mode_for_batch", "execution_retry_delay", "flink_conf_dir", "job_check_interval_in_secs",
    "latency_tracking_interval", "max_bundle_size", "max_bundle_time_mills", "min_pause_between_checkpoints",
    "num_concurrent_checkpoints", "number_of_execution_retries", "savepoint_path", "shutdown_sources_after_idle_ms",
    "state_backend", "state_backend_storage_path",
)  # fmt: skip
_FLINK_FLAGS = (
    "allow_non_restored_state", "attached_mode", "disable_metrics", "enable_stable_input_drain",
    "externalized_checkpoints_enabled", "fail_on_checkpointing_errors", "faster_copy",
    "finish_bundle_before_checkpointing", "force_unaligned_checkpoint_enabled", "object_reuse", "operator_chaining",
    "re_iterable_group_by_key_result", "retain_externalized_checkpoints_on_cancellation",
    "unaligned_checkpoint_enabled",
)  # fmt: skip


class _BeamParser(pipeline_options._BeamArgumentParser):
    """Beam's own parser, but one that raises where Beam's would print a page and exit."""

    def error(self, message: str) -> NoReturn:
        raise InvalidSettingError(f"Beam refuses its options: {message}.")


def beam_options(argv: Sequence[str]) -> dict[str, Any]:
    """How many values each option takes that Beam knows, for the runner that `argv` names."""
    known = option_table(_parser())
    if _runner(argv) in _WITH_JOB_SERVER:
        known |= {f"--{name}": None for name in _FLINK_VALUES}
        known |= {f"--{name}": 0 for name in _FLINK_FLAGS}
    return known


def check_beam_options(beam_args: Sequence[str]) -> None:
    """Raises `InvalidSettingError` when Beam would not take a value, or has no such runner."""
    runner = _parser().parse_known_args(list(beam_args))[0].runner
    if runner:
        try:
            create_runner(runner)
        except (ValueError, ImportError, AttributeError) as error:
            raise InvalidSettingError(f"--runner is {runner!r}: {str(error).rstrip('.')}.") from error


def _parser() -> argparse.ArgumentParser:
    parser = _BeamParser(allow_abbrev=False, add_help=False)
    for one in {str(cls): cls for cls in _subclasses(pipeline_options.PipelineOptions)}.values():
        if "_add_argparse_args" in vars(one):
            one._add_argparse_args(parser)
    return parser


def _subclasses(cls: Any) -> Iterator[Any]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _runner(argv: Sequence[str]) -> str:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--runner", default="")
    found: str = parser.parse_known_args(list(argv))[0].runner
    return found.rpartition(".")[2].lower().removesuffix("runner")
