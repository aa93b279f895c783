"""A run that nobody waits for: the job itself puts its tables in place and writes the manifest.

`crowdbeam aggregate` waits for its job and finishes the run. A Dataflow flex template cannot: its launcher ends before
the job begins. Here the job's last step does the same.
"""

import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pipelines.arguments import CommandParser, option_table
from pipelines.batch import BatchPlan, build, checksums_of, kept_account, with_shards
from pipelines.commands.aggregate import build_parser, settings_of
from pipelines.errors import CrowdbeamError, InputError, InvalidSettingError
from pipelines.inputs import InputFile, plan_inputs
from pipelines.manifest import Clock, manifest_of, read_json
from pipelines.prior import prior_files, read_prior_skills
from pipelines.run_folder import RunFolder
from pipelines.runners import is_in_process, options_of
from pipelines.settings import BatchSettings

INPUTS = "--inputs"
_LISTS = (INPUTS, "--gold")


@dataclass(frozen=True)
class Ending:
    """What the last step needs to know to finish a run."""

    run_id: str
    started_at_us: int
    settings: BatchSettings
    files: Sequence[InputFile]
    beam_options: Mapping[str, Any]


@dataclass
class FinishRun(beam.PTransform):
    """Finishes the run when all that it keeps has been written.

    Input: one element for each thing kept. Output: the run's id, once.
    """

    ending: Ending

    def expand(self, kept: beam.PCollection[Any]) -> beam.PCollection[str]:
        """Wires the steps."""
        written = kept | "WaitForAll" >> beam.combiners.Count.Globally()
        return written | "CommitRun" >> beam.Map(_commit, self.ending)


def launch(settings: BatchSettings, beam_args: Sequence[str] = ()) -> str:
    """Hands one batch to its runner and returns the id that the run will have, without waiting for it."""
    for name, given in (("fail-if", settings.fail_if), ("lineage", settings.lineage)):
        if given:
            raise InvalidSettingError(f"--{name} has no part in a job that nobody waits for; leave it out.")
    clock = Clock()
    options = options_of(beam_args)
    FileSystems.set_options(options)
    inputs = plan_inputs(settings)
    settings = with_shards(settings, inputs)
    prior = read_prior_skills(settings.prior_skills)
    files = (*inputs.files, *prior_files(settings.prior_skills))
    folder = RunFolder(settings.output)
    folder.open(settings.overwrite)
    ending = Ending(uuid.uuid4().hex, clock.started_at_us, settings, files, options.get_all_options(drop_default=True))
    pipeline = beam.Pipeline(options=options)
    kept = build(pipeline, BatchPlan(settings, inputs, prior, folder.staging, is_in_process(options)))
    _ = kept | "FlattenKept" >> beam.Flatten() | "FinishRun" >> FinishRun(ending)
    pipeline.run()
    return ending.run_id


def _commit(_: int, ending: Ending) -> str:
    """Finishes the run, unless this is done already: a runner may do a step again, also one that was broken off."""
    folder = RunFolder(ending.settings.output)
    if (read_json(folder.manifest) or {}).get("run_id") == ending.run_id:
        folder.abandon()
        return ending.run_id
    staged = folder.staged() or {}
    folder.commit(staged if staged.get("run_id") == ending.run_id else _account(ending, folder))
    return ending.run_id


def _account(ending: Ending, folder: RunFolder) -> dict[str, Any]:
    clock = Clock()
    clock.started_at_us = ending.started_at_us
    inputs = checksums_of(ending.files)
    manifest = manifest_of(
        ending.settings, folder.staging, *kept_account(folder.staging), inputs, ending.beam_options, clock
    )
    return {**manifest, "run_id": ending.run_id}


def template_arguments(argv: Sequence[str], parser: CommandParser) -> tuple[list[str], list[str]]:
    """A template's parameters as arguments of `crowdbeam aggregate`, and all others, which are Beam's.

    >>> template_arguments(["--inputs=a.csv,b.csv", "--min_labels=2", "--overwrite=true", "--region=r"], build_parser())
    (['--min-labels=2', '--overwrite', '--', 'a.csv', 'b.csv'], ['--region=r'])
    """
    table = option_table(parser)
    own, inputs, others = [], [], []
    for word in argv:
        name, _, value = word.partition("=")
        kebab = name.replace("_", "-")
        values = value.split(",") if name in _LISTS else [value]
        if name == INPUTS:
            inputs += values
        elif kebab not in table:
            others.append(word)
        elif table[kebab] != 0:
            own += [f"{kebab}={one}" for one in values if one]
        elif value.lower() not in ("true", "false", ""):
            raise InvalidSettingError(f"{name} is {value!r}; it takes true or false.")
        elif value.lower() != "false":
            own.append(kebab)
    return [*own, "--", *inputs], others


def main(argv: Sequence[str]) -> int:
    """What a flex template's launcher runs; returns the exit code."""
    try:
        parser = build_parser()
        own, beam_args = template_arguments(argv, parser)
        run_id = launch(settings_of(parser.parse_args(own)), beam_args)
    except CrowdbeamError as error:
        sys.stderr.write(f"crowdbeam: {error}\n")
        return 2 if isinstance(error, (InvalidSettingError, InputError)) else 1
    sys.stdout.write(f"crowdbeam: run {run_id} is with its runner.\n")
    return 0
