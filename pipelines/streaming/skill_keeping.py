"""Skill keeping: changes of all shards in; skills that follow them out, solved beside the stream, never in its way."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import schemas
from crowdcore.edges import EdgeCounts
from pipelines.answers import NO_LABELS
from pipelines.settings import AggregateSettings
from pipelines.solving import Solved, add_intervals, solve
from pipelines.streaming.envelopes import Skills
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.rhythm import BACKLOG_EVERY_S
from pipelines.streaming.rows import revised

_US = 1_000_000
_SHARE = 5
Pool = Callable[..., Future[Any]]
_VERDICT = ("component", "bipartite", "has_gold", "identified", "verdict", "fix")


@dataclass(frozen=True)
class SkillRules:
    """When skills are solved for.

    Attributes:
        aggregate: how counts become skills.
        solve_every_s: how long between two solutions while something changes; longer when solving takes long: at most a
            fifth of the time is spent on it.
        settle_after_s: how long nothing may change before the skills are solved from scratch, as the batch does.
        backlog_every_s: the same while there is a backlog, whose answers come in rounds so long apart.
        skills_every_s: how long between two solutions with intervals, from which skills and verdicts come;
            those in between are for answers only.
        emit_if: a skill is given again when it changes by more than this, or its status.
        prior_skills: skills of workers known from earlier runs.
    """

    aggregate: AggregateSettings = field(default_factory=AggregateSettings)
    solve_every_s: float = 2.0
    settle_after_s: float = 5.0
    backlog_every_s: float = BACKLOG_EVERY_S
    skills_every_s: float = 10.0
    emit_if: float = 0.01
    prior_skills: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution:
    """A finished solution, or its second part: what leaves the stage.

    Answers need the model and not its intervals, which take as long again: so they come in two parts.

    Attributes:
        skills: the model for the shards; None in the second part.
        rows: skills that have changed, as rows of a stream; None when none has, and in the first part.
        graph: the graph's rows, when its verdict has changed.
        solved: everything.
        seconds: how long it took.
        sent: what was passed to `begin`.
    """

    skills: Skills | None
    rows: pa.Table | None
    graph: pa.Table | None
    solved: Solved
    seconds: float
    sent: Mapping[str, int]


@dataclass(frozen=True)
class _Order:
    edges: EdgeCounts
    start: Any
    settled: bool
    intervals: bool
    n_events: int
    sent: Mapping[str, int]
    without_labels: Sequence[str]


class SkillKeeper:
    """The ledger, the last solution, and a solution under way in a thread.

    What was given is not part of the state: after a restart all is given again, workers without labels too, for the
    sinks may hold rows of a time that was rolled back, or of an earlier stream.
    """

    def __init__(self, rules: SkillRules) -> None:
        self._rules = rules
        self.ledger = Ledger()
        self.version = 0
        self.revision = 0
        self.is_settled = True
        self.seconds = 0.0
        self.changed_at = self._solved_at = self._full_at = 0.0
        self._last: Solved | None = None
        self._given: dict[str, Mapping[str, Any] | None] = {}  # None: that there are no labels
        self._graph: list[dict[str, Any]] | None = None
        self._under_way: tuple[Future[tuple[Solved, float]], _Order] | None = None

    def add(self, change: bytes, now_s: float) -> None:
        """Adds a change."""
        before = self.ledger.n_events
        self.ledger.add(change)
        if self.ledger.n_events != before:
            self.changed_at, self.is_settled = now_s, False

    def due(self, now_s: float, at_once: bool = False, behind: bool = False) -> bool:
        """Whether a solution should begin now; `behind` tells that there is a backlog."""
        if self._under_way is not None or self.is_settled:
            return False
        if at_once or now_s - self.changed_at >= self._rules.settle_after_s:
            return True
        slow = behind and self.version > 0  # the first labels get a model all the same
        pause = max(self._rules.backlog_every_s if slow else self._rules.solve_every_s, _SHARE * self.seconds)
        return self.changed_at > self._solved_at and now_s - self._solved_at >= pause

    def begin(
        self,
        now_s: float,
        pool: Pool,
        settled: bool = False,
        sent: Mapping[str, int] | None = None,
    ) -> None:
        """Begins a solution; `settled` makes it one from scratch, `sent` comes back with it."""
        settled = settled or now_s - self.changed_at >= self._rules.settle_after_s
        edges = self.ledger.edges()
        start = None if settled else self._warm(edges)
        pause = max(self._rules.skills_every_s, _SHARE * self.seconds)
        intervals = settled or abs(now_s - self._full_at) >= pause  # a clock may be set back
        self._solved_at, self._full_at = now_s, now_s if intervals else self._full_at
        without = self.ledger.without_labels() if intervals else ()
        order = _Order(edges, start, settled, intervals, self.ledger.n_events, sent or {}, without)
        self._under_way = (pool(_solved, order, self._rules), order)

    def finished(self, now_s: float, pool: Pool, wait: bool = False) -> Solution | None:
        """The part of the solution that was under way, if it is done; the second then begins in `pool`.

        That of `begin` may be gone by then: Beam ends instances of a step, and this object goes on with another one.
        """
        if self._under_way is None or not (wait or self._under_way[0].done()):
            return None
        future, order = self._under_way
        self._under_way = None
        solved, seconds = future.result()
        self.revision = max(self.revision + 1, int(now_s * _US))
        if solved.intervals is None:
            self._last, self.seconds = solved, seconds
            self.version += 1
            skills = Skills(self.version, order.settled, order.n_events, solved.model.to_bytes())
            if order.intervals:
                self._under_way = (pool(_with_intervals, solved, self._rules), order)
            return Solution(skills, None, None, solved, seconds, order.sent)
        self.seconds += seconds
        self.is_settled = order.settled and order.n_events == self.ledger.n_events
        rows = self._changed_rows(solved.skill_table(), order.without_labels, exact=order.settled)
        graph = self._changed_graph(solved.graph_table(), exact=order.settled)
        return Solution(None, rows, graph, solved, seconds, order.sent)

    @property
    def busy(self) -> bool:
        """Whether a solution is under way."""
        return self._under_way is not None

    def _warm(self, edges: EdgeCounts) -> Any:
        """(workers,) the skills of the last solution; NaN for workers who were not in it."""
        if self._last is None:
            return None
        known = dict(zip(self._last.fit.workers.tolist(), self._last.fit.skills.tolist(), strict=True))
        return np.array([known.get(worker, np.nan) for worker in edges.workers.tolist()])

    def _changed_rows(self, table: pa.Table, without_labels: Sequence[str], exact: bool) -> pa.Table | None:
        """The rows to give again: all that differ at all when `exact`, else those that differ by much."""
        rows = {row["worker"]: row for row in table.to_pylist()}
        fresh = [self._differs(row, exact) for row in rows.values()]
        lost = (self._given.keys() | set(without_labels)) - rows.keys()
        gone = sorted(worker for worker in lost if self._given.get(worker, ()) is not None)
        self._given.update({row["worker"]: row for row, new in zip(rows.values(), fresh, strict=True) if new})
        self._given.update(dict.fromkeys(gone))
        parts = [table.filter(pa.array(fresh, pa.bool_()))] + ([_gone_rows(gone)] if gone else [])
        together = pa.concat_tables([part.cast(schemas.arrow_schema("skill")) for part in parts])
        return revised(together, self.version, self.revision) if together.num_rows else None

    def _differs(self, row: Mapping[str, Any], exact: bool) -> bool:
        known = self._given.get(row["worker"])
        if known is None or exact:
            return known != row
        return abs(known["skill"] - row["skill"]) > self._rules.emit_if or bool(known["status"] != row["status"])

    def _changed_graph(self, table: pa.Table, exact: bool) -> pa.Table | None:
        """All rows when the verdict differs, or anything at all when `exact`; components that are no more say so.

        All rows have one revision, and there is at least one: those of lower revisions hold no longer.
        """
        rows, known = table.to_pylist(), self._graph
        if known is not None and (rows == known if exact else _verdict(rows) == _verdict(known)):
            return None
        gone = [_gone_component(number) for number in range(len(rows), max(1, len(known or ())))]
        self._graph = rows
        schema = schemas.arrow_schema("graph")
        return revised(pa.Table.from_pylist([*rows, *gone], schema=schema), self.version, self.revision)


def _solved(order: _Order, rules: SkillRules) -> tuple[Solved, float]:
    begun = time.perf_counter()
    solved = solve(order.edges, rules.aggregate, rules.prior_skills, order.start, intervals=False)
    return solved, time.perf_counter() - begun


def _with_intervals(solved: Solved, rules: SkillRules) -> tuple[Solved, float]:
    begun = time.perf_counter()
    return add_intervals(solved, rules.aggregate), time.perf_counter() - begun


def _verdict(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in _VERDICT} for row in rows]


def _gone_rows(workers: list[str]) -> pa.Table:
    """Rows of workers all of whose labels were withdrawn."""
    zeros = [0.0] * len(workers)
    columns = {"skill": zeros, "skill_low": [-1.0] * len(workers), "skill_high": [1.0] * len(workers)}
    columns |= {"accuracy": zeros, "n_labels": zeros, "n_peers": zeros, "component": [-1.0] * len(workers)}
    arrays = {name: pa.array(values) for name, values in columns.items()}
    schema = schemas.arrow_schema("skill")
    arrays |= {"worker": pa.array(workers), "status": pa.repeat(NO_LABELS, len(workers))}
    return pa.table([arrays[name] for name in schema.names], schema.names).cast(schema)


def _gone_component(number: int) -> dict[str, Any]:
    """The row of a component that has become part of another one."""
    counts = dict.fromkeys(("n_workers", "n_edges", "n_labels"), 0)
    flags = dict.fromkeys(("bipartite", "has_gold", "identified"), False)
    texts = {"verdict": "There is no such component any more.", "fix": "", "example_worker": ""}
    return {"component": number, **counts, **flags, "sigma_min": None, **texts}


def solver_pool() -> ThreadPoolExecutor:
    """One thread for solutions."""
    return ThreadPoolExecutor(1, "solve")
