"""`crowdbeam stream`: labels arrive, skills and answers stay current."""

import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from pipelines.arguments import CommandParser
from pipelines.commands.actions import refuse_other_options
from pipelines.commands.model_options import add_model_options, add_number, add_whole, aggregate_settings_of
from pipelines.errors import InvalidSettingError
from pipelines.settings import LATE_RULES, MESSAGE_FORMATS, OUTPUT_FORMATS, TIME_UNITS
from pipelines.terminal import StreamLine, show_progress, stream_summary, write_out

SUMMARY = "Keep worker skills and task answers current while labels arrive."
TAKES_BEAM_OPTIONS = True
ACTIONS = ("run", "snapshot", "stop")
_EPILOG = """\
actions:
  run       read --source, write to --sink, until Ctrl-C or SIGTERM: then everything read is answered (default)
  snapshot  write the state of the stream of --control as a run folder to --output
  stop      have the stream of --control answer all it has read, and end

examples:
  crowdbeam stream --source kafka://localhost:9092/labels --sink kafka://localhost:9092/crowd
  crowdbeam stream --source kafka://localhost:9092/labels --sink postgres://me@localhost/crowd --task-ttl 7d \\
      --control /shared/crowd --runner PortableRunner --job_endpoint localhost:8099 \\
      --environment_type EXTERNAL --environment_config localhost:50000 --parallelism 2
  crowdbeam stream snapshot --control /shared/crowd --output run

Any other option is Beam's. Without --runner the stream runs on Prism, on this machine.

exit codes:
    0  done; the stream was asked to end, and everything read is answered, or its job was stopped at a savepoint
    1  the stream failed; what was written stays
    2  bad usage, settings, source or sink; nothing was run
"""
_PAGES = {
    "snapshot": (
        "crowdbeam stream snapshot --control DIR --output DIR [options]",
        "Write the state of a stream as a run folder; the stream goes on.",
    ),
    "stop": ("crowdbeam stream stop --control DIR", "Have a stream answer all it has read, and end."),
}
_OF_ALL = ("help", "action", "control", "json", "quiet")
_OF_SNAPSHOT = ("output", "overwrite", "output_format")
_ACTION_EPILOG = "`crowdbeam stream --help` tells how a stream is started."


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam stream",
        usage="crowdbeam stream [run|snapshot|stop] --source SOURCE --sink SINK [options] [any Beam option]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    parser.add_argument("action", metavar="ACTION", nargs="?", default="run", help=f"{', '.join(ACTIONS)}; see below")
    _add_source_options(parser)
    _add_sink_options(parser)
    _add_stream_options(parser)
    add_model_options(parser)
    return parser


def help_of(words: Sequence[str]) -> str:
    """The page of help that `words` ask for: the whole one, or that of an action other than run."""
    action = next((word for word in words if not word.startswith("-")), "")
    if action not in _PAGES:
        return build_parser().format_help()
    usage, summary = _PAGES[action]
    parser = CommandParser(prog=f"crowdbeam stream {action}", usage=usage, description=summary, epilog=_ACTION_EPILOG)
    add = parser.add_argument
    add("--control", metavar="DIR", required=True, help="the control folder of the stream")
    if action == "snapshot":
        _add_snapshot_options(add)
        add("--quiet", action="store_true", help="print nothing but errors")
    return parser.format_help()


def _add_source_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("source").add_argument
    add("--source", default="", help="kafka://HOST:PORT/TOPIC, pubsub://PROJECT/SUBSCRIPTION, or a growing folder")
    kinds = f"of messages: {', '.join(MESSAGE_FORMATS)} by schemas/label.avsc (default: %(default)s)"
    add("--message-format", metavar="FORMAT", default="json", help=kinds)
    columns = "what task, worker, label, time and op are called in the events (default: the same)"
    add("--columns", metavar="FIELD=COLUMN,...", default="", help=columns)
    unit = f"of times that are numbers: {', '.join(TIME_UNITS)} (default: %(default)s)"
    add("--time-unit", metavar="UNIT", default="us", help=unit)
    ahead = "events whose time is more than this after their arrival are rejected (default: %(default)s)"
    add("--max-ahead", metavar="TIME", default="1h", help=ahead)
    begin = "where a stream that has read nothing yet begins: earliest, latest (default: %(default)s)"
    add("--from", dest="start_from", metavar="WHERE", default="earliest", help=begin)
    group = "the Kafka group whose offsets are committed, to be watched (default: %(default)s)"
    add("--group", metavar="NAME", default="crowdbeam", help=group)
    properties = "settings of the Kafka client, NAME=VALUE a line: the place for passwords (default: none)"
    add("--kafka-properties", metavar="FILE", default="", help=properties)
    add_whole(add, "--readers", 2, "how many readers share the source's partitions (default: %(default)s)")
    add_whole(add, "--block", 50_000, "how many events are read at once (default: %(default)s)")
    begun = "a finished run, a snapshot or a ledger, whose labels are the stream's first (default: none)"
    add("--bootstrap", metavar="RUN", default="", help=begun)


def _add_sink_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("sink").add_argument
    sink = "kafka://HOST:PORT/PREFIX, postgres://USER@HOST/DATABASE, or a folder; may be given several times"
    add("--sink", action="append", default=[], help=sink)
    add("--rejects", metavar="SINK", default="", help="where rejects go (default: to every --sink)")
    add_number(add, "--emit-if", "P", 0.01, "give a row again when it changes by more than this (default: %(default)g)")
    add("--file-every", metavar="TIME", default="60s", help="how often a folder gets new files (default: %(default)s)")
    _add_control_option(add)
    _add_snapshot_options(add, "of a snapshot: ")
    add("--quiet", action="store_true", help="print nothing but errors")


def _add_control_option(add: Any) -> None:
    control = "the folder for requests and status; every worker must reach it (default: a new temporary one)"
    add("--control", metavar="DIR", default="", help=control)


def _add_snapshot_options(add: Any, what: str = "") -> None:
    add("--output", metavar="DIR", default="", help=f"{what}the run folder")
    add("--overwrite", action="store_true", help=f"{what}replace the finished run in --output")
    kinds = f"{what}the format of its tables: {', '.join(OUTPUT_FORMATS)} (default: %(default)s)"
    add("--output-format", metavar="FORMAT", default="parquet", help=kinds)
    add("--json", action="store_true", help="print one JSON object at the end, and nothing else")


def _add_stream_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("stream").add_argument
    ttl = "close a task so long after its last label, in event time, for example 7d (default: never)"
    add("--task-ttl", metavar="TIME", default="0", help=ttl)
    late = f"labels for closed tasks: {', '.join(LATE_RULES)} (default: %(default)s)"
    add("--late", metavar="RULE", default="reject", help=late)
    every = "how long between two solutions while labels arrive (default: %(default)s)"
    add("--solve-every", metavar="TIME", default="2s", help=every)
    settle = "how long without labels until skills are solved from scratch, as in a batch (default: %(default)s)"
    add("--settle-after", metavar="TIME", default="5s", help=settle)
    add_whole(add, "--shards", 8, "parts the tasks are split into; fixed for a stream's life (default: %(default)s)")


def settings_of(args: Namespace, control: str) -> Any:
    """The settings that the arguments stand for; raises `InvalidSettingError` when they cannot be used."""
    from pipelines.events import EventSettings
    from pipelines.settings import parse_columns, seconds_of
    from pipelines.streaming.settings import StreamSettings

    if not args.source:
        raise InvalidSettingError(
            "There is no --source; give kafka://HOST:PORT/TOPIC, pubsub://PROJECT/SUBSCRIPTION or a folder."
        )
    aggregate = aggregate_settings_of(args)
    ahead_us = int(seconds_of(args.max_ahead, "--max-ahead") * 1e6)
    return StreamSettings(
        source=args.source,
        sinks=tuple(args.sink),
        control=control,
        rejects=args.rejects,
        bootstrap=args.bootstrap,
        aggregate=aggregate,
        events=EventSettings(
            args.message_format, parse_columns(args.columns), aggregate.classes, args.time_unit, ahead_us
        ),
        group=args.group,
        start_from=args.start_from,
        properties=args.kafka_properties,
        readers=args.readers,
        shards=args.shards,
        block=args.block,
        task_ttl_s=seconds_of(args.task_ttl, "--task-ttl"),
        late=args.late,
        solve_every_s=seconds_of(args.solve_every, "--solve-every"),
        settle_after_s=seconds_of(args.settle_after, "--settle-after"),
        emit_if=args.emit_if,
        file_every_s=seconds_of(args.file_every, "--file-every"),
        prior_skills=args.prior_skills,
    )


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Does what `args.action` says."""
    if args.action not in ACTIONS:
        raise InvalidSettingError(f"{args.action!r} is no action of crowdbeam stream; it takes {', '.join(ACTIONS)}.")
    _refuse_other_options(args, beam_args)
    if args.action == "run":
        return _run(args, beam_args)
    if not args.control:
        raise InvalidSettingError(f"crowdbeam stream {args.action} needs the --control folder of a running stream.")
    from pipelines.addresses import absolute
    from pipelines.streaming.control import Control

    control = Control(absolute(args.control))
    if args.action == "snapshot" and not args.output:
        raise InvalidSettingError("A snapshot needs an --output folder.")
    control.described()
    control.refuse_if_gone()
    if args.action == "stop":
        return _stop(control, args)
    from pipelines.run_tables import read_table
    from pipelines.streaming import snapshot
    from pipelines.summary import RunTables, summarise
    from pipelines.terminal import show_blocks

    manifest = snapshot.take(control, args.output, output_format=args.output_format, overwrite=args.overwrite)
    if args.json:
        graph = read_table(args.output, "graph").to_pylist()
        write_out(json.dumps({**manifest, "path": args.output, "graph": graph}, ensure_ascii=False))
    elif not args.quiet:
        show_blocks(summarise(args.output, manifest, RunTables.of(args.output)))
    return 0


def _refuse_other_options(args: Namespace, beam_args: Sequence[str]) -> None:
    parser = build_parser()
    of_run = {option.dest: ("run",) for option in parser._actions if option.dest not in _OF_ALL}
    refuse_other_options(parser, args, {**of_run, **dict.fromkeys(_OF_SNAPSHOT, ("snapshot",))})
    if beam_args and args.action != "run":
        raise InvalidSettingError(f"{beam_args[0].partition('=')[0]} is of run, not of {args.action}. Leave it out.")


def _stop(control: Any, args: Namespace) -> int:
    from pipelines.streaming.supervise import drain

    owner = control.owner()  # afterwards it may have ended already
    marker = drain(control)
    if args.json:
        write_out(json.dumps({"asked": marker.id, "process": owner or None}))
    elif owner and not args.quiet:
        write_out(f"The stream (process {owner}) has been asked to end; it answers all it has read first.")
    if not owner:
        sentence = f"No command on this machine has a stream in {args.control}; a job elsewhere will stop."
        sys.stderr.write(f"crowdbeam: {sentence}\n")
    return 0


def _run(args: Namespace, beam_args: Sequence[str]) -> int:
    if args.control:
        return _run_in(args.control, args, beam_args)
    with tempfile.TemporaryDirectory(prefix="crowdbeam-stream-", ignore_cleanup_errors=True) as control:
        return _run_in(control, args, beam_args)


def _tell_waits(told: list[str], waits: Sequence[str]) -> None:
    """Says what the stream waits for, each once while it lasts, whatever the cause, and when it goes on.

    `told` is what was said.
    """
    for sentence in waits:
        what, _, _ = sentence.partition(": ")
        if what not in told:
            told.append(what)
            sys.stderr.write(f"crowdbeam: {sentence.rstrip('.')}. The stream waits for it; nothing is lost.\n")
    if told and not waits:
        told.clear()
        sys.stderr.write("crowdbeam: the stream goes on.\n")


def _run_in(control: str, args: Namespace, beam_args: Sequence[str]) -> int:
    settings = settings_of(args, control)
    if beam_args:
        from pipelines.beam_options import check_beam_options

        check_beam_options(beam_args)
    from pipelines.streaming import supervise

    line, wanted = StreamLine(), not (args.quiet or args.json)

    def begun() -> None:
        if wanted:
            sys.stderr.write(f"crowdbeam: reading {settings.source}; requests and status in {control}\n")

    told: list[str] = []

    def see(status: dict[str, Any] | None, waits: list[str]) -> None:
        line.see(status, waits)
        if wanted:
            _tell_waits(told, waits)

    with show_progress(line, wanted):
        status = supervise.run(settings, beam_args, see, begun)
    if args.json:
        write_out(json.dumps(status, ensure_ascii=False))
    elif status["ended"] == "stopped":
        write_out("The job was stopped; to go on from its savepoint, give the savepoint's path to --savepoint_path.")
    elif not args.quiet:
        write_out(stream_summary(status))
    return 0
