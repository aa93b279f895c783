"""What a night is told: checked before anything runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.errors import InvalidSettingError
from pipelines.gates import Gate
from pipelines.settings import TIME_UNITS, AggregateSettings, BatchSettings

if TYPE_CHECKING:
    from pipelines.sinks.warehouse import Warehouse

RESCORE = ("changed", "all")
DEFAULT_KEEP = 7
MOST_SHARDS = 65_535


@dataclass(frozen=True)
class NightSettings:
    """One run of `crowdbeam nightly`.

    Attributes:
        batch: the inputs and how labels become skills and answers; its output is not used.
        ledger: the folder of the ledger.
        time_unit: of times that are numbers.
        task_ttl_us: how long after its latest event a task closes, in event time; 0: never.
        rescore: "changed": answers to tasks whose labels changed are given anew, "all": all answers.
        warm_start: whether the solver begins at the skills of the last night: fewer rounds, but where the loss has
            several minima it may stay in another one than the batch.
        keep: how many versions are kept.
        shards: of a new ledger; 0: by the size of its first night.
        outputs: where what has changed is loaded to.
        gates: what must not be; else nothing is changed.
        lineage: the file of an OpenLineage event of the night; empty: none.
    """

    batch: BatchSettings
    ledger: str
    time_unit: str = "us"
    task_ttl_us: int = 0
    rescore: str = "changed"
    warm_start: bool = False
    keep: int = DEFAULT_KEEP
    shards: int = 0
    outputs: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    lineage: str = ""

    def __post_init__(self) -> None:
        if not self.ledger.strip():
            raise InvalidSettingError("--ledger is empty; give a folder.")
        if self.rescore not in RESCORE:
            raise InvalidSettingError(f"--rescore is {self.rescore!r}; it takes {', '.join(RESCORE)}.")
        if self.time_unit not in TIME_UNITS:
            raise InvalidSettingError(f"--time-unit is {self.time_unit!r}; it takes {', '.join(TIME_UNITS)}.")
        if self.aggregate.method != "pgd":
            raise InvalidSettingError(f"--method {self.aggregate.method} has no part in nightly runs; leave it out.")
        if self.task_ttl_us < 0:
            raise InvalidSettingError(f"--task-ttl is {self.task_ttl_us / 1e6:g} s; it takes 0 or more.")
        if not 0 <= self.shards <= MOST_SHARDS:
            raise InvalidSettingError(f"--shards is {self.shards}; it takes a number from 0 to {MOST_SHARDS}.")
        if self.keep < 1:
            raise InvalidSettingError(f"--keep-versions is {self.keep}; it takes a number of at least 1.")
        self.warehouses()

    def warehouses(self) -> list["Warehouse"]:
        """The outputs; raises `InvalidSettingError` when one cannot be told, or is named twice."""
        from pipelines.sinks.warehouses import warehouses_of  # help does without Arrow

        return warehouses_of(self.outputs, "--output")

    @property
    def aggregate(self) -> AggregateSettings:
        """How labels become skills and answers."""
        return self.batch.aggregate
