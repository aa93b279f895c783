"""The stage that keeps the skills: changes of all shards in; models, rows of skills and the graph's verdict out."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer

from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import (
    CHANGES,
    DRAIN,
    MARKER,
    SNAPSHOT,
    Marker,
    join,
    pack_marker,
    pack_skills,
    unpack_marker,
)
from pipelines.streaming.envelopes import split as split_envelopes
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules, Solution, solver_pool
from pipelines.streaming.timers import set_timer
from pipelines.tables import to_bytes
from pipelines.write import write_file

LEDGER = "ledger.frame"
_SOON_S, _LATER_S = 0.1, 0.5
_TELL_EVERY_S = 1.0
_SHARD = slice(1, 5)
_WORST = 5


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


class _Desk:
    """What the stage has at hand beside the ledger: requests under way, and what readers report.

    A snapshot under way is forgotten in a restart, and asked for again by whoever wanted it. A request to end is not.
    """

    def __init__(self, keeper: SkillKeeper, note: dict[str, Any]) -> None:
        self.keeper = keeper
        self.asked: dict[tuple[str, str], set[int]] = {
            (DRAIN, request): set(shards) for request, shards in note.get("drains", {}).items()
        }
        self.after: dict[tuple[str, str], list[bytes]] = {}
        self.draining: Marker | None = Marker(DRAIN, note["draining"]) if note.get("draining") else None
        self.counts: Counter[str] = Counter(note.get("counts", {}))
        self.lag: dict[str, int] = {}
        self.told_at = 0.0
        self.last: Solution | None = None

    def note(self) -> dict[str, Any]:
        """What must not be lost, beside the ledger."""
        drains = {request: sorted(shards) for (kind, request), shards in self.asked.items() if kind == DRAIN}
        draining = "" if self.draining is None else self.draining.id
        known = {"version": self.keeper.version, "revision": self.keeper.revision, "counts": dict(self.counts)}
        return {**known, "drains": drains, "draining": draining}


class _KeepSkillsFn(beam.DoFn):
    TIMER = TimerSpec("solve", TimeDomain.REAL_TIME)

    def __init__(self, how: KeepSkills) -> None:
        self._rules, self._shards, self._control, self._job = how.rules, how.shards, how.control, how.job
        self._solve_ms = Metrics.distribution("crowdbeam", "solve_ms")
        self._version = Metrics.gauge("crowdbeam", "model_version")
        self._ledger_bytes = Metrics.gauge("crowdbeam", "ledger_bytes")

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
                changes.append(envelope[_SHARD.stop :])
                self._add(kept.value, envelope, now)
            elif envelope[:1] == MARKER:
                self._asked(kept.value, unpack_marker(envelope))
            else:
                self._reported(kept.value, json.loads(envelope[1:]))
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
        solution = keeper.finished(now)
        if solution is not None:
            desk.last = solution
            yield from self._out(solution)
        if keeper.due(now, at_once=desk.draining is not None):
            keeper.begin(now, self._pool.submit, settled=desk.draining is not None)
        if desk.draining is not None and keeper.is_settled:
            for shard in range(self._shards):
                yield beam.pvalue.TaggedOutput("models", (shard, pack_marker(desk.draining)))
            desk.draining = None
        quiet = keeper.is_settled and not keeper.busy
        if quiet or now - desk.told_at > _TELL_EVERY_S:
            desk.told_at = now
            self._control.tell(_status(desk))
        if quiet:
            kept.note["armed"] = False
        else:
            set_timer(timer, now + (_SOON_S if keeper.busy or desk.draining else _LATER_S))
        if solution is not None or quiet:
            self._keep(kept, None)
        else:
            kept.put_back()

    def _open(self, cell: Any, bag: Any) -> Kept[_Desk]:
        return Kept((self._job, "skills", ""), cell, bag, self._made)

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> _Desk:
        keeper = SkillKeeper(self._rules)
        for frame in frames:
            for change in split_envelopes(frame):
                keeper.add(change, time.time())
        keeper.version, keeper.revision = note.get("version", 0), note.get("revision", 0)
        return _Desk(keeper, note)

    def _keep(self, kept: Kept[_Desk], frame: bytes | None) -> None:
        kept.note.update(kept.value.note())
        kept.keep(frame, lambda: join([kept.value.keeper.ledger.to_bytes()]))

    def _add(self, desk: _Desk, envelope: bytes, now: float) -> None:
        """Adds a change; those that come behind a shard's part of a snapshot are noted."""
        change, shard = envelope[_SHARD.stop :], int.from_bytes(envelope[_SHARD], "little")
        desk.keeper.add(change, now)
        for request, shards in desk.asked.items():
            if shard in shards:
                desk.after.setdefault(request, []).append(change)

    def _asked(self, desk: _Desk, marker: Marker) -> None:
        request = (marker.kind, marker.id)
        heard = desk.asked.setdefault(request, set())
        heard.add(marker.sender)
        if len(heard) < self._shards:
            return
        del desk.asked[request]
        after = desk.after.pop(request, [])
        if marker.kind == DRAIN:
            desk.draining = marker
        elif marker.kind == SNAPSHOT:
            ledger = Ledger()
            ledger.add(desk.keeper.ledger.to_bytes())
            for change in after:
                ledger.add(change, -1)
            frame = ledger.to_bytes()
            write_file(FileSystems.join(marker.folder, LEDGER), lambda sink: sink.write(frame))

    def _reported(self, desk: _Desk, report: dict[str, Any]) -> None:
        desk.counts.update(report["counts"])
        desk.lag.update(report["lag"])

    def _out(self, solution: Solution) -> Iterator[Any]:
        tag = beam.pvalue.TaggedOutput
        self._solve_ms.update(int(solution.seconds * 1000))
        self._version.set(solution.skills.version)
        envelope = pack_skills(solution.skills)
        for shard in range(self._shards):
            yield tag("models", (shard, envelope))
        for name, table in (("skills", solution.rows), ("graph", solution.graph)):
            if table is not None:
                yield tag("rows", (name, to_bytes(table)))


def _status(desk: _Desk) -> dict[str, Any]:
    """How the stream is, for people and machines."""
    keeper = desk.keeper
    status: dict[str, Any] = {
        "events": keeper.ledger.n_events,
        "lag": desk.lag,
        "counts": desk.counts,
        "model_version": keeper.version,
        "settled": keeper.is_settled,
        "solve_s": keeper.seconds,
    }
    if desk.last is not None:
        solved = desk.last.solved
        status["model_events"] = desk.last.skills.n_events
        status["graph"] = solved.counts()
        sure = sorted(zip(solved.high.tolist(), solved.fit.workers.tolist(), strict=True))[:_WORST]
        status["worst_workers"] = [worker for _, worker in sure if worker]
    return status
