"""`crowdbeam aggregate`: labels in, skills and answers out."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from crowdcore.options import REPEATS, SOLVERS, STARTS, WEIGHTS
from pipelines import progress
from pipelines.arguments import CommandParser, number, whole_number
from pipelines.errors import InvalidSettingError
from pipelines.settings import (
    INPUT_FORMATS,
    MODELS,
    MULTICLASS,
    OUTPUT_FORMATS,
    AggregateSettings,
    BatchSettings,
    parse_columns,
)
from pipelines.terminal import ProgressLine, show_blocks, show_progress, write_out

SUMMARY = "Turn files of labels into worker skills and task answers."
TAKES_BEAM_OPTIONS = True
NO_USABLE_LABEL = 3
_DEFAULTS = AggregateSettings()
_COMPONENTS_IN_JSON = 100
_EPILOG = """\
examples:
  crowdbeam aggregate labels.csv --output run
  crowdbeam aggregate 'day-*.parquet' --output run --gold gold.csv \\
      --columns task=item_id,worker=annotator_id,label=answer,time=ts

Any other option is Beam's, for example --runner FlinkRunner --parallelism 8.

exit codes:
    0  done
    1  the run failed; --output holds no new result
    2  bad usage, settings or inputs; nothing was run
    3  the run finished, but there was no usable label
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
    _add_model_options(parser)
    return parser


def _add_input_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("input").add_argument
    add("inputs", metavar="INPUT", nargs="+", help="files, folders or globs: Parquet, Avro, CSV, JSON lines, .gz, .zst")
    columns = "what task, worker, label and time are called in the inputs (default: the same)"
    add("--columns", metavar="FIELD=COLUMN,...", default="", help=columns)
    kinds = f"{', '.join(INPUT_FORMATS)} (default: auto, by the file's name)"
    add("--input-format", metavar="FORMAT", default="auto", help=kinds)
    gold = "known answers, columns task and label; may be given several times (default: none)"
    add("--gold", metavar="FILE", action="append", default=[], help=gold)
    classes = """the classes, or a JSON list '["a,b", "c"]'; other labels are rejected (default: those seen)"""
    add("--classes", metavar="A,B,...", default="", help=classes)
    repeats = f"which of a worker's labels on one task counts: {', '.join(REPEATS)} (default: %(default)s)"
    add("--repeats", metavar="RULE", default=_DEFAULTS.repeats, help=f"{repeats}; error rejects those that differ")
    prior = "skills known before: an earlier run, or a file with columns worker and skill (default: none)"
    add("--prior-skills", metavar="RUN|FILE", default="", help=prior)
    strength = "how much a known skill counts, in common tasks (default: %(default)g)"
    _add_number(add, "--prior-strength", "N", _DEFAULTS.prior_strength, strength)


def _add_output_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", required=True, help="the run folder; a run appears in it whole or not at all")
    add("--overwrite", action="store_true", help="replace the finished run in --output (default: refuse)")
    kinds = f"the format of the tables: {', '.join(OUTPUT_FORMATS)} (default: %(default)s)"
    add("--output-format", metavar="FORMAT", default="parquet", help=kinds)
    add("--probabilities", action="store_true", help="give each answer the probability of every class (default: no)")
    _add_number(
        add,
        "--confidence",
        "P",
        _DEFAULTS.confidence,
        "of the skills' intervals: how often they hold (default: %(default)g)",
    )
    few = "tasks with fewer workers get the status too-few-labels (default: %(default)s)"
    _add_whole(add, "--min-labels", _DEFAULTS.min_labels, few)
    shards = "parts the tasks are split into, and files of scores (default: 0, by the input's size)"
    _add_whole(add, "--shards", _DEFAULTS.shards, shards)
    add("--json", action="store_true", help="print one JSON object and nothing else (default: a summary)")
    add("--quiet", action="store_true", help="print nothing but errors (default: progress and a summary)")


def _add_model_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("model").add_argument
    model = f"what a worker is taken for: {', '.join(MODELS)}, one skill a worker (default: %(default)s)"
    add("--model", metavar="NAME", default=_DEFAULTS.model, help=model)
    weights = f"how a pair of workers counts by its N common tasks: {', '.join(WEIGHTS)} (default: %(default)s)"
    add("--weights", metavar="NAME", default=_DEFAULTS.weights, help=weights)
    saturation = "where saturating weights, N / (1 + N / saturation), level off (default: %(default)g)"
    _add_number(add, "--saturation", "N", _DEFAULTS.saturation, saturation)
    rule = f"how votes add up with three classes or more: {', '.join(MULTICLASS)} (default: %(default)s)"
    add("--multiclass", metavar="RULE", default=_DEFAULTS.multiclass, help=rule)
    prior = "how frequent the classes of --classes are, or a JSON object (default: all alike)"
    add("--class-prior", metavar="A=P,B=P,...", default="", help=prior)
    solver = f"{', '.join(SOLVERS)}: the same minimum, fast or by the paper's update (default: %(default)s)"
    add("--solver", metavar="NAME", default=_DEFAULTS.solver, help=solver)
    start = f"where the solver starts: {', '.join(STARTS)}; auto tries several (default: %(default)s)"
    add("--start", metavar="NAME", default=_DEFAULTS.start, help=start)
    _add_whole(add, "--seed", _DEFAULTS.seed, "the seed of the spectral and random starts (default: %(default)s)")


def _add_number(add: Any, name: str, metavar: str, default: float, text: str) -> None:
    add(name, metavar=metavar, type=number(name), default=default, help=text)


def _add_whole(add: Any, name: str, default: int, text: str) -> None:
    add(name, metavar="N", type=whole_number(name), default=default, help=text)


def settings_of(args: Namespace) -> BatchSettings:
    """The settings that the arguments stand for; raises `InvalidSettingError` when they cannot be used."""
    aggregate = AggregateSettings(
        model=args.model,
        weights=args.weights,
        saturation=args.saturation,
        solver=args.solver,
        start=args.start,
        seed=args.seed,
        multiclass=args.multiclass,
        classes=parse_classes(args.classes),
        class_prior=parse_class_prior(args.class_prior),
        prior_strength=args.prior_strength,
        repeats=args.repeats,
        min_labels=args.min_labels,
        confidence=args.confidence,
        probabilities=args.probabilities,
        shards=args.shards,
    )
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
    )


def parse_classes(text: str) -> tuple[str, ...]:
    """Reads ``a,b`` or, for classes with commas, a JSON list.

    >>> parse_classes("yes, no"), parse_classes('["a,b", "c"]')
    (('yes', 'no'), ('a,b', 'c'))
    """
    if not text.strip():
        return ()
    names = _json(text, "--classes") if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidSettingError(f"""--classes is {text!r}; it takes A,B,... or a JSON list of texts, ["a,b", "c"].""")
    return tuple(names)


def parse_class_prior(text: str) -> tuple[tuple[str, float], ...]:
    """Reads ``a=.2,b=.8`` or, for classes with commas, a JSON object.

    >>> parse_class_prior("yes=.2, no=.8"), parse_class_prior('{"a,b": 0.2, "c": 0.8}')
    ((('yes', 0.2), ('no', 0.8)), (('a,b', 0.2), ('c', 0.8)))
    """
    if not text.strip():
        return ()
    if text.lstrip().startswith("{"):
        pairs = list(_json(text, "--class-prior").items())
    else:
        pairs = [(name.strip(), share) for name, _, share in (part.rpartition("=") for part in text.split(","))]
    try:
        return tuple((name, float(share)) for name, share in pairs)
    except (TypeError, ValueError):
        raise InvalidSettingError(
            f"--class-prior is {text!r}; it takes CLASS=FREQUENCY pairs, yes=0.2,no=0.8."
        ) from None


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidSettingError(f"{option} is {text!r}, which is not JSON: {error}.") from None


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
    if args.json:
        graph = read_table(result.path, "graph").slice(0, _COMPONENTS_IN_JSON).to_pylist()
        write_out(json.dumps({**result.manifest, "path": result.path, "graph": graph}, ensure_ascii=False))
    elif not args.quiet:
        show_blocks(summarise(result.path, result.manifest, RunTables.of(result.path)))
    counts = result.manifest["counts"]
    if counts["labels_used"]:
        return 0
    sys.stderr.write(
        f"crowdbeam: There was no usable label among {counts['labels_read']:,}; {result.path} says why in rejects.\n"
    )
    return NO_USABLE_LABEL


def _runner_outside(beam_args: Sequence[str], in_process: Sequence[str]) -> str:
    """The runner among Beam's arguments, if it is not in this process."""
    runner = next((arg.partition("=")[2] for arg in reversed(beam_args) if arg.startswith("--runner=")), "")
    return "" if runner in in_process else runner
