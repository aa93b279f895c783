"""The stream: events of a source that never ends in; skills and answers that stay current out."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam

from pipelines.sinks import DRAINED, KEYS
from pipelines.sources.unbounded import Source
from pipelines.streaming.answer import AnswerTasks
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import pack_marker, unpack_marker
from pipelines.streaming.keep_skills import KeepSkills
from pipelines.streaming.note_written import NoteWritten
from pipelines.streaming.poll import PollSource
from pipelines.streaming.skill_keeping import SkillRules
from pipelines.streaming.track import GatherChanges, TrackTasks
from pipelines.streaming.tracking import TrackRules


@dataclass(frozen=True)
class StreamPlan:
    """All that `build` needs to know.

    Attributes:
        source: where the events come from.
        sinks: transforms that write pairs of a table's name and a table, by step name.
        control: the folder of requests and status.
        rejects: a sink for rejects alone; None: they go to all sinks.
        shards: how many parts the tasks are split into; it cannot change while a stream lives.
        track, skills, answers: the rules of the stages.
        max_events: how many events make a block.
        bootstrap: a folder with an earlier state; empty: none.
        kinds: of the "source" and of the "sinks", in their order: a state can be gone on from only with the same.
        job: sets this submission apart from others in one worker process.
    """

    source: Source
    sinks: tuple[tuple[str, Any], ...]
    control: Control
    rejects: tuple[str, Any] | None = None
    shards: int = 8
    track: TrackRules = field(default_factory=TrackRules)
    skills: SkillRules = field(default_factory=SkillRules)
    answers: AnswerRules = field(default_factory=AnswerRules)
    max_events: int = 50_000
    bootstrap: str = ""
    kinds: Mapping[str, Any] = field(default_factory=dict)
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def job_name(self) -> str:
        """What the job is called where nobody gives it a name."""
        return f"crowdbeam-{self.job[:12]}"


def build(pipeline: beam.Pipeline, plan: StreamPlan) -> None:
    """The road: poll, track, keep skills, answer, write. Every state is keyed, and there is no side input."""
    polled = pipeline | "PollSource" >> PollSource(
        plan.source, plan.shards, plan.control, plan.max_events,
        bootstrap=plan.bootstrap, task_ttl_us=plan.track.task_ttl_us, kinds=plan.kinds, job=plan.job,
    )  # fmt: skip
    events = polled["events"] | "ByShard" >> _typed(tuple[int, bytes])
    tracked = events | "TrackTasks" >> TrackTasks(plan.track, plan.job)
    changes = tracked["changes"] | "TypeChanges" >> _typed(bytes) | "GatherChanges" >> GatherChanges()
    reports = polled["reports"] | "TypeReports" >> _typed(bytes) | "GatherReports" >> GatherChanges()
    kept = (
        (changes, reports)
        | "ForSkills" >> beam.Flatten()
        | "KeepSkills" >> KeepSkills(plan.skills, plan.shards, plan.control, plan.job)
    )
    labels = tracked["labels"] | "Labels" >> _typed(tuple[int, bytes])
    models = kept["models"] | "Models" >> _typed(tuple[int, bytes])
    scores = (labels, models) | "ForAnswers" >> beam.Flatten() | "AnswerTasks" >> AnswerTasks(plan.answers, plan.job)
    rows: tuple[Any, ...] = (scores, kept["rows"] | "SkillRows" >> _typed(tuple[str, bytes]))
    rejects = (
        polled["rejects"] | "ReadRejects" >> _typed(tuple[str, bytes]),
        tracked["rejects"] | "LateRejects" >> _typed(tuple[str, bytes]),
    )
    if plan.rejects is not None:
        name, sink = plan.rejects
        asked = scores | "AskRejects" >> beam.FlatMap(_requests).with_output_types(tuple[str, bytes])
        written = (*rejects, asked) | "AllRejects" >> beam.Flatten() | name >> sink
        _ = written | f"{name}Done" >> NoteWritten(plan.control, len(plan.sinks) * (plan.shards + 1))
    else:
        rows = (*rows, *rejects)
    everything = rows | "AllRows" >> beam.Flatten()
    for number, (name, sink) in enumerate(plan.sinks):
        notices = everything | name >> sink
        _ = notices | f"{name}Done" >> NoteWritten(plan.control, number * (plan.shards + 1))


def _requests(row: tuple[str, bytes]) -> list[tuple[str, bytes]]:
    """What a sink that gets no scores must know of them: when to write, and that nothing more follows."""
    name, data = row
    if name == DRAINED:
        return [(name, pack_marker(replace(unpack_marker(data), sent=0)))]
    return [] if name in KEYS else [row]


def _typed(kind: Any) -> Any:
    """Says what a tagged output holds: Beam then knows its coder, and stateful steps their keys."""
    return beam.Map(_same).with_output_types(kind)


def _same(element: Any) -> Any:
    return element
