"""The batch road: files of labels in, a run folder out."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pipelines import progress
from pipelines.aggregate import AddCounts, AggregateBlocks
from pipelines.errors import InvalidSettingError
from pipelines.gates import GateResult, check_gates, facts_of, refuse_gates, skill_drift
from pipelines.input_care import unchanged
from pipelines.inputs import InputFile, InputPlan, checksum_of, plan_inputs
from pipelines.lineage import check_lineage, lineage_event, write_lineage
from pipelines.manifest import Clock, manifest_of, read_json
from pipelines.prior import is_run, prior_files, read_prior_skills
from pipelines.read import ReadLabels
from pipelines.run_folder import RunFolder
from pipelines.run_tables import read_table
from pipelines.runners import finish, is_in_process, options_of, sample_often
from pipelines.settings import BatchSettings
from pipelines.sources import storage
from pipelines.sources.storage import is_local
from pipelines.spill import Spill
from pipelines.table_files import write_file
from pipelines.threaded import default_threads
from pipelines.write import WriteTables
from schemas import TABLES

LABELS_PER_SHARD = 320_000
MAX_SHARDS = 4096
_COUNTS, _FIT = "counts.json", "fit.json"
_COMPARED = ("worker", "skill", "n_labels", "status")


@dataclass(frozen=True)
class RunResult:
    """A finished run: its manifest, where it is, and what became of the gates."""

    path: str
    manifest: Mapping[str, Any]
    gates: tuple[GateResult, ...] = ()


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
    _check_road(settings)
    folder = RunFolder(settings.output)
    try:
        folder.open(settings.overwrite)
        inputs = plan_inputs(settings, storage.join(folder.staging, "inputs"))
        settings = with_shards(settings, inputs)
        prior = read_prior_skills(settings.prior_skills)
        files = (*inputs.files, *prior_files(settings.prior_skills))
        clock.lap("check")
        with unchanged(inputs.files), ThreadPoolExecutor(1) as pool:
            checksums = pool.submit(checksums_of, files)
            sample_often()
            pipeline = beam.Pipeline(options=options)
            build(pipeline, BatchPlan(settings, inputs, prior, folder.staging, is_in_process(options)))
            finish(pipeline)
            clock.lap("pipeline")
            given = options.get_all_options(drop_default=True)
            manifest = manifest_of(
                settings, folder.staging, *kept_account(folder.staging), checksums.result(), given, clock
            )
            gates = _check_gates(settings, folder.staging, manifest["counts"])
            manifest["gates"] = [asdict(gate) for gate in gates]
        folder.commit(manifest)
    except InvalidSettingError:
        raise  # there was no room: nothing of ours is in the folder
    except BaseException:
        folder.abandon()
        raise
    if settings.lineage:
        write_lineage(settings.lineage, lineage_event(manifest, run_folder=settings.output, job_name="aggregate"))
    return RunResult(settings.output, manifest, gates)


def build(pipeline: beam.Pipeline, plan: BatchPlan) -> tuple[Any, Any]:
    """The road: read, aggregate, write. What it gives has an element when the counts, and when the fit, are kept."""
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
    kept_counts = total | "KeepCounts" >> beam.Map(_keep, FileSystems.join(staging, _COUNTS))
    kept_fit = found["fit"] | "KeepFit" >> beam.Map(_keep, FileSystems.join(staging, _FIT))
    return kept_counts, kept_fit


def kept_account(staging: str) -> tuple[dict[str, int], dict[str, str]]:
    """The counts and the fit that a pipeline has kept in `staging`."""
    counts, fit = (read_json(storage.join(staging, name)) for name in (_COUNTS, _FIT))
    return counts or {}, fit or {}


def _keep(data: bytes, path: str) -> None:
    write_file(path, lambda sink: sink.write(data))


def _check_road(settings: BatchSettings) -> None:
    """Refuses what needs a look at the files: a gate without an earlier run, a place for no lineage."""
    if settings.prior_skills and not is_run(settings.prior_skills):
        reason = "--prior-skills names no run, and a file does not tell how many labels a worker had; give the run."
        refuse_gates(settings.gates, {"skill-drift": reason})
    if settings.lineage:
        check_lineage(settings.lineage, settings.output)


def _check_gates(settings: BatchSettings, staging: str, counts: Mapping[str, int]) -> tuple[GateResult, ...]:
    drift = None
    if any(gate.name == "skill-drift" for gate in settings.gates):
        drift = skill_drift(*(read_table(folder, "skills", _COMPARED) for folder in (settings.prior_skills, staging)))
    facts = facts_of(counts, new_labels=counts["labels_used"], skill_drift=drift)
    return check_gates(settings.gates, facts)


def with_shards(settings: BatchSettings, inputs: InputPlan) -> BatchSettings:
    """The settings with a number of shards: the one given, or one for the size of the inputs."""
    shards = settings.aggregate.shards or min(MAX_SHARDS, max(1, -(-inputs.n_labels // LABELS_PER_SHARD)))
    return replace(settings, aggregate=replace(settings.aggregate, shards=shards))


def checksums_of(files: Sequence[InputFile]) -> list[tuple[InputFile, str]]:
    """Each file with its checksum."""
    return [(file, file.checksum or checksum_of(file.path)) for file in files]
