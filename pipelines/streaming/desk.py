"""What the keeper of the skills has at hand beside the ledger, and what it tells of it."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.late import LATE
from pipelines.streaming.envelopes import BOOTSTRAPPED, DRAIN, Change, Marker
from pipelines.streaming.rhythm import FRESH_S
from pipelines.streaming.skill_keeping import SkillKeeper, Solution

_QUIET_S = 0.15
_WORST, _LOW = 5, 0.5
_OF_WORST = ("worker", "skill", "skill_high", "n_labels")
_BACKLOG = 10_000
_OVERTAKES_S = 10.0


@dataclass
class Cut:
    """A snapshot under way: how many events each shard had when it cut, and the changes that may be from behind it."""

    marker: Marker
    begun_s: float
    events: dict[str, int]
    meanwhile: list[Change]


class Desk:
    """What the stage has at hand beside the ledger: requests under way, and what readers report.

    A snapshot under way is forgotten in a restart, and asked for again by whoever wanted it. A request to end is not.
    Shards are named by texts, as JSON has them.
    """

    def __init__(self, keeper: SkillKeeper, note: dict[str, Any]) -> None:
        self.keeper = keeper
        self.received: Counter[str] = Counter(note.get("received", {}))
        self.sent: dict[str, int] = note.get("sent", {})
        self.drains: dict[str, dict[str, int]] = note.get("drains", {})
        self.snapshots: dict[str, Cut] = {}
        self.recent: deque[tuple[float, Change]] = deque()
        self.draining: Marker | None = Marker(DRAIN, note["draining"]) if note.get("draining") else None
        self.counts: Counter[str] = Counter(note.get("counts", {}))
        self.lag: dict[str, int] = note.get("lag", {})
        self.behind = False
        self.told_at = self.read_at_s = 0.0
        self.last: Solution | None = None
        self.model_events = 0
        self.worst: list[dict[str, Any]] = []

    def took(self, change: Change, now_s: float) -> None:
        """Notes a change for the snapshots under way, and for a while: runners may let it overtake the first marker."""
        self.recent.append((now_s, change))
        while now_s - self.recent[0][0] > _OVERTAKES_S:
            self.recent.popleft()
        for cut in self.snapshots.values():
            cut.meanwhile.append(change)

    def cut_of(self, marker: Marker, now_s: float) -> Cut:
        """The snapshot that a marker belongs to; it begins with the first one."""
        if marker.id not in self.snapshots:
            self.snapshots[marker.id] = Cut(marker, now_s, {}, [change for _, change in self.recent])
        return self.snapshots[marker.id]

    def hear(self, report: dict[str, Any]) -> None:
        """Takes what a reader reports: many events that wait are a backlog if those just read have waited long."""
        self.counts.update(report["counts"])
        self.lag.update(report.get("lag", {}))
        read_at_s = report.get("read_at_s", self.read_at_s)
        self.read_at_s = min(self.read_at_s or read_at_s, read_at_s)
        old = read_at_s - report.get("arrived_s", read_at_s) > FRESH_S
        self.behind |= old and sum(self.lag.values()) >= _BACKLOG

    def has_caught_up(self, now_s: float) -> bool:
        """Whether a backlog has just come to its end: its answers need not wait until the stream is quiet for long.

        All that the readers have read must be in the ledger; what a shard rejects is in it, what they reject is not,
        and the labels that the stream began with are in it beside.
        """
        quiet = now_s - self.keeper.changed_at >= _QUIET_S
        rejected = self.counts["events_rejected"] - self.counts[f"events_rejected.{LATE}"]
        n_taken = self.keeper.ledger.n_events - self.counts[BOOTSTRAPPED]
        whole = n_taken >= self.counts["events_read"] - rejected
        return self.behind and quiet and whole and not any(self.lag.values())

    def note(self) -> dict[str, Any]:
        """What must not be lost, beside the ledger."""
        keeper, draining = self.keeper, "" if self.draining is None else self.draining.id
        known = {"version": keeper.version, "revision": keeper.revision, "counts": dict(self.counts)}
        return {
            **known,
            "received": self.received,
            "sent": self.sent,
            "drains": self.drains,
            "draining": draining,
            "lag": self.lag,
        }


def status_of(desk: Desk) -> dict[str, Any]:
    """How the stream is, for people and machines."""
    keeper = desk.keeper
    status: dict[str, Any] = {
        "events": keeper.ledger.n_events,
        "lag": desk.lag,
        "counts": desk.counts,
        "model_version": keeper.version,
        "settled": keeper.is_settled,
        "solve_s": keeper.seconds,
        "first_read_at_s": desk.read_at_s,
        "last_change_at_s": keeper.changed_at,
    }
    if desk.last is not None:
        solved = desk.last.solved
        status["model_events"] = desk.model_events
        status["graph"] = solved.counts()
        if solved.intervals is not None:
            desk.worst = _worst(solved.skill_table())
        status["worst_workers"] = desk.worst
    return status


def _worst(skills: pa.Table) -> list[dict[str, Any]]:
    """The workers whose skill is determined and surely low, worst first."""
    known = pc.is_in(skills["status"], value_set=pa.array(["ok", "saturated"]))
    low = skills.filter(pc.and_(known, pc.less(skills["skill_high"], _LOW)))
    rows: list[dict[str, Any]] = low.sort_by([("skill_high", "ascending"), ("worker", "ascending")]).to_pylist()[
        :_WORST
    ]
    return [{name: row[name] for name in _OF_WORST} for row in rows]
