"""Flags without which a runner would lose, stall or forget a stream; added here and nowhere else."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pipelines.errors import InvalidSettingError

_STREAMING = "--streaming"
# Prism splits a slow bundle of a stateful step in two, and runs one key in both at once: state is lost without a word.
_PRISM_EXPERIMENT = "prism_disable_sdf_split"
_PRISM_LOG_LEVEL = "--prism_log_level"
_PRISM = {_PRISM_LOG_LEVEL: "warn"}
_FLINK = {
    "--checkpointing_interval": "3000",
    "--max_bundle_time_mills": "200",  # sic: spelled right, the flag is dropped without a word
    # Checkpoints are to start another job from, after a crash or a change.
    "--externalized_checkpoints_enabled": None,
    "--retain_externalized_checkpoints_on_cancellation": None,
    # Without it a job may stand still while its checkpoints go on.
    "--finish_bundle_before_checkpointing": None,
}
_ON_FLINK = ("portable", "flink")
_EMBEDDED = "embed"
_SHARE = 2
_USE = (
    "use --runner=PrismRunner on one machine, or a Flink cluster: "
    "--runner=PortableRunner --job_endpoint=HOST:PORT, or --runner=FlinkRunner"
)


def with_streaming_flags(beam_args: Sequence[str]) -> list[str]:
    """Beam's arguments, with what their runner needs for a stream; what is given already stays as it is.

    Raises `InvalidSettingError` for a runner that reads its whole input before it answers.

    >>> with_streaming_flags(["--runner=PrismRunner"])[1:]
    ['--streaming', '--experiments=prism_disable_sdf_split', '--prism_log_level=warn']
    """
    args = list(beam_args)
    name = _last(args, "--runner")
    kind = _kind(name)
    if kind == "prism":
        added = _absent(args, {_STREAMING: None})
        if _PRISM_EXPERIMENT not in _experiments(args):
            added.append(f"--experiments={_PRISM_EXPERIMENT}")
        return [*args, *added, *_absent(args, _PRISM)]
    if kind in _ON_FLINK:
        if _last(args, "--job_endpoint") == _EMBEDDED:
            raise InvalidSettingError(f"--job_endpoint={_EMBEDDED} cannot run a stream; {_USE}.")
        return [*args, *_absent(args, {_STREAMING: None, **_FLINK, **_workers(args)})]
    if kind == "dataflow":
        return [*args, *_absent(args, {_STREAMING: None})]
    given = f"--runner={name} cannot run a stream" if name else "A stream needs a --runner that can run it"
    raise InvalidSettingError(f"{given}; {_USE}.")


def _workers(args: Sequence[str]) -> dict[str, str]:
    """Twice as many Python processes on each machine as the job has parts.

    One process uses one core, and Flink deals the parts of all steps out to them as they happen to open: with as many
    processes as cores one process often has nearly all the work.
    """
    parallelism = _last(args, "--parallelism")
    return {"--sdk_worker_parallelism": str(_SHARE * int(parallelism))} if parallelism.isdigit() else {}


def runs_on_flink(beam_args: Sequence[str]) -> bool:
    """Whether the arguments name a runner that sends jobs to Flink."""
    return _kind(_last(beam_args, "--runner")) in _ON_FLINK


def runs_on_prism(beam_args: Sequence[str]) -> bool:
    """Whether the arguments name Prism."""
    return _kind(_last(beam_args, "--runner")) == "prism"


def prism_options(beam_args: Sequence[str], port: int) -> list[str]:
    """What a Prism that is started for a stream is told: its log is as the arguments say.

    >>> prism_options(["--prism_log_level=debug"], 8073)
    ['--job_port=8073', '--serve_http=false', '--log_level=debug', '--log_kind=text']
    """
    level = _last(beam_args, _PRISM_LOG_LEVEL) or _PRISM[_PRISM_LOG_LEVEL]
    return [f"--job_port={port}", "--serve_http=false", f"--log_level={level}", "--log_kind=text"]


def _kind(runner: str) -> str:
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def _absent(args: Sequence[str], flags: Mapping[str, str | None]) -> list[str]:
    """Those flags that are not among the arguments, with their values."""
    given = {arg.partition("=")[0] for arg in args}
    return [flag if value is None else f"{flag}={value}" for flag, value in flags.items() if flag not in given]


def _values(args: Sequence[str], flag: str) -> list[str]:
    """What is given for a flag, as ``--flag=value`` or as ``--flag value``, in this order."""
    pairs = [arg.partition("=")[::2] if "=" in arg else (arg, after) for arg, after in pairwise([*args, ""])]
    return [value for name, value in pairs if name == flag]


def _last(args: Sequence[str], flag: str) -> str:
    return next(iter(reversed(_values(args, flag))), "")


def _experiments(args: Sequence[str]) -> list[str]:
    values = _values(args, "--experiments") + _values(args, "--experiment")
    return [one for value in values for one in value.split(",")]
