"""`crowdbeam load`: a finished run into warehouses, exactly once."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.errors import CrowdbeamError, InvalidSettingError, RunError
from pipelines.terminal import Block, Facts, Grid, Notes, show_blocks, write_out

if TYPE_CHECKING:
    from pipelines.sinks.warehouse import LoadedRun, Warehouse

SUMMARY = "Load a finished run into warehouses, exactly once."
TAKES_BEAM_OPTIONS = False
LOADED, THERE, FAILED = "loaded", "there already", "failed"
_EPILOG = """\
examples:
  crowdbeam load run --to postgresql://me@localhost:5432/crowd
  crowdbeam load run --to duckdb:crowd.duckdb --to 'archive?format=avro'

Warehouses (docs/warehouses.md):
  postgresql://USER@HOST:PORT/DATABASE[?schema=NAME]
  duckdb:PATH[?schema=NAME]
  iceberg://CATALOG/NAMESPACE
  bigquery://PROJECT/DATASET[?location=EU]
  DIR[?format=parquet|avro|csv|jsonl], one run folder a run

A run that is there already changes nothing: after a crash, load it again.
Passwords come from the environment or the warehouse's own configuration.

exit codes:
    0  done: every warehouse holds the run
    1  a warehouse did not take it, or could not be asked; load it again
    2  bad usage, settings or inputs; nothing was loaded
  130  interrupted (Ctrl-C), 143 ended (SIGTERM)
"""


@dataclass(frozen=True)
class Loading:
    """What became of a run in one warehouse.

    Attributes:
        to: the warehouse.
        status: `LOADED`, `THERE` or `FAILED`.
        rows: the rows written, by table.
        seconds: how long it took.
        error: why it failed.
    """

    to: str
    status: str
    rows: Mapping[str, int]
    seconds: float
    error: CrowdbeamError | None = None


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam load",
        usage="crowdbeam load RUN --to WAREHOUSE [--to WAREHOUSE ...] [--json]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    add = parser.add_argument_group("input").add_argument
    add("run", type=local, metavar="RUN", help="the folder of a finished run, or of a stream's snapshot")
    add = parser.add_argument_group("output").add_argument
    add("--to", metavar="WAREHOUSE", action="append", required=True, help="where it is loaded; may be given again")
    add("--json", action="store_true", help="print one JSON object, for machines, and nothing else (default: tables)")
    return parser


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Loads, and shows what was loaded."""
    from pipelines.sinks.loads import loaded_run_of
    from pipelines.sinks.warehouses import warehouses_of

    loaded = loaded_run_of(args.run)
    warehouses = warehouses_of(args.to, "--to")
    for one in warehouses:
        one.check()
        _refuse_others(one, loaded)
        _refuse_gap(one, loaded)
    loadings = [_load(one, loaded) for one in warehouses]
    if args.json:
        write_out(json.dumps(_as_json(loaded, loadings), ensure_ascii=False))
    else:
        show_blocks(list(_blocks(loaded, loadings)))
    _raise_failures(loadings)
    return 0


def _raise_failures(loadings: Sequence[Loading]) -> None:
    """Raises what kept the run from all warehouses; a `RunError` when some have it, or reasons are of several kinds."""
    failures = [one.error for one in loadings if one.error]
    if failures:
        kinds = {type(one) for one in failures}
        kind = kinds.pop() if len(kinds) == 1 and len(failures) == len(loadings) else RunError
        raise kind(" ".join(dict.fromkeys(map(str, failures))))


def _refuse_others(warehouse: "Warehouse", run: "LoadedRun") -> None:
    """Runs of a ledger and others would take turns in overwriting each other's answers."""
    from pipelines.sinks.warehouse import other_runs

    others = other_runs(warehouse.ledgers(), run.ledger)
    if others and (run.ledger or warehouse.has_state):
        whose = f"ledger {run.ledger}" if run.ledger else "no ledger"
        raise InvalidSettingError(
            f"{warehouse} {others}, and {run.path} is a run of {whose}: it would overwrite their answers. "
            "Give it a place of its own."
        )


def _refuse_gap(warehouse: "Warehouse", run: "LoadedRun") -> None:
    """A run that holds what changed is of use only where the run before it was loaded last."""
    from pipelines.sinks.loads import runs_before
    from pipelines.sinks.warehouse import FILL_AGAIN

    if run.whole:
        return
    last, before = warehouse.last_run(run.ledger), runs_before(run.path)
    if last.torn:
        raise InvalidSettingError(
            f"A table of the current state of {warehouse} was dropped, and {run.path} holds what changed. {FILL_AGAIN}"
        )
    if last.version >= run.version or last.run_id in before:
        return
    holds = f"{warehouse} holds version {last.version} of ledger {run.ledger}, and {run.path} what changed"
    if before:
        raise InvalidSettingError(
            f"{holds} after run {before[-1]}. Load that run first, or bring the warehouse up to date by crowdbeam "
            "nightly."
        )
    if last.version < run.version - 1:
        raise InvalidSettingError(
            f"{holds} from version {run.version - 1} to {run.version}. Load the runs between them first, in their "
            "order."
        )


def _load(warehouse: "Warehouse", run: "LoadedRun") -> Loading:
    began = time.perf_counter()
    rows: Mapping[str, int] = {}
    status, failure = FAILED, None
    try:
        rows = warehouse.load(run)
        status = LOADED if rows else THERE
    except CrowdbeamError as error:
        failure = error
    return Loading(str(warehouse), status, rows, round(time.perf_counter() - began, 3), failure)


def _blocks(run: "LoadedRun", loadings: Sequence[Loading]) -> Iterator[Block]:
    facts = [("run", run.run_id), ("holds", "every answer" if run.whole else "what changed")]
    if run.ledger:
        facts.append(("ledger", f"{run.ledger}, version {run.version:,}"))
    yield Facts(run.path, tuple(facts))
    for one in loadings:
        if one.rows:
            rows = tuple((name, f"{n:,}") for name, n in one.rows.items())
            yield Grid(f"Loaded in {one.seconds:.1f} s into {one.to}", ("table", "rows"), rows)
        elif one.status == THERE:
            yield Notes(one.to, ("The run is there already; nothing was changed.",))


def _as_json(run: "LoadedRun", loadings: Sequence[Loading]) -> dict[str, Any]:
    known = {"path": run.path, "run_id": run.run_id, "ledger": run.ledger, "version": run.version, "whole": run.whole}
    return {**known, "warehouses": [{**vars(one), "error": str(one.error or "")} for one in loadings]}
