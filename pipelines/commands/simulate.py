"""`crowdbeam simulate`: a crowd with a known truth, in files."""

import shutil
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdcore.errors import CrowdcoreError
from pipelines.addresses import local
from pipelines.arguments import CommandParser, number, whole_number
from pipelines.errors import InvalidSettingError
from pipelines.terminal import Facts, Notes, show_blocks

if TYPE_CHECKING:
    from crowdcore.simulate import Crowd

SUMMARY = "Make up a crowd with a known truth, to try things on."
TAKES_BEAM_OPTIONS = False
FORMATS = ("parquet", "avro", "csv", "jsonl")
_PARTS, _ASIDE = ("labels", "truth.csv", "skills.csv"), "_new"
# What ragged ids end in: lengths, scripts and signs that a careless reader, hash or CSV writer gets wrong.
ENDINGS = ("", "-x", " and a blank", "-ü", "-日本語", "-🙂", ',"comma, quote"', "-a longer ending than all the others")
_EPILOG = """\
examples:
  crowdbeam simulate --output crowd
  crowdbeam simulate --output crowd --tasks 100000 --classes 4 \\
      --skills hammer-spammer:0.3 --activity 1 --format csv

written: DIR/labels/part-*.FORMAT (task, worker, label), DIR/truth.csv (task, label)
and DIR/skills.csv (worker, skill).
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam simulate",
        usage="crowdbeam simulate --output DIR [options]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    _add_crowd_options(parser)
    _add_output_options(parser)
    return parser


def _add_crowd_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("crowd").add_argument
    _add_whole(add, "--tasks", 10_000, "how many tasks (default: %(default)s)")
    _add_whole(add, "--workers", 200, "how many workers (default: %(default)s)")
    _add_whole(add, "--labels-per-task", None, "how many labels a task gets (default: 5, or what the graph asks for)")
    _add_whole(add, "--classes", 2, "how many classes (default: %(default)s)")
    skills = "uniform:LOW,HIGH, grid:LOW,HIGH, beta:A,B (of the accuracy), hammer-spammer:SHARE or fixed:SKILL"
    add(
        "--skills", metavar="SPEC", default="beta:5,1", help=f"how skilled workers are: {skills} (default: %(default)s)"
    )
    graph = "random, clique, ring[:WINDOW], star, bipartite or communities[:NUMBER]"
    add("--graph", metavar="NAME", default="random", help=f"who meets whom: {graph} (default: %(default)s)")
    add("--class-prior", metavar="P,P,...", default="", help="how frequent each class is (default: all alike)")
    activity = "how unevenly workers work: 0 all alike, 1 by Zipf's law (default: %(default)g)"
    add("--activity", metavar="A", type=number("--activity"), default=0.0, help=activity)
    _add_whole(add, "--seed", 0, "the seed of chance (default: %(default)s)")


def _add_output_options(parser: CommandParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--output", type=local, metavar="DIR", required=True, help="the folder to write to")
    add("--overwrite", action="store_true", help="replace the crowd in --output (default: refuse a folder with files)")
    _add_whole(add, "--files", 4, "how many files of labels (default: %(default)s)")
    kinds = f"the format of the labels: {', '.join(FORMATS)} (default: %(default)s)"
    add("--format", metavar="FORMAT", default="parquet", help=kinds)
    add("--ragged-ids", action="store_true", help="ids of any length, with blanks and quotes (default: like t000123)")


def _add_whole(add: Any, name: str, default: int | None, text: str) -> None:
    add(name, metavar="N", type=whole_number(name), default=default, help=text)


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Draws the crowd, writes it, and says what is where."""
    _check(args)
    import numpy as np

    rng = np.random.default_rng(args.seed)
    crowd = _draw(args, rng)
    folder, order = Path(args.output), rng.permutation(len(crowd.task))
    _make_room(folder, args.overwrite)
    _write_all(crowd, order, folder, args)
    right = float(np.mean(crowd.label == crowd.truth[crowd.task]))
    show_blocks(
        [
            Facts(
                f"A crowd in {args.output}",
                (
                    ("labels", f"{len(crowd.label):,}"),
                    ("tasks", f"{crowd.n_tasks:,}"),
                    ("workers", f"{crowd.n_workers:,}"),
                    ("classes", f"{crowd.n_classes:,}"),
                    ("labels that are right", f"{100 * right:.1f} %"),
                ),
            ),
            Notes("Try", (f"crowdbeam aggregate {folder / 'labels'} --output run",)),
        ]
    )
    return 0


def _draw(args: Namespace, rng: Any) -> "Crowd":
    from crowdcore.simulate import simulate_crowd

    try:
        return simulate_crowd(
            n_tasks=args.tasks,
            n_workers=args.workers,
            labels_per_task=args.labels_per_task,
            n_classes=args.classes,
            skills=args.skills,
            class_prior=parse_prior(args.class_prior, args.classes),
            graph=args.graph,
            activity=args.activity,
            rng=rng,
        )
    except CrowdcoreError as error:
        raise InvalidSettingError(f"There is no such crowd: {error}.") from error


def parse_prior(text: str, n_classes: int) -> list[float] | None:
    """Reads ``.2,.8``: a frequency for each class.

    >>> parse_prior(".2,.8", 2)
    [0.2, 0.8]
    """
    if not text.strip():
        return None
    read = number("--class-prior")
    prior = [read(part) for part in text.split(",")]
    if len(prior) != n_classes or abs(sum(prior) - 1) > 1e-6 or min(prior) < 0:
        raise InvalidSettingError(f"--class-prior is {text!r}; it takes {n_classes} frequencies that add up to 1.")
    return prior


def _check(args: Namespace) -> None:
    for option, low in (("tasks", 1), ("workers", 1), ("files", 1), ("seed", 0), ("classes", 2)):
        if getattr(args, option) < low:
            raise InvalidSettingError(f"--{option} is {getattr(args, option)}; it takes a number of at least {low}.")
    if args.format not in FORMATS:
        raise InvalidSettingError(f"--format is {args.format!r}; it takes {', '.join(FORMATS)}.")
    if "://" in args.output:
        raise InvalidSettingError(f"--output is {args.output}; simulate writes to a folder of this machine.")


def _make_room(folder: Path, overwrite: bool) -> None:
    try:
        there = [path for path in folder.iterdir() if path.name != _ASIDE] if folder.is_dir() else []
        if there and not overwrite:
            raise InvalidSettingError(
                f"--output {folder} holds files. Give another folder, or --overwrite to replace a crowd in it."
            )
        if foreign := _foreign(folder):
            raise InvalidSettingError(
                f"--output {folder} holds {foreign!r}, which is no part of a crowd. Give an empty or a new folder."
            )
        shutil.rmtree(folder / _ASIDE, ignore_errors=True)
        (folder / _ASIDE / "labels").mkdir(parents=True)
    except OSError as error:
        raise InvalidSettingError(f"--output {folder} cannot be used: {error.strerror}.") from error


def _foreign(folder: Path) -> str:
    """The first thing in a folder that `simulate` did not write; hidden files do not count."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    strange = [name for name in names if name not in (*_PARTS, _ASIDE) and not name.startswith(".")]
    labels = folder / "labels"
    inside = sorted(path.name for path in labels.iterdir()) if labels.is_dir() else []
    strange += [f"labels/{name}" for name in inside if not name.startswith(("part-", "."))]
    return strange[0] if strange else ""


def _write_all(crowd: "Crowd", order: Any, folder: Path, args: Namespace) -> None:
    """Writes the crowd aside and then puts it in place: what is broken off leaves what was there before."""
    aside = folder / _ASIDE
    try:
        _write(crowd, order, aside, args)
        _exchange(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # it holds a crowd
            folder.rmdir()


def _exchange(aside: Path, folder: Path) -> None:
    """Puts the crowd that lies `aside` in its place."""
    (aside / "old").mkdir()
    moves = [(folder / name, aside / "old" / name) for name in _PARTS if (folder / name).exists()]
    moves += [(aside / name, folder / name) for name in _PARTS]
    done: list[tuple[Path, Path]] = []
    try:
        for source, place in moves:
            source.rename(place)
            done.append((source, place))
    except BaseException:
        for source, place in reversed(done):
            place.rename(source)
        raise


def _write(crowd: "Crowd", order: Any, folder: Path, args: Namespace) -> None:
    import numpy as np
    import polars as pl

    tasks, workers, classes = (
        pl.Series(_ids(letter, n, least, args.ragged_ids and letter != "c"))
        for letter, n, least in (("t", crowd.n_tasks, 6), ("w", crowd.n_workers, 4), ("c", crowd.n_classes, 1))
    )
    for place, rows in enumerate(np.array_split(order, args.files)):
        part = pl.DataFrame(
            {
                "task": tasks[crowd.task[rows]],
                "worker": workers[crowd.worker[rows]],
                "label": classes[crowd.label[rows]],
            }
        )
        _WRITERS[args.format](part, folder / "labels" / f"part-{place:05d}.{args.format}")
    pl.DataFrame({"task": tasks, "label": classes[crowd.truth]}).write_csv(folder / "truth.csv")
    pl.DataFrame({"worker": workers, "skill": crowd.skills}).write_csv(folder / "skills.csv")


def _ids(letter: str, n: int, least: int, ragged: bool) -> list[str]:
    """(n,) ids that sort by number, or ragged ones."""
    if ragged:
        return [f"{letter}{place}{ENDINGS[place % len(ENDINGS)]}" for place in range(n)]
    digits = max(least, len(str(n - 1)))
    return [f"{letter}{place:0{digits}d}" for place in range(n)]


_WRITERS: dict[str, Callable[[Any, Path], object]] = {
    "parquet": lambda part, path: part.write_parquet(path),
    "avro": lambda part, path: part.write_avro(path, compression="deflate", name="Label"),
    "csv": lambda part, path: part.write_csv(path),
    "jsonl": lambda part, path: part.write_ndjson(path),
}
