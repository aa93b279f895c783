"""The work of a night: the next version of a ledger, and the run that tells what has changed."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from crowdcore.edges import EdgeCounts
from pipelines.blocks import NO_TIME
from pipelines.gates import check_gates, facts_of, skill_drift
from pipelines.input_care import unchanged
from pipelines.inputs import InputFile, InputPlan
from pipelines.ledger.closing import as_fields, closed_by_night
from pipelines.ledger.counts_file import KeptCounts, changed_edges
from pipelines.ledger.known_inputs import inputs_file, known_as
from pipelines.ledger.night import (
    ChangedShard,
    OpenLedger,
    ReadNight,
    lost_answers,
    newest_time,
    read_night,
    score_state,
    solve_night,
    states_after,
    track_night,
)
from pipelines.ledger.night_run import RunWriter, write_model, write_scores
from pipelines.ledger.night_settings import NightSettings
from pipelines.ledger.segments import kept_segment, pack_state
from pipelines.ledger.task_state import TaskState
from pipelines.ledger.tracking import NightRules
from pipelines.ledger.verdicts import verdicts_in
from pipelines.ledger.version import FORMAT_VERSION, PRIOR, KeptSegment, Version, name_of, run_id_of
from pipelines.manifest import Clock
from pipelines.prior import read_prior_inputs
from pipelines.run_tables import read_table
from pipelines.sinks.loads import AFTER, LEDGER, VERSION, WHOLE
from pipelines.solving import Solved

_TOLD = ("time_unit", "task_ttl_us", "rescore", "warm_start", "keep", "lineage")
_TELLING = ("time_unit", "task_ttl_us", "rescore", "warm_start")
_LABELS_PER_SHARD, _MOST_SHARDS, _FEWEST_SHARDS = 1_280_000, 4096, 4


@dataclass
class NightWork:
    """One night's work on a ledger.

    Attributes:
        settings: what was asked for.
        ledger: as it is before the night.
        plan: the inputs that are new.
        checksums: of those.
        loaded: the last version of the ledger that a warehouse holds. It is later than the ledger's own when the ledger
            was restored from a copy: the night then gets a later number, and gives everything anew.
    """

    settings: NightSettings
    ledger: OpenLedger
    plan: InputPlan
    checksums: Mapping[InputFile, str]
    loaded: int = 0

    def run(self, clock: Clock, inputs: Mapping[str, int]) -> tuple[Version, dict[str, Any]]:
        """Does the night's work; nobody sees it before the version is published."""
        settings, last = self.settings, self.ledger.version
        closed_before = last.closed_before_us if last else NO_TIME
        classes, may_reject = settings.aggregate.classes, closed_before != NO_TIME
        with unchanged(self.plan.files):
            read = read_night(self.plan.parts, classes, settings.time_unit, self._shards, may_reject)
        clock.lap("read")
        shards, change = track_night(self.ledger, read, NightRules(closed_before, clock.started_at_us))
        clock.lap("count agreements")
        prior, prior_inputs = read_prior_inputs(settings.batch.prior_skills)
        solved = solve_night(self.ledger.counts(), change, settings.aggregate, prior, settings.warm_start)
        clock.lap("solve")
        writer = RunWriter(self.ledger.folder.at("runs", name_of(self._number)), settings.batch.output_format)
        clock_us = max(newest_time(shards), last.clock_us if last else NO_TIME)
        closings = closed_by_night(last, settings.task_ttl_us, clock_us)
        closing = max(closings.values(), default=closed_before)
        closed = self._write_run(writer, read, shards, change, solved, (closed_before, closing))
        clock.lap("score")
        version = self._version(shards, solved, inputs, prior)
        version = replace(version, clock_us=clock_us, closed=closed, **as_fields(closings, version.settings))
        manifest = self._manifest(writer, solved, version, prior_inputs, clock)
        return replace(version, counts=manifest["counts"]), manifest

    @property
    def _number(self) -> int:
        return max(self.ledger.version.number, self.loaded) + 1 if self.ledger.version else 1

    @property
    def _shards(self) -> int:
        if self.ledger.version:
            return self.ledger.version.shards
        by_size = -(-self.plan.n_labels // _LABELS_PER_SHARD)
        return self.settings.shards or min(_MOST_SHARDS, max(_FEWEST_SHARDS, by_size))

    @property
    def _is_whole(self) -> bool:
        last = self.ledger.version
        return self.settings.rescore == "all" or last is None or self.loaded > last.number

    def _write_run(
        self,
        writer: RunWriter,
        read: ReadNight,
        shards: Sequence[ChangedShard],
        change: EdgeCounts,
        solved: Solved,
        span: tuple[int, int],
    ) -> dict[str, int]:
        """Writes the tables; returns the verdicts on closed tasks."""
        writer.counts.update(read.counts)
        for one in shards:
            writer.counts.update(one.tracked.counts)
        closed = Counter(self.ledger.version.closed if self.ledger.version else {})
        write_scores(writer, self._scored(shards, solved, span, closed))
        write_model(writer, solved, solved.edges if self._is_whole else changed_edges(change, solved.edges))
        late = [one.tracked.rejects for one in shards if one.tracked.rejects is not None]
        writer.write("rejects", [*read.rejects, *late])
        writer.counts["ledger_bytes_read"] = self.ledger.bytes_read
        writer.counts["tasks_closed"] = sum(closed.values())
        return dict(closed)

    def _scored(
        self, shards: Sequence[ChangedShard], solved: Solved, span: tuple[int, int], closed: Counter[str]
    ) -> Iterator[tuple[pa.Table, Counter[str]]]:
        """The answers to give, and beside them the verdicts on tasks that close now."""
        changed = {one.number: one for one in shards}
        aggregate = self.settings.aggregate
        for number in range(self._shards):
            here = changed.get(number)
            new = here.tracked.after if here else TaskState.none()
            leaving = self.ledger.closing(number, *span, new) if span[1] != span[0] else TaskState.none()
            for state in (leaving, new.chosen(new.latest < span[1])):  # none of the night's was closed before it
                if len(state):
                    closed.update(verdicts_in(score_state(number, state, solved.model, aggregate)[0]))
            if self._is_whole:
                states = [states_after(self.ledger, number, here)]
            else:
                states = [new, leaving]
                if here:
                    lost = lost_answers(here.tracked, solved.model)
                    yield lost, Counter(scores=len(lost), tasks=len(lost))
            for state in states:
                if len(state):
                    yield score_state(number, state, solved.model, aggregate)

    def _version(
        self, shards: Sequence[ChangedShard], solved: Solved, inputs: Mapping[str, int], prior: Mapping[str, float]
    ) -> Version:
        folder, number, last = self.ledger.folder, self._number, self.ledger.version
        name = name_of(number)
        pairs, workers = KeptCounts(solved.edges, solved.fit.skills).to_files()
        kept = self._kept_settings(prior)
        together = {**inputs, **{known_as(*one): number for one in self.checksums.items()}}
        ledger = last.ledger if last else folder.new_id()
        return Version(
            FORMAT_VERSION,
            ledger,
            number,
            last.number if last else 0,
            "night",
            run_id_of(ledger, number, self._made_of(kept)),
            time.time_ns() // 1000,
            self._shards,
            tuple(self._segments(shards)),
            folder.write(f"edges/{name}.frame", pairs),
            folder.write(f"workers/{name}.parquet", workers),
            folder.write(f"inputs/{name}.parquet", inputs_file(together)),
            sum(len(one.tracked.after) - len(one.tracked.before) for one in shards) + (last.n_tasks if last else 0),
            solved.edges.class_counts,
            solved.edges.n_sampled,
            whole=self._is_whole,
            run=f"runs/{name}",
            settings=kept,
        )

    def _made_of(self, kept: Mapping[str, str]) -> list[str]:
        """What tells the night's run from others of its number: what was before, the inputs, the settings."""
        last, settings = self.ledger.version, {key: getattr(self.settings, key) for key in _TELLING}
        before = [last.run_id] if last else []
        return [*before, *sorted(self.checksums.values()), json.dumps(settings | dict(kept))]

    def _runs_before(self) -> Iterator[str]:
        """The run of the version before, and, if that is a compaction, those of what was compacted, as far as known."""
        last = self.ledger.version
        for version in self.ledger.folder.ancestors(last) if last else ():
            yield version.run_id
            if version.kind != "compact":
                return

    def _kept_settings(self, prior: Mapping[str, float]) -> dict[str, str]:
        """What other commands need to solve and score as this night did."""
        batch = self.settings.batch
        kept = {"prior_skills": os.path.abspath(batch.prior_skills) if batch.prior_skills else ""}
        kept |= {"aggregate": json.dumps(asdict(batch.aggregate), ensure_ascii=False)}
        return kept | {PRIOR: json.dumps(prior, ensure_ascii=False), "output_format": batch.output_format}

    def _segments(self, shards: Sequence[ChangedShard]) -> Iterator[KeptSegment]:
        changed = {one.number: one for one in shards}
        for number in range(self._shards):
            here = changed.get(number)
            merged = 0
            if here and len(here.state):
                merged = here.merged
                path = f"labels/{name_of(self._number)}/{number:05d}.frame"
                yield kept_segment(number, self.ledger.folder.write(path, pack_state(here.state)), here.state)
            if self.ledger.version:
                yield from self.ledger.version.of_shard(number)[merged:]

    def _manifest(
        self,
        writer: RunWriter,
        solved: Solved,
        version: Version,
        prior_inputs: Sequence[tuple[InputFile, str]],
        clock: Clock,
    ) -> dict[str, Any]:
        settings = self.settings
        others: dict[str, Any] = {key: getattr(settings, key) for key in _TOLD}
        others |= {"ledger": os.path.abspath(settings.ledger), LEDGER: version.ledger, VERSION: version.number}
        others |= {WHOLE: version.whole, AFTER: list(self._runs_before()), "shards": version.shards}
        others |= {"output": list(settings.outputs), "fail_if": [str(gate) for gate in settings.gates]}
        inputs = [*self.checksums.items(), *prior_inputs]
        manifest = writer.finish(settings.batch, others, inputs, clock, solved.account(), version.run_id)
        facts = facts_of(
            manifest["counts"], new_labels=writer.counts["labels_changed"], skill_drift=self._drift(solved)
        )
        manifest["gates"] = [asdict(one) for one in check_gates(settings.gates, facts)]
        writer.put_manifest(manifest)
        return manifest

    def _drift(self, solved: Solved) -> float | None:
        """How much a skill has changed since the last run; a compaction and a rollback have that of their parent.

        None where nobody asks, and where there is no earlier run, or no way to it that can be read.
        """
        last, folder = self.ledger.version, self.ledger.folder
        if last is None or not any(gate.name == "skill-drift" for gate in self.settings.gates):
            return None
        run = next((one.run for one in folder.ancestors(last) if one.run), "")
        return skill_drift(read_table(folder.at(run), "skills"), solved.skill_table()) if run else None
