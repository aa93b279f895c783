"""`crowdbeam nightly`: the new labels of a night into a ledger, and what has changed into warehouses."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines import progress
from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.commands.gate_options import NO_USABLE_LABEL, add_gate_options, gate_codes, tell_gates, tell_left_out
from pipelines.commands.input_options import add_input_options
from pipelines.commands.model_options import add_model_options, add_whole, aggregate_settings_of
from pipelines.gates import parse_gates
from pipelines.ledger.night_settings import DEFAULT_KEEP, RESCORE, NightSettings
from pipelines.settings import OUTPUT_FORMATS, TIME_UNITS, BatchSettings, parse_columns, seconds_of
from pipelines.terminal import Block, Facts, Grid, Notes, ProgressLine, show_blocks, show_progress, write_out

if TYPE_CHECKING:
    from pipelines.nightly import NightResult

SUMMARY = "Add the new labels of a night to a ledger, and bring warehouses up to date."
TAKES_BEAM_OPTIONS = False
_REASONS_TOLD = 3
_BECAME = {"read": "read", "used": "used", "repeats": "repeated", "withdrawals": "withdrawn", "rejected": "rejected"}
_EPILOG = f"""\
examples:
  crowdbeam nightly labels/2026-11-18/*.parquet --ledger ledger --output postgresql://me@localhost:5432/crowd
  crowdbeam nightly tonight.csv --ledger ledger --output answers --task-ttl 30d --fail-if 'rejects-share>0.01'

A night that is run again changes nothing: inputs are known by their content. A night that was killed leaves nothing.
A warehouse that cannot be reached when the night begins stops it before anything is changed; one that goes away
during it is brought up to date by the next run. crowdbeam ledger shows and mends ledgers.

exit codes:
    0  done
    1  the night failed; the ledger is as it was, or a warehouse could not be loaded with what it holds
    2  bad usage, settings or inputs; nothing was run
    3  there was no usable label, so the night is not in the ledger; run it again with other options or files
{gate_codes()}
       a gate has tripped: the night is neither in the ledger nor in a warehouse
  130  interrupted (Ctrl-C), 143 ended (SIGTERM)
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam nightly",
        usage="crowdbeam nightly NEW... --ledger DIR [--output WAREHOUSE ...] [options]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    _add_input_options(parser)
    _add_ledger_options(parser)
    _add_output_options(parser)
    add_gate_options(parser)
    add_model_options(parser)
    return parser


def _add_input_options(parser: CommandParser) -> None:
    add = add_input_options(parser, "NEW", "files, folders, globs or warehouse tables with the new labels")
    unit = f"of times that are numbers: {', '.join(TIME_UNITS)} (default: %(default)s)"
    add("--time-unit", metavar="UNIT", default="us", help=unit)


def _add_ledger_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("ledger").add_argument
    add("--ledger", type=local, metavar="DIR", required=True, help="the folder of the ledger; a new one is made")
    ttl = "close a task so long after its last label, 12h, 30d; late labels are rejected (default: 0, never)"
    add("--task-ttl", metavar="TIME", default="0", help=ttl)
    rescore = f"which answers are given anew: {', '.join(RESCORE)} (default: %(default)s, those whose labels changed)"
    add("--rescore", metavar="WHICH", default=RESCORE[0], help=rescore)
    warm = "begin at last night's skills: fewer rounds, maybe another minimum (default: begin as the batch does)"
    add("--warm-start", action="store_true", help=warm)
    add_whole(add, "--keep-versions", DEFAULT_KEEP, "versions that can be gone back to (default: %(default)s)")
    add_whole(add, "--shards", 0, "parts that the tasks of a new ledger are split into (default: 0, by its size)")


def _add_output_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("output").add_argument
    output = "where what has changed is loaded to: a folder or a warehouse; may be given several times (default: none)"
    add("--output", metavar="WAREHOUSE", action="append", default=[], help=output)
    kinds = f"the format of the night's tables in the ledger: {', '.join(OUTPUT_FORMATS)} (default: %(default)s)"
    add("--output-format", metavar="FORMAT", default="parquet", help=kinds)
    add("--json", action="store_true", help="print one JSON object and nothing else (default: a summary)")
    add("--quiet", action="store_true", help="print nothing but errors (default: progress and a summary)")


def settings_of(args: Namespace) -> NightSettings:
    """The settings that the arguments stand for; raises `InvalidSettingError` when they cannot be used."""
    batch = BatchSettings(
        inputs=tuple(args.inputs),
        output="",
        aggregate=aggregate_settings_of(args),
        columns=parse_columns(args.columns),
        gold=tuple(args.gold),
        prior_skills=args.prior_skills,
        input_format=args.input_format,
        output_format=args.output_format,
    )
    return NightSettings(
        batch,
        args.ledger,
        time_unit=args.time_unit,
        task_ttl_us=round(seconds_of(args.task_ttl, "--task-ttl") * 1e6),
        rescore=args.rescore,
        warm_start=args.warm_start,
        keep=args.keep_versions,
        shards=args.shards,
        outputs=tuple(args.output),
        gates=parse_gates(args.fail_if),
        lineage=args.lineage,
    )


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Runs the night and tells what came of it."""
    settings = settings_of(args)
    from pipelines import nightly

    with show_progress(ProgressLine(progress.done, ""), wanted=not (args.quiet or args.json)):
        result = nightly.run(settings)
    if not args.quiet:
        tell_left_out((*settings.batch.inputs, *settings.batch.gold))
    if args.json:
        write_out(json.dumps(_as_json(result), ensure_ascii=False))
    elif not args.quiet:
        show_blocks(list(_blocks(result, settings)))
    kept = "The ledger is as it was." if any(result.loaded.values()) else "Nothing was changed."
    code = tell_gates(result.gates, kept if result.held else "There was nothing new.")
    if result.manifest is None or not result.unusable:
        return code
    sys.stderr.write(f"crowdbeam: {_unusable(result.manifest['counts'])}\n")
    return NO_USABLE_LABEL


def _unusable(counts: Mapping[str, int]) -> str:
    """Says that no label of a night was of use, or no known answer where there were only those, and why.

    >>> _unusable({"labels_read": 2, "labels_rejected": 2, "labels_rejected.unknown-op": 2})
    'There was no usable label among 2: 2 unknown-op. The ledger is as it was; the night can be run again.'
    """
    from pipelines.summary import reject_reasons

    is_gold = counts.get("gold_read") and not counts["labels_read"]
    what, name = ("gold", "known answer") if is_gold else ("labels", "label")
    reasons = [f"{n} {reason.strip()}" for reason, n in reject_reasons(counts, f"{what}_rejected.")][:_REASONS_TOLD]
    why = f": {', '.join(reasons)}" if reasons else ""
    read = f"{counts[f'{what}_read']:,}"
    return f"There was no usable {name} among {read}{why}. The ledger is as it was; the night can be run again."


def _as_json(result: "NightResult") -> dict[str, Any]:
    version = result.version
    return {
        **(result.manifest or {}),
        "ledger_version": version.number if version else 0,
        "held": result.held,
        "known_inputs": dict(result.known),
        "loaded": {to: dict(rows) for to, rows in result.loaded.items()},
    }


def _blocks(result: "NightResult", settings: NightSettings) -> Iterator[Block]:
    version = result.version
    if result.manifest is None:
        versions = ", ".join(map(str, sorted(set(result.known.values()))))
        since = f"The inputs are in the ledger already, since version {versions}."
        yield Notes(
            "Nothing new",
            (since if versions else f"The inputs hold no data.{'' if version else ' No ledger was made.'}",),
        )
    if result.manifest is not None:
        yield from _night_blocks(result.manifest, result)
    for to, rows in result.loaded.items():
        if rows:
            yield Grid(f"Loaded into {to}", ("table", "rows"), tuple((name, f"{n:,}") for name, n in rows.items()))
        else:
            yield Notes(to, ("It was up to date.",))
    if version is not None:
        yield Facts(
            f"{settings.ledger}, version {version.number}",
            (
                ("tasks", f"{version.n_tasks:,}"),
                ("labels", f"{sum(version.classes.values()):,}"),
                ("closed with an answer", f"{sum(version.closed.values()):,}"),
            ),
        )


def _night_blocks(manifest: Mapping[str, Any], result: "NightResult") -> Iterator[Block]:
    from pipelines.summary import gates_block, reject_reasons

    counts = manifest["counts"]
    for title, what in (("Labels of the night", "labels"), ("Known answers of the night", "gold")):
        if what == "labels" or counts.get("gold_read"):
            told = [(name, f"{counts.get(f'{what}_{became}', 0):,}") for name, became in _BECAME.items()]
            yield Facts(title, (*told, *reject_reasons(counts, f"{what}_rejected.")))
    if result.known:
        yield Notes("Note", (f"{len(result.known)} of the inputs were in the ledger already and are left out.",))
    if result.unusable:
        return
    yield Facts(
        "Answers",
        (
            ("given anew", f"{counts['scores']:,}"),
            ("workers", f"{counts['workers']:,}"),
            ("whose skill is determined", f"{counts['workers_identified']:,}"),
            ("seconds", f"{sum(manifest['timings_s'].values()):.2f}"),
        ),
    )
    if manifest["gates"]:
        yield gates_block(manifest["gates"])
