"""The batch road: files of labels in, a run folder out."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pipelines import progress
from pipelines.aggregate import AddCounts, AggregateBlocks
from pipelines.errors import InvalidSettingError
from pipelines.inputs import InputFile, InputPlan, checksum_of, plan_inputs
from pipelines.manifest import COUNTS, FIT, Clock, manifest_of
from pipelines.prior import prior_files, read_prior_skills
from pipelines.read import ReadLabels
from pipelines.run_folder import RunFolder
from pipelines.runners import finish, is_in_process, options_of, sample_often
from pipelines.settings import BatchSettings
from pipelines.sources.storage import is_local
from pipelines.spill import Spill
from pipelines.threaded import default_threads
from pipelines.write import WriteTables, write_file
from schemas import TABLES

LABELS_PER_SHARD = 320_000
MAX_SHARDS = 4096


@dataclass(frozen=True)
class RunResult:
    """A finished run: its manifest, and where it is."""

    path: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class BatchPlan:
    """All that `build` needs to know.

    Attributes:
        settings: what was asked for, the number of shards decided.
        inputs: the parts of files to read.
        prior_skills: skills known from earlier runs.
        staging: where the tables go.
        in_process: whether the steps share this process.
    """

    settings: BatchSettings
    inputs: InputPlan
    prior_skills: Mapping[str, float]
    staging: str
    in_process: bool


def run(settings: BatchSettings, beam_args: Sequence[str] = ()) -> RunResult:
    """Runs one batch and returns its account; raises a `CrowdbeamError` when it cannot be done."""
    clock = Clock()
    progress.reset()
    options = options_of(beam_args)
    FileSystems.set_options(options)  # inputs are looked up before there is a pipeline to do it
    inputs = plan_inputs(settings)
    settings = _with_shards(settings, inputs)
    prior = read_prior_skills(settings.prior_skills)
    files = (*inputs.files, *prior_files(settings.prior_skills))
    folder = RunFolder(settings.output)
    try:
        folder.open(settings.overwrite)
        clock.lap("check")
        with ThreadPoolExecutor(1) as pool:
            checksums = pool.submit(_checksums, files)
            sample_often()
            pipeline = beam.Pipeline(options=options)
            build(pipeline, BatchPlan(settings, inputs, prior, folder.staging, is_in_process(options)))
            finish(pipeline)
            clock.lap("pipeline")
            given = options.get_all_options(drop_default=True)
            manifest = manifest_of(settings, folder.staging, checksums.result(), given, clock)
        folder.commit(manifest)
    except InvalidSettingError:
        raise  # there was no room: nothing of ours is in the folder
    except BaseException:
        folder.abandon()
        raise
    return RunResult(settings.output, manifest)


def build(pipeline: beam.Pipeline, plan: BatchPlan) -> None:
    """The road: read, aggregate, write."""
    settings, staging = plan.settings, plan.staging
    threads = default_threads() if plan.in_process else 1
    spill = Spill(FileSystems.join(staging, "blocks") if plan.in_process and is_local(staging) else "")
    read = pipeline | "ReadLabels" >> ReadLabels(
        plan.inputs.parts, settings.aggregate.classes, threads, not plan.in_process
    )
    found = read["blocks"] | "AggregateBlocks" >> AggregateBlocks(settings.aggregate, plan.prior_skills, threads, spill)
    rejects = (read["rejects"], found["rejects"]) | "FlattenRejects" >> beam.Flatten()
    written = [
        (rejects if name == "rejects" else found[name])
        | f"Write{name.capitalize()}" >> WriteTables(name, staging, settings.output_format, threads)
        for name in TABLES
    ]
    counts = (read["counts"], found["counts"], *written) | "FlattenCounts" >> beam.Flatten()
    total = counts | "AddCounts" >> AddCounts()
    _ = total | "KeepCounts" >> beam.Map(_keep, FileSystems.join(staging, COUNTS))
    _ = found["fit"] | "KeepFit" >> beam.Map(_keep, FileSystems.join(staging, FIT))


def _keep(data: bytes, path: str) -> None:
    write_file(path, lambda sink: sink.write(data))


def _with_shards(settings: BatchSettings, inputs: InputPlan) -> BatchSettings:
    shards = settings.aggregate.shards or min(MAX_SHARDS, max(1, -(-inputs.n_labels // LABELS_PER_SHARD)))
    return replace(settings, aggregate=replace(settings.aggregate, shards=shards))


def _checksums(files: Sequence[InputFile]) -> list[tuple[InputFile, str]]:
    return [(file, checksum_of(file.path)) for file in files]
