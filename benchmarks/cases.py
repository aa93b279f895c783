"""What is measured, and the bars: each case is some trials and what they must show."""

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import CACHE, environment
from benchmarks.data import Crowd
from benchmarks.measure import Usage

LIMIT_S = 600.0
QUICK_PART = 20

OURS, PLAIN, CROWD_KIT, SOLVER = "crowdbeam", "(a) plain numpy", "(b) crowd-kit", "solver"

Quantity = Callable[[Sequence[Usage]], float]


@dataclass(frozen=True)
class Trial:
    """One program on one set of files.

    Attributes:
        name: what the tables call it.
        program: OURS, PLAIN, CROWD_KIT or SOLVER.
        crowd: the labels; for the solver how many workers, and 50 edges for each.
        form: of the files.
    """

    name: str
    program: str
    crowd: Crowd
    form: str = "parquet"

    @property
    def output(self) -> Path:
        """The folder of its results."""
        words = "".join(letter if letter.isalnum() else " " for letter in self.name).split()
        return CACHE / "runs" / "-".join(words)

    def command(self) -> list[str]:
        """How it is started."""
        files = [str(file) for file in self.crowd.files(self.form)]
        if self.program == OURS:
            command = Path(sys.executable).parent / "crowdbeam"
            return [str(command), "aggregate", *files, "--output", str(self.output), "--overwrite"]
        if self.program == PLAIN:
            return [sys.executable, "-m", "benchmarks.plain_numpy", str(self.output), *files]
        if self.program == CROWD_KIT:
            return [str(environment.PYTHON), "-m", "benchmarks.crowd_kit", str(self.output), *files]
        return [sys.executable, "-m", "benchmarks.solver", str(self.crowd.n_workers)]


@dataclass(frozen=True)
class Bar:
    """What must hold: a quantity of `trial`, divided by that of `beside` if there is one, is at most `limit`.

    Attributes:
        text: what is compared, in words.
        quantity: of the runs of a trial.
        unit: of the limit.
    """

    text: str
    trial: Trial
    quantity: Quantity
    limit: float
    unit: str
    beside: Trial | None = None


@dataclass(frozen=True)
class Case:
    """Some trials, the bars they are measured against, and the pairs (ours, plain) whose results must agree."""

    trials: tuple[Trial, ...]
    bars: tuple[Bar, ...]
    same: tuple[tuple[Trial, Trial], ...] = ()


def wall(runs: Sequence[Usage]) -> float:
    """Median seconds from start to end."""
    return statistics.median(run.wall_s for run in runs)


def memory(runs: Sequence[Usage]) -> float:
    """Median of the peaks, 10⁶ bytes."""
    return statistics.median(run.memory_mb for run in runs)


def printed(name: str) -> Quantity:
    """Median of a number that the program prints, as JSON, in its last line."""
    return lambda runs: statistics.median(json.loads(run.output.splitlines()[-1])[name] for run in runs)


def make_cases(quick: bool) -> dict[str, Case]:
    """All cases by name; `quick` ones are a twentieth of the size."""
    part = QUICK_PART if quick else 1
    small, large = Crowd(200_000 // part, 2_000), Crowd(2_000_000 // part, 2_000)
    ring = Crowd(2_000_000 // part, 200_000 // part, window=30)
    solver = Trial("solver alone", SOLVER, Crowd(0, 100_000 // part))
    return {
        "small": _beside_both(small, most_wall=1.5, most_mb=600),
        "large": _beside_both(large, most_wall=0.7, most_mb=1_200),
        "avro": _as_avro(large),
        "many-workers": _many_workers(large, ring),
        "solver": Case((solver,), (Bar("solver alone: skills", solver, printed("fit_s"), 10.0, "s"),)),
    }


def _beside_both(crowd: Crowd, most_wall: float, most_mb: float) -> Case:
    """The three programs on Parquet; at most `most_wall` times (a)'s time and a third of (b)'s."""
    ours, plain, kit = (_on_parquet(program, crowd) for program in (OURS, PLAIN, CROWD_KIT))
    size = _size(crowd)
    bars = (
        Bar(f"{size}: wall beside (a)", ours, wall, most_wall, "×", plain),
        Bar(f"{size}: wall beside (b)", ours, wall, 1 / 3, "×", kit),
        Bar(f"{size}: peak memory", ours, memory, most_mb, "MB"),
    )
    return Case((plain, kit, ours), bars, ((ours, plain),))


def _as_avro(crowd: Crowd) -> Case:
    """Ours on Avro, without and with compression, beside (a) on Parquet."""
    plain = _on_parquet(PLAIN, crowd)
    null = Trial(f"{OURS}, {_size(crowd)}, Avro", OURS, crowd, "avro-null")
    deflate = Trial(f"{OURS}, {_size(crowd)}, Avro with deflate", OURS, crowd, "avro-deflate")
    bars = tuple(
        Bar(f"{trial.name.partition(', ')[2]}: wall beside (a) on Parquet", trial, wall, 1.0, "×", plain)
        for trial in (null, deflate)
    )
    return Case((plain, null, deflate), bars, ((null, plain), (deflate, plain)))


def _many_workers(crowd: Crowd, ring: Crowd) -> Case:
    """Ours on a crowd of many workers beside ours on one of few."""
    few = _on_parquet(OURS, crowd)
    many, plain = (_on_parquet(program, ring, ", many workers") for program in (OURS, PLAIN))
    text = f"{_size(ring)}, many workers: wall beside crowdbeam with {crowd.n_workers:,}"
    return Case((plain, few, many), (Bar(text, many, wall, 3.0, "×", few),), ((many, plain),))


def _on_parquet(program: str, crowd: Crowd, remark: str = "") -> Trial:
    return Trial(f"{program}, {_size(crowd)}{remark}", program, crowd)


def _size(crowd: Crowd) -> str:
    n = crowd.n_labels
    return f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k"
