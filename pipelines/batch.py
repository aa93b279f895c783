"""The batch road: files of labels in, a run folder out."""

import json
import platform
import socket
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import scipy
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions

import crowdcore
from pipelines import progress
from pipelines.aggregate import AddCounts, AggregateBlocks
from pipelines.errors import InvalidSettingError, RunError
from pipelines.inputs import InputPlan, checksum_of, plan_inputs
from pipelines.prior import read_prior_skills
from pipelines.read import ReadLabels
from pipelines.run_folder import FORMAT_VERSION, RunFolder
from pipelines.settings import BatchSettings
from pipelines.sources.storage import is_local
from pipelines.spill import Spill
from pipelines.tables import table_of
from pipelines.threaded import default_threads
from pipelines.write import TABLES, WriteTables, write_file, write_table

DEFAULT_RUNNER = "FnApiRunner"
IN_PROCESS = ("FnApiRunner", "BundleBasedDirectRunner")
LABELS_PER_SHARD = 160_000
MAX_SHARDS = 4096
_COUNTS, _FIT = "counts.json", "fit.json"


@dataclass(frozen=True)
class RunResult:
    """A finished run: its manifest, and where it is."""

    path: str
    manifest: Mapping[str, Any]


def run(settings: BatchSettings, beam_args: Sequence[str] = ()) -> RunResult:
    """Runs one batch and returns its account; raises a `CrowdbeamError` when it cannot be done."""
    clock = _Clock()
    progress.reset()
    options = PipelineOptions(list(beam_args))
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or DEFAULT_RUNNER
    _check_endpoint(options)
    plan = plan_inputs(settings)
    prior = read_prior_skills(settings.prior_skills)
    settings = _with_shards(settings, plan)
    folder = RunFolder(settings.output)
    folder.open(settings.overwrite)
    clock.lap("check")
    try:
        with ThreadPoolExecutor(1) as pool:
            checksums = pool.submit(lambda: [checksum_of(file.path) for file in plan.files])
            _execute(options, plan, settings, folder, prior)
            clock.lap("pipeline")
            manifest = _manifest_of(settings, plan, folder, checksums.result(), clock, standard.runner)
        folder.commit(manifest)
    except BaseException:
        folder.abandon()
        raise
    return RunResult(settings.output, manifest)


def build(
    pipeline: beam.Pipeline,
    plan: InputPlan,
    settings: BatchSettings,
    staging: str,
    *,
    prior_skills: Mapping[str, float],
    in_process: bool,
) -> None:
    """The road: read, aggregate, write."""
    threads = default_threads() if in_process else 1
    spill = Spill(FileSystems.join(staging, "blocks") if in_process and is_local(staging) else "")
    read = pipeline | "ReadLabels" >> ReadLabels(plan.parts, settings.aggregate.classes, threads, not in_process)
    found = read["blocks"] | "AggregateLabels" >> AggregateBlocks(settings.aggregate, prior_skills, threads, spill)
    rejects = (read["rejects"], found["rejects"]) | "FlattenRejects" >> beam.Flatten()
    written = [
        (rejects if name == "rejects" else found[name])
        | f"Write{name.capitalize()}" >> WriteTables(name, staging, settings.output_format, threads)
        for name in TABLES
    ]
    counts = (read["counts"], found["counts"], *written) | "FlattenCounts" >> beam.Flatten()
    total = counts | "AddCounts" >> AddCounts()
    for name, account in ((_COUNTS, total), (_FIT, found["fit"])):
        _ = account | f"Keep{name}" >> beam.Map(_keep, FileSystems.join(staging, name))


def _keep(data: bytes, path: str) -> None:
    write_file(path, lambda sink: sink.write(data))


def _check_endpoint(options: PipelineOptions) -> None:
    """Fails at once where Beam would wait for minutes for a job service that is not there."""
    endpoint = options.view_as(PortableOptions).job_endpoint
    if not endpoint or endpoint == "embed":
        return
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise InvalidSettingError(
            f"--job_endpoint {endpoint} does not answer: {error}. Start the job service, or correct HOST:PORT."
        ) from error


def _execute(
    options: PipelineOptions, plan: InputPlan, settings: BatchSettings, folder: RunFolder, prior: Mapping[str, float]
) -> None:
    in_process = options.view_as(StandardOptions).runner in IN_PROCESS
    pipeline = beam.Pipeline(options=options)
    build(pipeline, plan, settings, folder.staging, prior_skills=prior, in_process=in_process)
    result = pipeline.run()
    state = result.wait_until_finish()
    if str(state) not in ("DONE", "None"):
        raise RunError(f"The Beam job ended as {state}; {settings.output} holds no new result.")


def _with_shards(settings: BatchSettings, plan: InputPlan) -> BatchSettings:
    shards = settings.aggregate.shards or min(MAX_SHARDS, max(1, -(-plan.n_labels // LABELS_PER_SHARD)))
    return replace(settings, aggregate=replace(settings.aggregate, shards=shards))


def _manifest_of(
    settings: BatchSettings, plan: InputPlan, folder: RunFolder, checksums: list[str], clock: "_Clock", runner: str
) -> dict[str, Any]:
    counts = _read_json(FileSystems.join(folder.staging, _COUNTS)) or {}
    fit = _read_json(FileSystems.join(folder.staging, _FIT)) or {"reason": "there were no labels"}
    rows = {name.removeprefix("rows:"): n for name, n in counts.items() if name.startswith("rows:")}
    counts = {name: n for name, n in sorted(counts.items()) if not name.startswith("rows:")}
    for name in ("labels_read", "labels_used", "labels_repeated", "labels_rejected", "tasks", "scores", "workers"):
        counts.setdefault(name, 0)
    _check(counts, rows)
    for name in TABLES:
        if not any(path.startswith(f"{name}/") for path in rows):
            rows[_write_empty(folder.staging, name, settings.output_format)] = 0
    sizes = {path: FileSystems.match([FileSystems.join(folder.staging, path)])[0].metadata_list for path in rows}
    clock.lap("account")
    return {
        "format_version": FORMAT_VERSION,
        "run_id": uuid.uuid4().hex,
        "started_at_us": clock.started_at_us,
        "finished_at_us": time.time_ns() // 1000,
        "inputs": [
            {
                "path": file.path,
                "role": file.role,
                "format": file.format,
                "size_bytes": file.size_bytes,
                "checksum": sum_,
            }
            for file, sum_ in zip(plan.files, checksums, strict=True)
        ],
        "settings": _texts({**asdict(settings), **asdict(settings.aggregate), "runner": runner}),
        "versions": _versions(),
        "counts": counts,
        "classes": json.loads(fit.pop("classes", "[]")),
        "fit": fit,
        "timings_s": clock.laps,
        "outputs": [
            {"path": path, "size_bytes": found[0].size_in_bytes, "rows": rows[path]}
            for path, found in sorted(sizes.items())
        ],
    }


def _check(counts: Mapping[str, int], rows: Mapping[str, int]) -> None:
    """Fails when a label or an answer went missing on the way."""
    read, used = counts["labels_read"], counts["labels_used"]
    repeated, rejected = counts["labels_repeated"], counts["labels_rejected"]
    if read != used + repeated + rejected:
        raise RunError(f"{read} labels were read, but {used} used, {repeated} repeated and {rejected} rejected.")
    written = sum(n for path, n in rows.items() if path.startswith("scores/"))
    if not counts["tasks"] == counts["scores"] == written:
        raise RunError(f"{counts['tasks']} tasks have labels, but {written} answers were written.")


def _write_empty(staging: str, name: str, kind: str) -> str:
    path = f"{name}/part-00000.{kind}"
    record = {"scores": "score", "skills": "skill", "edges": "edge", "graph": "graph", "rejects": "reject"}[name]
    write_table(table_of(record, {}), FileSystems.join(staging, path), kind, name)
    return path


def _read_json(path: str) -> dict[str, Any] | None:
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path) as file:
        found: dict[str, Any] = json.loads(file.read())
    return found


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    skipped = ("aggregate",)
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in settings.items()
        if name not in skipped
    }


def _versions() -> dict[str, str]:
    return {
        "crowdbeam": crowdcore.__version__,
        "apache-beam": beam.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "pyarrow": pa.__version__,
        "python": platform.python_version(),
        "platform": sys.platform,
    }


class _Clock:
    def __init__(self) -> None:
        self.started_at_us = time.time_ns() // 1000
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self._last, 3)
        self._last = now
