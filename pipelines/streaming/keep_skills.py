"""The stage that keeps the skills: changes of all shards in; models, rows of skills and the graph's verdict out."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer

from pipelines.sinks import DRAINED, RECEIPT
from pipelines.streaming.control import Control, spared
from pipelines.streaming.desk import Cut, Desk, status_of
from pipelines.streaming.envelopes import (
    CHANGES,
    DRAIN,
    MARKER,
    Change,
    Marker,
    join,
    pack_marker,
    pack_skills,
    unpack_marker,
    unpack_shard_change,
)
from pipelines.streaming.envelopes import split as split_envelopes
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.rhythm import SNAPSHOT_S
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules, Solution, solver_pool
from pipelines.streaming.state_files import LEDGER, write_frame
from pipelines.streaming.timers import set_timer
from pipelines.tables import to_bytes

_SOON_S, _LATER_S = 0.1, 0.5
_TELL_EVERY_S = 1.0


@dataclass
class KeepSkills(beam.PTransform):
    """Keeps the skills current.

    Input: pairs of one key and joined envelopes. Output: "models", pairs of a shard and an envelope; "rows", pairs of a
    table's name and a table.
    """

    rules: SkillRules
    shards: int
    control: Control
    job: str

    def expand(self, changes: beam.PCollection[tuple[str, bytes]]) -> Any:
        """Wires the step."""
        return changes | "Keep" >> beam.ParDo(_KeepSkillsFn(self)).with_outputs("models", "rows")


class _KeepSkillsFn(beam.DoFn):
    TIMER = TimerSpec("solve", TimeDomain.REAL_TIME)

    def __init__(self, how: KeepSkills) -> None:
        self._rules, self._shards, self._control, self._job = how.rules, how.shards, how.control, how.job
        self._solve_ms = Metrics.distribution("crowdbeam", "solve_ms")
        self._version = Metrics.gauge("crowdbeam", "model_version")

    def setup(self) -> None:
        self._pool: ThreadPoolExecutor = solver_pool()

    def teardown(self) -> None:
        self._pool.shutdown(wait=False)

    def process(
        self,
        element: tuple[str, bytes],
        cell: Any = beam.DoFn.StateParam(CELL),
        bag: Any = beam.DoFn.StateParam(BAG),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        now = time.time()
        kept = self._open(cell, bag)
        changes = []
        for envelope in split_envelopes(element[1]):
            if envelope[:1] == CHANGES:
                change = unpack_shard_change(envelope)
                changes.append(change.frame)
                self._add(kept.value, change, now)
            elif envelope[:1] == MARKER:
                self._asked(kept.value, unpack_marker(envelope))
            else:
                kept.value.hear(json.loads(envelope[1:]))
        self._look(kept.value)
        armed = kept.note.get("armed", False)
        kept.note["armed"] = True
        self._keep(kept, join(changes) if changes else None)
        if not armed:
            set_timer(timer, now)

    @on_timer(TIMER)
    def tick(
        self,
        key: str = beam.DoFn.KeyParam,
        cell: Any = beam.DoFn.StateParam(CELL),
        bag: Any = beam.DoFn.StateParam(BAG),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[Any]:
        now = time.time()
        kept = self._open(cell, bag)
        desk, keeper = kept.value, kept.value.keeper
        solution = keeper.finished(now, self._pool.submit)
        if solution is not None:
            desk.last = solution
            desk.model_events = desk.model_events if solution.skills is None else solution.skills.n_events
            yield from self._out(solution, kept)
        at_once = desk.draining is not None or desk.has_caught_up(now)
        if keeper.due(now, at_once, desk.behind):
            keeper.begin(now, self._pool.submit, settled=at_once, sent=dict(desk.sent))
            desk.behind &= not at_once
        if desk.draining is not None and keeper.is_settled:
            yield from self._drained(kept, desk.draining)
            desk.draining = None
        quiet = keeper.is_settled and not keeper.busy
        if quiet or now - desk.told_at > _TELL_EVERY_S:
            desk.told_at = now
            self._control.tell(status_of(desk))
        if quiet:
            kept.note["armed"] = False
        else:
            set_timer(timer, now + (_SOON_S if keeper.busy or desk.draining or desk.behind else _LATER_S))
        if solution is not None or quiet:
            self._keep(kept, None)
        else:
            kept.put_back()

    def _open(self, cell: Any, bag: Any) -> Kept[Desk]:
        return Kept((self._job, "skills", ""), cell, bag, self._made)

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> Desk:
        keeper = SkillKeeper(self._rules)
        for frame in frames:
            for change in split_envelopes(frame):
                keeper.add(change, time.time())
        keeper.version, keeper.revision = note.get("version", 0), note.get("revision", 0)
        return Desk(keeper, note)

    def _keep(self, kept: Kept[Desk], frame: bytes | None) -> None:
        kept.note.update(kept.value.note())
        kept.keep(frame, lambda: join([kept.value.keeper.ledger.to_bytes()]))

    def _add(self, desk: Desk, change: Change, now: float) -> None:
        shard, before = str(change.shard), desk.keeper.ledger.n_events
        desk.keeper.add(change.frame, now)
        desk.received[shard] += desk.keeper.ledger.n_events - before
        desk.sent[shard] = max(change.sent, desk.sent.get(shard, 0))
        desk.took(change, now)

    def _asked(self, desk: Desk, marker: Marker) -> None:
        shard = str(marker.sender)
        desk.sent[shard] = max(marker.sent, desk.sent.get(shard, 0))
        if marker.kind == DRAIN:
            desk.drains.setdefault(marker.id, {})[shard] = marker.events
        else:
            desk.cut_of(marker, time.time()).events[shard] = marker.events

    def _look(self, desk: Desk) -> None:
        """Does what is asked for as soon as all shards have asked, and all that they sent before is here."""
        for request, events in list(desk.drains.items()):
            if len(events) == self._shards and all(desk.received[shard] >= n for shard, n in events.items()):
                del desk.drains[request]
                desk.draining = Marker(DRAIN, request)
        for request, cut in list(desk.snapshots.items()):
            whole = len(cut.events) == self._shards and self._is_cut(desk, cut)
            if whole or time.time() - cut.begun_s > SNAPSHOT_S:  # by then nobody waits for it
                del desk.snapshots[request]

    def _is_cut(self, desk: Desk, cut: Cut) -> bool:
        """Writes the counts as they were at the cut, if everything before it is here."""
        behind, here = Ledger(), Counter(desk.received)
        for change in cut.meanwhile:
            if change.events > cut.events.get(str(change.shard), change.events):
                before = behind.n_events
                behind.add(change.frame)
                here[str(change.shard)] -= behind.n_events - before
        if any(here[shard] != n for shard, n in cut.events.items()):
            return False
        ledger = Ledger()
        ledger.add(desk.keeper.ledger.to_bytes())
        ledger.add(behind.to_bytes(), -1)
        with spared(f"A snapshot cannot be written to {cut.marker.folder}"):
            write_frame(FileSystems.join(cut.marker.folder, LEDGER), ledger.to_bytes())
        return True

    def _drained(self, kept: Kept[Desk], marker: Marker) -> Iterator[Any]:
        """Tells the boards, and the sinks, that nothing more follows."""
        version, desk = kept.value.keeper.version, kept.value
        for shard in range(self._shards):
            asked = replace(marker, version=version, sent=desk.sent.get(str(shard), 0))
            yield beam.pvalue.TaggedOutput("models", (shard, pack_marker(asked)))
        done = replace(marker, sender=self._shards, sent=kept.note.get("blocks", 0))
        yield beam.pvalue.TaggedOutput("rows", (DRAINED, pack_marker(done)))

    def _out(self, solution: Solution, kept: Kept[Desk]) -> Iterator[Any]:
        tag = beam.pvalue.TaggedOutput
        self._solve_ms.update(int(solution.seconds * 1000))
        if solution.skills is not None:
            self._version.set(solution.skills.version)
            for shard in range(self._shards):
                envelope = pack_skills(replace(solution.skills, sent=solution.sent.get(str(shard), 0)))
                yield tag("models", (shard, envelope))
        for name, table in (("skills", solution.rows), ("graph", solution.graph)):
            if table is not None:
                kept.note["blocks"] = kept.note.get("blocks", 0) + 1
                yield tag("rows", (name, to_bytes(table.replace_schema_metadata({RECEIPT: str(self._shards)}))))
