"""What a stream is told: checked before anything runs."""

from dataclasses import dataclass, field, replace
from itertools import combinations

from pipelines.addresses import absolute
from pipelines.errors import InvalidSettingError
from pipelines.events import EventSettings
from pipelines.settings import LATE_RULES, AggregateSettings
from pipelines.sources.unbounded import refuse_start
from pipelines.streaming.places import feeds, is_same, reads_control, shown

_MOST_SHARDS = 1024


@dataclass(frozen=True)
class StreamSettings:
    """One run of `crowdbeam stream`.

    Attributes:
        source: where events come from: kafka://HOST:PORT/TOPIC, pubsub://PROJECT/SUBSCRIPTION, a folder or a glob.
        sinks: where rows go: kafka://HOST:PORT/PREFIX, postgres://USER@HOST/DATABASE, or a folder.
        control: the folder of requests and status; all workers must reach it.
        rejects: where rejects go; empty: to all sinks.
        bootstrap: a finished run, a snapshot or a ledger to begin with; empty: none.
        aggregate: how labels become skills and answers.
        events: what the events look like.
        group: the Kafka group whose offsets are committed.
        start_from: where a stream that has not read yet begins in Kafka: "earliest" or "latest".
        properties: a file with settings of the Kafka client.
        readers: how many readers share the partitions.
        shards: how many parts the tasks are split into; it cannot change while a stream lives.
        block: how many events are read at once.
        task_ttl_s: how long after its last label a task closes, in event time; 0: never.
        late: what becomes of labels for closed tasks.
        solve_every_s: how long between two solutions while labels arrive.
        settle_after_s: how long without a label until the skills are solved from scratch, as the batch does.
        emit_if: rows are given again when a probability or a skill changes by more than this.
        file_every_s: how often a folder gets new files.
        prior_skills: an earlier run, or a file with the columns worker and skill.
    """

    source: str
    sinks: tuple[str, ...]
    control: str
    rejects: str = ""
    bootstrap: str = ""
    aggregate: AggregateSettings = field(default_factory=AggregateSettings)
    events: EventSettings = field(default_factory=EventSettings)
    group: str = "crowdbeam"
    start_from: str = "earliest"
    properties: str = ""
    readers: int = 2
    shards: int = 8
    block: int = 50_000
    task_ttl_s: float = 0.0
    late: str = "reject"
    solve_every_s: float = 2.0
    settle_after_s: float = 5.0
    emit_if: float = 0.01
    file_every_s: float = 60.0
    prior_skills: str = ""

    def __post_init__(self) -> None:
        if not self.sinks:
            raise InvalidSettingError("There is no --sink; give a folder, kafka://HOST:PORT/PREFIX or postgres://...")
        if len(set(self.sinks)) != len(self.sinks):
            raise InvalidSettingError("--sink names a sink twice; name each once.")
        self._check_places()
        if self.late not in LATE_RULES:
            raise InvalidSettingError(f"--late is {self.late!r}; it takes {', '.join(LATE_RULES)}.")
        refuse_start(self.start_from)
        if not self.group.strip():
            raise InvalidSettingError("--group is empty; give a name, or leave it out.")
        if self.aggregate.repeats != "last":
            raise InvalidSettingError("A stream takes a worker's latest label on a task; --repeats is for batches.")
        if self.aggregate.method != "pgd":
            raise InvalidSettingError(f"A stream answers by pgd; --method {self.aggregate.method} is for batches.")
        for name, value, low, high in (
            ("readers", self.readers, 1, 1024),
            ("shards", self.shards, 1, _MOST_SHARDS),
            ("block", self.block, 1, 1_000_000),
            ("task-ttl", self.task_ttl_s, 0, 1e10),
            ("solve-every", self.solve_every_s, 0.1, 86_400),
            ("settle-after", self.settle_after_s, 0.1, 86_400),
            ("emit-if", self.emit_if, 0, 1),
            ("file-every", self.file_every_s, 0.1, 86_400),
        ):
            if not low <= value <= high:
                raise InvalidSettingError(f"--{name} is {value:g}; it takes a number from {low:g} to {high:g}.")

    def absolute(self) -> "StreamSettings":
        """The same for workers, which may run in another folder: paths are absolute."""
        return replace(
            self,
            source=absolute(self.source),
            sinks=tuple(map(absolute, self.sinks)),
            control=absolute(self.control),
            rejects=absolute(self.rejects),
            bootstrap=absolute(self.bootstrap),
            properties=absolute(self.properties),
            prior_skills=absolute(self.prior_skills),
        )

    def _check_places(self) -> None:
        """Refuses a stream that would read what it writes, or write two things to one folder."""
        sinks = [sink for sink in (*self.sinks, self.rejects) if sink]
        for sink in sinks:
            if feeds(sink, self.source):
                raise InvalidSettingError(
                    f"--source {shown(self.source)} would read what is written to {shown(sink)}; give another."
                )
            if is_same(sink, self.control):
                raise InvalidSettingError(f"--control {self.control} is a sink too; give it a folder of its own.")
        if any(is_same(one, other) for one, other in combinations(sinks, 2)):
            raise InvalidSettingError("Two of --sink and --rejects are one folder; give each one of its own.")
        if reads_control(self.source, self.control):
            raise InvalidSettingError(
                f"--source {self.source} would read what is in --control {self.control}; give it a folder of its own."
            )
