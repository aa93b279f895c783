"""`crowdbeam ledger`: look at the ledger of nightly runs, check it, go back, make it smaller, forget a worker."""

import datetime
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.addresses import local
from pipelines.arguments import CommandParser, whole_number
from pipelines.commands.actions import refuse_other_options
from pipelines.commands.model_options import add_whole
from pipelines.errors import InvalidSettingError, RunError
from pipelines.ledger.night_settings import DEFAULT_KEEP
from pipelines.settings import OUTPUT_FORMATS
from pipelines.terminal import Block, Facts, Grid, Notes, show_blocks, write_out

if TYPE_CHECKING:
    from pipelines.ledger.folder import LedgerFolder
    from pipelines.ledger.version import Version

SUMMARY = "Look at the ledger of nightly runs, check it, go back, make it smaller, forget a worker."
TAKES_BEAM_OPTIONS = False
_EPILOG = """\
actions:
  show      the versions, and what the one that holds consists of
  verify    check every file, and that the counts are those of the labels
  rollback  make an earlier version hold again (--to N); nights after it can be run again
  compact   write each part of the tasks as one file; changes no number
  export    write everything as one run folder (--output DIR)
  forget    remove a worker's labels and all that follows from them (--worker ID), also from earlier versions

examples:
  crowdbeam ledger show ledger
  crowdbeam ledger rollback ledger --to 17
  crowdbeam ledger forget ledger --worker w123

Warehouses follow with the next crowdbeam nightly.

exit codes:
    0  done
    1  the ledger is damaged, or the action failed; nothing was changed
    2  bad usage or settings; nothing was done
  130  interrupted (Ctrl-C), 143 ended (SIGTERM); show tells which version holds
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam ledger",
        usage="crowdbeam ledger ACTION DIR [options]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    add = parser.add_argument_group("ledger").add_argument
    add("action", metavar="ACTION", help=", ".join(_ACTIONS))
    add("ledger", type=local, metavar="DIR", help="the folder of the ledger")
    add("--json", action="store_true", help="print one JSON object and nothing else (default: tables)")
    add = parser.add_argument_group("actions").add_argument
    to = "of rollback: the version that shall hold again"
    add("--to", metavar="N", type=whole_number("--to"), default=None, help=to)
    add("--worker", metavar="ID", default="", help="of forget: the worker")
    add("--output", type=local, metavar="DIR", default="", help="of export: the run folder to write")
    kinds = f"of export: {', '.join(OUTPUT_FORMATS)} (default: that of the nights)"
    add("--output-format", metavar="FORMAT", default="", help=kinds)
    add_whole(
        add, "--keep-versions", DEFAULT_KEEP, "of rollback and compact: versions that stay (default: %(default)s)"
    )
    return parser


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Does what is asked."""
    if args.action not in _ACTIONS:
        raise InvalidSettingError(f"{args.action!r} is no action; there are {', '.join(_ACTIONS)}.")
    if args.output_format and args.output_format not in OUTPUT_FORMATS:
        raise InvalidSettingError(f"--output-format is {args.output_format!r}; it takes {', '.join(OUTPUT_FORMATS)}.")
    if args.keep_versions < 1:
        raise InvalidSettingError(f"--keep-versions is {args.keep_versions}; it takes a number of at least 1.")
    refuse_other_options(build_parser(), args, _ACTIONS_OF)
    from pipelines.ledger.folder import LedgerFolder

    folder = LedgerFolder(args.ledger)
    folder.held()  # raises where there is no ledger; one that is damaged is for the action to tell
    found, blocks = _ACTIONS[args.action](folder, args)
    if args.json:
        write_out(json.dumps(found, ensure_ascii=False))
    else:
        show_blocks(blocks)
    if found.get("damage"):
        raise RunError(found["damage"])
    return 0


_Found = tuple[dict[str, Any], list[Block]]


def _show(folder: "LedgerFolder", args: Namespace) -> _Found:
    last, damage = folder.held()
    versions = []
    for number in folder.numbers():
        with suppress(RunError, InvalidSettingError):  # damaged, or a night has just removed it
            if number <= last or not last:  # a later one is what a killed run has left
                versions.append(folder.version(number))
    found = {"versions": [asdict(one) for one in versions]}
    if damage:
        return {**found, "damage": damage}, [_kept(versions)]
    return found, [*map(_holding, versions[-1:]), _kept(versions)]


def _holding(last: "Version") -> Facts:
    return Facts(
        f"Version {last.number}",
        (
            ("ledger", last.ledger),
            ("tasks", f"{last.n_tasks:,}"),
            ("labels", f"{sum(last.classes.values()):,}"),
            ("classes", f"{len(last.classes):,}"),
            ("closed with an answer", f"{sum(last.closed.values()):,}"),
            ("parts", f"{last.shards:,}"),
            ("files of labels", f"{len(last.segments):,}"),
            ("bytes", f"{sum(one.size_bytes for one in last.files()):,}"),
        ),
    )


def _kept(versions: Sequence["Version"]) -> Grid:
    rows = tuple(
        (str(one.number), one.kind, str(one.parent or "-"), _moment(one.created_at_us), _brought(one), one.run_id[:12])
        for one in versions
    )
    return Grid("Versions that are kept", ("version", "kind", "from", "made at", "labels used", "run"), rows)


def _brought(version: "Version") -> str:
    return f"{version.counts['labels_used']:,}" if "labels_used" in version.counts else "-"


def _moment(at_us: int) -> str:
    return datetime.datetime.fromtimestamp(at_us / 1e6, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _verify(folder: "LedgerFolder", args: Namespace) -> _Found:
    from pipelines.ledger import upkeep

    with folder.locked():
        wrong = upkeep.verify(folder)
    if wrong:
        raise RunError(" ".join(wrong))
    version = folder.existing()
    sentence = f"Version {version.number} is sound: every file is whole, and the counts are those of the labels."
    return {"sound": True, "version": version.number}, [Notes(args.ledger, (sentence,))]


def _rollback(folder: "LedgerFolder", args: Namespace) -> _Found:
    from pipelines.ledger import upkeep

    if args.to is None:
        raise InvalidSettingError(
            "rollback needs --to, the version that shall hold again: crowdbeam ledger show lists all."
        )
    if args.to < 1:
        raise InvalidSettingError(
            f"--to is {args.to}, but versions begin at 1. To begin from nothing give another --ledger to nightly."
        )
    with folder.locked():
        version = upkeep.rollback(folder, args.to, args.keep_versions)
    sentence = f"Version {version.number} holds now, as version {args.to} was. Later nights can be run again."
    return _told(version, args, sentence)


def _compact(folder: "LedgerFolder", args: Namespace) -> _Found:
    from pipelines.ledger import upkeep

    with folder.locked():
        before = sum(one.file.size_bytes for one in folder.existing().segments)
        version = upkeep.compact(folder, args.keep_versions)
    after = sum(one.file.size_bytes for one in version.segments)
    return _told(version, args, f"Labels take {after:,} bytes now, {before:,} before. Version {version.number} holds.")


def _export(folder: "LedgerFolder", args: Namespace) -> _Found:
    from pipelines.ledger import upkeep

    if not args.output:
        raise InvalidSettingError("export needs --output: the folder to write the run to.")
    with folder.locked():
        try:
            manifest = upkeep.export(folder, args.output, args.output_format)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"--output {args.output} cannot be written: {reason}. Nothing is in it.") from error
    counts = manifest["counts"]
    sentence = f"{counts['scores']:,} answers and {counts['workers']:,} skills are in {args.output}."
    return dict(manifest), [Notes(args.ledger, (sentence,))]


def _forget(folder: "LedgerFolder", args: Namespace) -> _Found:
    from pipelines.ledger import upkeep

    if not args.worker:
        raise InvalidSettingError("forget needs --worker: the worker's id.")
    with folder.locked():
        version, n_labels = upkeep.forget(folder, args.worker)
    sentence = f"{n_labels:,} labels are gone; earlier versions, which held them, too. Version {version.number} holds."
    return _told(version, args, sentence)


def _told(version: "Version", args: Namespace, sentence: str) -> _Found:
    return {"version": version.number, "kind": version.kind}, [Notes(args.ledger, (sentence,))]


_ACTIONS: dict[str, Callable[["LedgerFolder", Namespace], _Found]] = {
    "show": _show,
    "verify": _verify,
    "rollback": _rollback,
    "compact": _compact,
    "export": _export,
    "forget": _forget,
}
_ACTIONS_OF = {
    "to": ("rollback",),
    "worker": ("forget",),
    "output": ("export",),
    "output_format": ("export",),
    "keep_versions": ("rollback", "compact"),
}
