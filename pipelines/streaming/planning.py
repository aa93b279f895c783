"""Planning a stream: from what a user tells to all that `build` needs to know."""

import json
from dataclasses import asdict
from typing import Any

from pipelines.prior import read_prior_skills
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.intervals import WriteIntervals
from pipelines.sinks.targets import sink_of
from pipelines.sinks.write import WriteRows
from pipelines.sources.source_addresses import source_of
from pipelines.stream import StreamPlan
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.bootstrap import prepare
from pipelines.streaming.control import Control
from pipelines.streaming.places import kinds_of
from pipelines.streaming.settings import StreamSettings
from pipelines.streaming.skill_keeping import SkillRules
from pipelines.streaming.tracking import TrackRules

_US = 1_000_000


def check_addresses(settings: StreamSettings) -> None:
    """Raises an error when the source is not there, or a sink's address cannot be read; nothing is made."""
    for text in filter(None, (*settings.sinks, settings.rejects)):
        sink_of(text)
    source_of(settings).check()


def plan_of(settings: StreamSettings) -> StreamPlan:
    """All that the stream needs to know; the control folder and the sinks are made where they are missing."""
    source = source_of(settings)
    prior = read_prior_skills(settings.prior_skills)
    control = Control(settings.control)
    sinks = tuple(_sink(f"Sink{number}", text, settings) for number, text in enumerate(settings.sinks))
    rejects = _sink("Rejects", settings.rejects, settings) if settings.rejects else None
    begun = settings.bootstrap and prepare(settings.bootstrap, control, settings.shards, settings.events.time_unit)
    control.clear()
    control.describe(described(settings))
    return StreamPlan(
        source,
        sinks,
        control,
        rejects,
        settings.shards,
        TrackRules(source.n_readers, int(settings.task_ttl_s * _US), settings.late),
        SkillRules(
            settings.aggregate,
            settings.solve_every_s,
            settings.settle_after_s,
            emit_if=settings.emit_if,
            prior_skills=prior,
        ),
        AnswerRules(settings.aggregate, settings.emit_if),
        settings.block,
        begun,
        kinds_of(settings.source, settings.sinks),
    )


def _sink(name: str, text: str, settings: StreamSettings) -> tuple[str, Any]:
    target = sink_of(text)
    target.check()
    if isinstance(target, IntervalFolder):
        return name, WriteIntervals(target.path, settings.file_every_s)
    return name, WriteRows(target)


def described(settings: StreamSettings) -> dict[str, Any]:
    """What a later command must know of the stream."""
    known: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return known
