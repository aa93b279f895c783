"""Dataflow: what a job needs there, told before anything runs."""

import importlib.util

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions

from pipelines.errors import InvalidSettingError

_CLIENTS = ("google.cloud.dataflow", "google.cloud.storage")
_NEEDED = {"project": "PROJECT", "region": "europe-west1", "temp_location": "gs://BUCKET/temp"}


def check_dataflow(options: PipelineOptions) -> None:
    """Raises `InvalidSettingError` when the runner is Dataflow's and what it needs is not there."""
    runner = str(options.view_as(StandardOptions).runner or "")
    if runner.rpartition(".")[2].lower().removesuffix("runner") not in ("dataflow", "testdataflow"):
        return
    if not all(_is_installed(name) for name in _CLIENTS):
        raise InvalidSettingError(f"--runner {runner} is not installed. Try: pip install 'apache-beam[gcp]'")
    given = options.view_as(GoogleCloudOptions)
    missing = [f"--{name}={example}" for name, example in _NEEDED.items() if not getattr(given, name)]
    if missing:
        raise InvalidSettingError(f"--runner {runner} wants to know more; add {' '.join(missing)}.")
    if not given.temp_location.startswith("gs://"):
        raise InvalidSettingError(f"--temp_location is {given.temp_location!r}; Dataflow takes gs://BUCKET/FOLDER.")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
