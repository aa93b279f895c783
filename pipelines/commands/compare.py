"""`crowdbeam compare`: every method on one dataset whose truth is known."""

import difflib
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crowdcore.options import METHODS
from pipelines.addresses import local
from pipelines.arguments import CommandParser, number
from pipelines.commands.gate_options import NO_USABLE_LABEL
from pipelines.commands.model_options import add_whole
from pipelines.errors import InvalidSettingError
from pipelines.settings import INPUT_FORMATS, AggregateSettings, BatchSettings, parse_columns
from pipelines.terminal import Block, Facts, Grid, Notes, show_blocks, show_progress, write_out

if TYPE_CHECKING:
    from pipelines.comparison import Crowd, MethodRow

SUMMARY = "Try every method on one dataset whose truth is known."
TAKES_BEAM_OPTIONS = False
ALL_FAILED = 1
_SECONDS = 600.0
_MB = 1e6
_EPILOG = """\
examples:
  crowdbeam compare labels.csv --truth truth.csv
  crowdbeam compare 'day-*.parquet' --truth answers.csv --methods pgd,majority

Methods: {methods}
(docs/methods.md). Each runs alone, in a process of its own: its time is that of
the method without reading, its memory the peak of the process. The error of
majority vote is the exact expectation over its ties. Log loss is over the
classes, in nats; a true class that gets no probability counts as one of 1e-15.
A method that fails or is too slow says so in its row; the others go on.

exit codes:
    0  done: at least one method finished
    1  no method finished
    2  bad usage, settings or inputs; nothing was run
    3  there was no usable label
  130  interrupted (Ctrl-C), 143 ended (SIGTERM)
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam compare",
        usage="crowdbeam compare INPUT... --truth FILE [options]",
        description=SUMMARY,
        epilog=_EPILOG.format(methods=_wrapped(METHODS)),
    )
    add = parser.add_argument_group("input").add_argument
    add(
        "inputs",
        type=local,
        metavar="INPUT",
        nargs="+",
        help="files, folders or globs: Parquet, Avro, CSV, JSON lines, .gz, .zst",
    )
    add(
        "--truth",
        type=local,
        metavar="FILE",
        required=True,
        help="the true answers, columns task and label, in any format",
    )
    columns = (
        "what task, worker, label, time and op are called in the inputs, task and label also in --truth if it has them "
        "(default: the same)"
    )
    add("--columns", metavar="FIELD=COLUMN,...", default="", help=columns)
    kinds = f"{', '.join(INPUT_FORMATS)} (default: auto, by the file's name)"
    add("--input-format", metavar="FORMAT", default="auto", help=kinds)
    add = parser.add_argument_group("methods").add_argument
    add("--methods", metavar="A,B,...", default="", help="the methods to try (default: all of them)")
    add_whole(add, "--seed", 0, "the seed of the methods that draw at random (default: %(default)s)")
    limit = "how many seconds a method may take, its start included (default: %(default)g)"
    add("--limit", metavar="SECONDS", type=number("--limit"), default=_SECONDS, help=limit)
    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="print one JSON object, for machines, and nothing else (default: a table)")
    quiet = "print the table alone (default: progress on a terminal, facts and notes too)"
    add("--quiet", action="store_true", help=quiet)
    return parser


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Runs the methods and shows how they did."""
    methods = parse_methods(args.methods)
    if not args.limit > 0:
        raise InvalidSettingError(f"--limit is {args.limit:g}; it takes a number of seconds above 0.")
    if args.seed < 0:
        raise InvalidSettingError(f"--seed is {args.seed}; it takes a number of at least 0.")
    settings = BatchSettings(
        tuple(args.inputs), "", AggregateSettings(shards=1), parse_columns(args.columns), input_format=args.input_format
    )
    from pipelines.comparison import MethodsLine, compare_methods, read_crowd

    crowd = read_crowd(settings, args.truth)
    if crowd is None:
        sys.stderr.write("crowdbeam: There was no usable label in the inputs; `crowdbeam aggregate` says why.\n")
        return NO_USABLE_LABEL
    line = MethodsLine(len(methods))
    with show_progress(line, wanted=not (args.quiet or args.json)):
        rows = compare_methods(crowd, methods, seed=args.seed, limit=args.limit, line=line)
    if args.json:
        write_out(json.dumps(_as_json(crowd, rows), ensure_ascii=False))
    else:
        show_blocks([_grid(rows)] if args.quiet else list(_blocks(crowd, rows)))
    return 0 if any(row.error is not None for row in rows) else ALL_FAILED


def parse_methods(text: str) -> tuple[str, ...]:
    """Reads ``pgd,majority``; all methods when there is nothing to read.

    >>> parse_methods("pgd, majority")
    ('pgd', 'majority')
    """
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else METHODS
    for name in names:
        if name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(METHODS)}."
            raise InvalidSettingError(f"--methods names {name!r}, which is no method; {hint}")
    if len(set(names)) != len(names):
        raise InvalidSettingError("--methods names a method twice; name each once.")
    return names


def _blocks(crowd: "Crowd", rows: Sequence["MethodRow"]) -> Iterator[Block]:
    facts = {
        "labels used": crowd.counts["labels_used"],
        "labels repeated": crowd.counts["labels_repeated"],
        "labels rejected": crowd.counts["labels_rejected"],
        **({"labels withdrawn": crowd.counts["labels_withdrawn"]} if crowd.counts["labels_withdrawn"] else {}),
        "tasks": crowd.labels.n_tasks,
        "workers": crowd.labels.n_workers,
        "classes": crowd.labels.n_classes,
        "tasks compared": crowd.n_compared,
        "truth without task": crowd.n_without_task,
    }
    yield Facts("Labels and truth", tuple((name, f"{value:,}") for name, value in facts.items()))
    yield _grid(rows)
    notes = [f"{row.method}: {row.detail}" for row in rows if row.detail]
    started = [row.start_memory_bytes for row in rows if row.start_memory_bytes]
    if started:
        notes.append(f"Of the memory, {min(started) / _MB:.0f} MB are Python, its libraries and the labels.")
    yield Notes("Note", tuple(notes))


def _grid(rows: Sequence["MethodRow"]) -> Grid:
    return Grid(
        "Methods, the lowest error first",
        ("method", "error", "log loss", "seconds", "peak MB"),
        tuple(
            (
                row.method,
                row.status if row.error is None else f"{row.error:.4f}",
                _shown(row.log_loss, ".4f"),
                _shown(row.seconds, ",.3f"),
                _shown(row.peak_memory_bytes and row.peak_memory_bytes / _MB, ",.0f"),
            )
            for row in rows
        ),
    )


def _as_json(crowd: "Crowd", rows: Sequence["MethodRow"]) -> dict[str, Any]:
    return {
        "counts": dict(sorted(crowd.counts.items())),
        "tasks": crowd.labels.n_tasks,
        "workers": crowd.labels.n_workers,
        "classes": crowd.labels.n_classes,
        "tasks_compared": crowd.n_compared,
        "truth_without_task": crowd.n_without_task,
        "methods": [asdict(row) for row in rows],
    }


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _wrapped(names: Sequence[str]) -> str:
    half = len(names) // 2
    return ",\n".join(", ".join(part) for part in (names[:half], names[half:]))
