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
    few, many = _size(small), _size(large)

    ours_small = Trial(f"crowdbeam, {few}", OURS, small)
    plain_small = Trial(f"(a) plain numpy, {few}", PLAIN, small)
    kit_small = Trial(f"(b) crowd-kit, {few}", CROWD_KIT, small)
    ours = Trial(f"crowdbeam, {many}", OURS, large)
    plain = Trial(f"(a) plain numpy, {many}", PLAIN, large)
    kit = Trial(f"(b) crowd-kit, {many}", CROWD_KIT, large)
    avro = Trial(f"crowdbeam, {many}, Avro", OURS, large, "avro-null")
    deflate = Trial(f"crowdbeam, {many}, Avro with deflate", OURS, large, "avro-deflate")
    ours_ring = Trial(f"crowdbeam, {many}, many workers", OURS, ring)
    plain_ring = Trial(f"(a) plain numpy, {many}, many workers", PLAIN, ring)
    solver = Trial("solver alone", SOLVER, Crowd(0, 100_000 // part))
    return {
        "small": Case(
            (plain_small, kit_small, ours_small),
            (
                Bar(f"{few}: wall beside (a)", ours_small, wall, 1.5, "×", plain_small),
                Bar(f"{few}: wall beside (b)", ours_small, wall, 1 / 3, "×", kit_small),
                Bar(f"{few}: peak memory", ours_small, memory, 600, "MB"),
            ),
            ((ours_small, plain_small),),
        ),
        "large": Case(
            (plain, kit, ours),
            (
                Bar(f"{many}: wall beside (a)", ours, wall, 0.7, "×", plain),
                Bar(f"{many}: wall beside (b)", ours, wall, 1 / 3, "×", kit),
                Bar(f"{many}: peak memory", ours, memory, 1_200, "MB"),
            ),
            ((ours, plain),),
        ),
        "avro": Case(
            (plain, avro, deflate),
            (
                Bar(f"{many}, Avro: wall beside (a) on Parquet", avro, wall, 1.0, "×", plain),
                Bar(f"{many}, Avro with deflate: wall beside (a) on Parquet", deflate, wall, 1.0, "×", plain),
            ),
            ((avro, plain), (deflate, plain)),
        ),
        "many-workers": Case(
            (plain_ring, ours, ours_ring),
            (Bar(f"{many}, many workers: wall beside crowdbeam with 2,000", ours_ring, wall, 3.0, "×", ours),),
            ((ours_ring, plain_ring),),
        ),
        "solver": Case((solver,), (Bar("solver alone: skills", solver, printed("fit_s"), 10.0, "s"),)),
    }


def _size(crowd: Crowd) -> str:
    n = crowd.n_labels
    return f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k"
