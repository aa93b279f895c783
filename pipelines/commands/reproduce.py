"""`crowdbeam reproduce`: the paper's experiments, its figures beside ours, as tables and pictures."""

import os
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.addresses import local
from pipelines.arguments import CommandParser, whole_number
from pipelines.errors import InvalidSettingError
from pipelines.terminal import Notes, show_blocks

if TYPE_CHECKING:
    from pipelines.paper.chapter import Chapter

SUMMARY = "Run the paper's experiments again and set its figures beside ours."
TAKES_BEAM_OPTIONS = False
EXPERIMENTS = {
    "fig1": "error against tasks, on a clique and on a star with a triangle",
    "weights": "how much a pair of workers should count",
    "skills": "how skills are distributed",
    "graph-size": "how large the graph is",
    "real": "real labels: RTE1, Temp, Dogs, Web; needs --data",
    "theory": "which graphs determine skills, recovery without noise, the error bound",
}
_EPILOG = """\
experiments:
{experiments}
  all         every one of them; real only with --data (default)

examples:
  crowdbeam reproduce --output paper --data datasets
  crowdbeam reproduce fig1 --output paper --trials 30

written: DIR/NAME.csv with all numbers, DIR/NAME.md with the tables and what
differs, DIR/NAME.svg and DIR/NAME.png, for each experiment; all also writes
DIR/README.md. Files of these names are replaced. The outcome depends on --data,
--trials and --seed alone.
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    listed = "\n".join(f"  {name:<12}{what}" for name, what in EXPERIMENTS.items())
    parser = CommandParser(
        prog="crowdbeam reproduce",
        usage="crowdbeam reproduce [EXPERIMENT] --output DIR [options]",
        description=SUMMARY,
        epilog=_EPILOG.format(experiments=listed),
    )
    add = parser.add_argument_group("input").add_argument
    add("experiment", metavar="EXPERIMENT", nargs="?", default="all", help="which one (default: %(default)s)")
    data = "a folder with rte1, temp, dogs and web, each with labels.csv and truth.csv (default: none)"
    add("--data", type=local, metavar="FOLDER", default="", help=data)
    trials = "trials of each simulation, as many as the paper's (default: %(default)s)"
    add("--trials", metavar="N", type=whole_number("--trials"), default=300, help=trials)
    add("--seed", metavar="S", type=whole_number("--seed"), default=0, help="the seed of chance (default: %(default)s)")
    add = parser.add_argument_group("output").add_argument
    add("--output", type=local, metavar="DIR", required=True, help="the folder to write to")
    add("--quiet", action="store_true", help="print nothing (default: tables, and progress on a terminal)")
    return parser


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Runs the experiments, shows and writes what they found."""
    names = _check(args)
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettingError(f"--output {folder} cannot be used: {error.strerror}.") from error
    from pipelines.paper.writing import write_chapter, write_page

    datasets = _datasets(args.data) if "real" in names else {}
    chapters = []
    written = []
    with _workshop(args.quiet) as share:
        for name in names:
            chapter = _run_one(name, args, datasets, lambda work, jobs, name=name: share(name, work, jobs))
            written += write_chapter(chapter, folder)
            chapters.append(chapter)
            if not args.quiet:
                show_blocks([*chapter.blocks(), Notes("", ("",))])
    if args.experiment == "all":
        written.append(write_page(chapters, folder, _command(args)))
    if not args.quiet:
        show_blocks([Notes(f"Written to {args.output}", (", ".join(written), *_left_out(args)))])
    return 0


def _check(args: Namespace) -> list[str]:
    """The experiments to run, after everything that can be wrong has been looked at."""
    names = list(EXPERIMENTS)
    if args.experiment not in (*names, "all"):
        raise InvalidSettingError(f"{args.experiment!r} is no experiment; it takes {', '.join(names)} or all.")
    for option, low in (("trials", 1), ("seed", 0)):
        if getattr(args, option) < low:
            raise InvalidSettingError(f"--{option} is {getattr(args, option)}; it takes a number of at least {low}.")
    if args.experiment != "all":
        names = [args.experiment]
    if args.experiment == "real" and not args.data:
        raise InvalidSettingError("The experiment real needs --data FOLDER, with rte1, temp, dogs and web in it.")
    if args.data and "real" not in names:
        raise InvalidSettingError(f"--data is for the experiments real and all; {args.experiment} takes none.")
    from pipelines.paper.writing import check_matplotlib

    check_matplotlib()
    if args.data:
        from crowdcore.experiments.real_data import DATASETS
        from pipelines.paper.datasets import check_datasets

        check_datasets(args.data, DATASETS)
    return [name for name in names if name != "real" or args.data]


def _left_out(args: Namespace) -> tuple[str, ...]:
    if args.experiment == "all" and not args.data:
        return ("The experiment real was left out: it needs --data FOLDER.",)
    return ()


def _command(args: Namespace) -> str:
    data = f" --data {shlex.quote(args.data)}" if args.data else ""
    return (
        f"crowdbeam reproduce all --output {shlex.quote(args.output)}{data} --trials {args.trials} --seed {args.seed}"
    )


def _datasets(folder: str) -> dict[str, Any]:
    from crowdcore.experiments.real_data import DATASETS
    from pipelines.paper.datasets import read_dataset

    return {name: read_dataset(Path(folder) / name) for name in DATASETS}


def _run_one(name: str, args: Namespace, datasets: dict[str, Any], share: Callable[..., Iterable[Any]]) -> "Chapter":
    """The chapter of one experiment; its chance depends on the seed and its name's place alone."""
    import numpy as np

    from crowdcore.experiments import fig1, graph_size, real_data, skill_distribution, theory, weights
    from pipelines.paper import figure, proofs, tables

    rng = np.random.default_rng([args.seed, list(EXPERIMENTS).index(name)])
    match name:
        case "fig1":
            return figure.chapter(fig1.draw_figure(args.trials, rng, share))
        case "weights":
            n_sweep = min(args.trials, weights.SWEEP_TRIALS)
            found = weights.compare_weights(args.trials, rng, share)
            return tables.weights_chapter(found, weights.sweep_designs(n_sweep, rng, share), n_sweep)
        case "skills":
            return tables.skills_chapter(skill_distribution.compare_distributions(args.trials, rng, share))
        case "graph-size":
            return tables.sizes_chapter(graph_size.compare_sizes(args.trials, rng, share))
        case "real":
            draws = min(args.trials, real_data.DRAWS)
            return tables.real_chapter(real_data.compare_methods(datasets, draws, rng, share))
        case _:
            return proofs.chapter(theory.try_theory(args.trials, rng, share))


@contextmanager
def _workshop(quiet: bool) -> Iterator[Callable[..., Iterable[Any]]]:
    """Gives `share(name, work, jobs)`: as `map`, on all processors, with a bar on a terminal."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    n_processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False,
        disable=quiet or not sys.stderr.isatty(),
    )  # fmt: skip
    pool = ProcessPoolExecutor(n_processes, mp_context=get_context("spawn"), initializer=_leave_signals_to_the_parent)

    def share(name: str, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        with bar:
            yield from bar.track(pool.map(work, jobs), total=len(jobs), description=name)

    try:
        yield share
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_signals_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
