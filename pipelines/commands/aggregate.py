"""`crowdbeam aggregate`: labels in, skills and answers out."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from crowdcore.options import REPEATS
from pipelines import progress
from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.commands.gate_options import NO_USABLE_LABEL, add_gate_options, gate_codes, tell_gates, tell_left_out
from pipelines.commands.input_options import add_input_options
from pipelines.commands.model_options import add_model_options, add_whole, aggregate_settings_of
from pipelines.settings import (
    DEFAULT_PASSES,
    METHODS,
    OUTPUT_FORMATS,
    AggregateSettings,
    BatchSettings,
    parse_columns,
)
from pipelines.terminal import ProgressLine, show_blocks, show_progress, write_out

SUMMARY = "Turn files of labels into worker skills and task answers."
TAKES_BEAM_OPTIONS = True
_DEFAULTS = AggregateSettings()
_COMPONENTS_IN_JSON = 100
_INPUTS = (
    "files, folders or globs: Parquet, Avro, CSV, JSON lines, .gz, .zst; or tables: duckdb:, postgresql:, iceberg: and "
    "bigquery: addresses, see docs/warehouse-sources.md"
)
_EPILOG = f"""\
examples:
  crowdbeam aggregate labels.csv --output run
  crowdbeam aggregate 'day-*.parquet' --output run --gold gold.csv \\
      --columns task=item_id,worker=annotator_id,label=answer,time=ts
  crowdbeam aggregate 'postgresql://me@db/crowd?table=labels' --output run

Any other option is Beam's, for example --runner FlinkRunner --parallelism 8.

exit codes:
    0  done
    1  the run failed; --output holds no new result
    2  bad usage, settings or inputs; nothing was run
    3  the run finished, but there was no usable label
{gate_codes()}
  130  interrupted (Ctrl-C), 143 ended (SIGTERM); --output holds no new result
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam aggregate",
        usage="crowdbeam aggregate INPUT... --output DIR [options] [any Beam option]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    _add_input_options(parser)
    _add_output_options(parser)
    add_gate_options(parser)
    _add_method_options(parser)
    add_model_options(parser)
    return parser


def _add_input_options(parser: CommandParser) -> None:
    add = add_input_options(parser, "INPUT", _INPUTS)
    repeats = f"which of a worker's labels on one task counts: {', '.join(REPEATS)} (default: %(default)s)"
    add("--repeats", metavar="RULE", default=_DEFAULTS.repeats, help=f"{repeats}; error rejects those that differ")


def _add_output_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add(
        "--output",
        type=local,
        metavar="DIR",
        required=True,
        help="the run folder; a run appears in it whole or not at all",
    )
    add("--overwrite", action="store_true", help="replace the finished run in --output (default: refuse)")
    kinds = f"the format of the tables: {', '.join(OUTPUT_FORMATS)} (default: %(default)s)"
    add("--output-format", metavar="FORMAT", default="parquet", help=kinds)
    shards = "parts the tasks are split into, and files of scores (default: 0, by the input's size)"
    add_whole(add, "--shards", _DEFAULTS.shards, shards)
    add("--json", action="store_true", help="print one JSON object and nothing else (default: a summary)")
    add("--quiet", action="store_true", help="print nothing but errors (default: progress and a summary)")


def _add_method_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("method").add_argument
    method = f"how answers are found: {', '.join(METHODS)} (default: %(default)s)"
    add("--method", metavar="NAME", default=_DEFAULTS.method, help=method)
    passes = f"of dawid-skene: rounds of EM, each one pass over the labels (default: 0, which is {DEFAULT_PASSES})"
    add_whole(add, "--passes", _DEFAULTS.passes, passes)


def settings_of(args: Namespace) -> BatchSettings:
    """The settings that the arguments stand for; raises `InvalidSettingError` when they cannot be used."""
    passes = args.passes or (DEFAULT_PASSES if args.method == "dawid-skene" else 0)
    aggregate = aggregate_settings_of(
        args, repeats=args.repeats, shards=args.shards, method=args.method, passes=passes
    )  # fmt: skip
    return BatchSettings(
        inputs=tuple(args.inputs),
        output=args.output,
        aggregate=aggregate,
        columns=parse_columns(args.columns),
        gold=tuple(args.gold),
        prior_skills=args.prior_skills,
        input_format=args.input_format,
        output_format=args.output_format,
        overwrite=args.overwrite,
        fail_if=tuple(args.fail_if),
        lineage=args.lineage,
    )


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Runs the batch and tells what came of it."""
    settings = settings_of(args)
    if beam_args:
        from pipelines.beam_options import check_beam_options

        check_beam_options(beam_args)
    from pipelines import batch, runners
    from pipelines.run_tables import read_table
    from pipelines.summary import RunTables, summarise

    runner = _runner_outside(beam_args, runners.IN_PROCESS)
    with show_progress(ProgressLine(progress.done, runner), wanted=not (args.quiet or args.json)):
        result = batch.run(settings, beam_args)
    if not args.quiet:
        tell_left_out((*settings.inputs, *settings.gold))
    if args.json:
        graph = read_table(result.path, "graph").slice(0, _COMPONENTS_IN_JSON).to_pylist()
        write_out(json.dumps({**result.manifest, "path": result.path, "graph": graph}, ensure_ascii=False))
    elif not args.quiet:
        show_blocks(summarise(result.path, result.manifest, RunTables.of(result.path)))
    counts = result.manifest["counts"]
    code = tell_gates(result.gates, f"The run is in {result.path}.")
    if counts["labels_used"]:
        return code
    withdrawn = f"{counts['labels_withdrawn']:,} were withdrawn, " if counts["labels_withdrawn"] else ""
    sys.stderr.write(
        f"crowdbeam: There was no usable label among {counts['labels_read']:,}; {withdrawn}"
        f"{result.path} says why in rejects.\n"
    )
    return code or NO_USABLE_LABEL


def _runner_outside(beam_args: Sequence[str], in_process: Sequence[str]) -> str:
    """The runner among Beam's arguments, if it is not in this process."""
    runner = next((arg.partition("=")[2] for arg in reversed(beam_args) if arg.startswith("--runner=")), "")
    return "" if runner in in_process else runner
