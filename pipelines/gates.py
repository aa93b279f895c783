"""Gates: what a scheduler asks of a run before others use it. Each that trips has an exit code of its own.

A gate is written ``NAME>LIMIT``, or ``NAME`` alone where there is nothing to limit. It trips when its value lies above
its limit, or above 0 when it takes none; `no-new-labels` trips when its value, the labels that changed something, is 0.
A value that cannot be measured, such as a share of no workers at all, trips nothing. Of several that trip, the lowest
code is the exit code.

>>> gates = parse_gates(["rejects-share>0.01", "no-new-labels"])
>>> results = check_gates(gates, GateFacts(rejects_share=0.03, new_labels=970))
>>> [(one.gate, one.value, one.tripped) for one in results]
[('rejects-share', 0.03, True), ('no-new-labels', 970.0, False)]
>>> exit_code_of(results)
11
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from pipelines.errors import InvalidSettingError

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_LABELS = 20  # of a worker, in both runs, before a change of the skill counts as drift
DETERMINED = ("ok", "saturated")
TORN = ("unreadable-rest", "unreadable-block")  # reasons of rejects that stand for more than one record


@dataclass(frozen=True)
class GateKind:
    """What there is to know of a gate.

    Attributes:
        name: what it is called in --fail-if.
        code: the exit code when it trips.
        most: the highest limit it takes; None: it takes no limit.
        fact: the field of `GateFacts` that it looks at.
        trips: when it trips, in a few words.
        at_nothing: whether 0 trips it, and not more.
    """

    name: str
    code: int
    most: float | None
    fact: str
    trips: str
    at_nothing: bool = False

    @property
    def form(self) -> str:
        """How it is written."""
        return self.name if self.most is None else f"{self.name}>LIMIT"


# From 10 on: the result is not good enough; 20: nothing is new. The lowest wins: what is bad is never called not new.
KINDS = (
    GateKind("unidentified-share", 10, 1.0, "unidentified_share", "more than LIMIT of the workers have no known skill"),
    GateKind("rejects-share", 11, 1.0, "rejects_share", "more than LIMIT of the labels read were rejected"),
    GateKind("skill-drift", 12, 2.0, "skill_drift", "a skill changed by more than LIMIT since the last run"),
    GateKind("torn-inputs", 13, None, "torn_inputs", "an input could not be read to its end"),
    GateKind("no-new-labels", 20, None, "new_labels", "no label changed anything", at_nothing=True),
)  # fmt: skip
_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Gate:
    """A gate that was asked for; its limit is None when it takes none."""

    name: str
    limit: float | None = None

    def __str__(self) -> str:
        return self.name if self.limit is None else f"{self.name}>{self.limit:g}"


@dataclass(frozen=True)
class GateFacts:
    """What gates look at; None: it cannot be measured.

    Attributes:
        unidentified_share: workers whose skill is not determined, of all workers.
        rejects_share: labels that were rejected, of all that were read.
        skill_drift: the largest change of a skill since the last run: see `skill_drift`.
        torn_inputs: places from which on a file, or a part of one, could not be read.
        new_labels: how many labels of this run changed something.
    """

    unidentified_share: float | None = None
    rejects_share: float | None = None
    skill_drift: float | None = None
    torn_inputs: int | None = None
    new_labels: int | None = None


@dataclass(frozen=True)
class GateResult:
    """What became of a gate; the fields are those of the manifest's `gates`."""

    gate: str
    limit: float | None
    value: float | None
    tripped: bool

    @property
    def sentence(self) -> str:
        """Says why it tripped, for the user."""
        if self.limit is None or self.value is None:
            return f"The gate {self.gate} has tripped: {_BY_NAME[self.gate].trips}."
        return f"The gate {self.gate} has tripped: {self.value:.6g} is above the limit of {self.limit:g}."


def parse_gates(texts: Sequence[str]) -> tuple[Gate, ...]:
    """The gates that the values of --fail-if name; raises `InvalidSettingError` when one cannot be used.

    >>> parse_gates(["skill-drift>0.2", "no-new-labels"])
    (Gate(name='skill-drift', limit=0.2), Gate(name='no-new-labels', limit=None))
    """
    gates = tuple(_parse(text) for text in texts)
    names = [gate.name for gate in gates]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSettingError(f"--fail-if names the gate {name} twice; name each once.")
    return gates


def refuse_gates(gates: Sequence[Gate], unknown: Mapping[str, str]) -> None:
    """Raises `InvalidSettingError` for a gate that cannot be measured here; `unknown` says why, by the gate's name."""
    for gate in gates:
        if gate.name in unknown:
            raise InvalidSettingError(f"--fail-if {gate.name} cannot be told here: {unknown[gate.name]}")


def facts_of(
    counts: Mapping[str, int], *, new_labels: int | None = None, skill_drift: float | None = None
) -> GateFacts:  # fmt: skip
    """The facts that the counts of a manifest tell, and those that they do not.

    >>> facts_of({"labels_read": 200, "labels_rejected": 3, "workers": 8, "workers_identified": 6})
    GateFacts(unidentified_share=0.25, rejects_share=0.015, skill_drift=None, torn_inputs=0, new_labels=None)
    """
    torn = [f"{what}_rejected.{reason}" for what in ("labels", "gold") for reason in TORN]
    return GateFacts(
        _share(counts.get("workers", 0) - counts.get("workers_identified", 0), counts.get("workers", 0)),
        _share(counts.get("labels_rejected", 0), counts.get("labels_read", 0)),
        skill_drift,
        sum(counts.get(name, 0) for name in torn) if counts else None,
        new_labels,
    )


def check_gates(gates: Sequence[Gate], facts: GateFacts) -> tuple[GateResult, ...]:
    """What becomes of each gate, in the order given."""
    measured = {one.name: getattr(facts, one.name) for one in fields(facts)}
    return tuple(_check(gate, measured[_BY_NAME[gate.name].fact]) for gate in gates)


def exit_code_of(results: Sequence[GateResult]) -> int:
    """The lowest exit code of the gates that tripped; 0 when none did."""
    return min((_BY_NAME[result.gate].code for result in results if result.tripped), default=0)


def skill_drift(before: "pa.Table", after: "pa.Table") -> float | None:
    """The largest change of a skill from one run's table of skills to another's; None when no worker can be compared.

    A worker is compared who has, in both runs, at least 20 labels (`n_labels`) and a determined skill (status ok or
    saturated): what changes without them is noise. Workers who are in one run only count for nothing.
    """
    import pyarrow.compute as pc

    then, now = (_steady(table) for table in (before, after))
    places = pc.index_in(now.column("worker"), value_set=then.column("worker").combine_chunks())
    both = now.append_column("place", places).filter(pc.is_valid(places))
    if not both.num_rows:
        return None
    changes = pc.abs(pc.subtract(both.column("skill"), then.column("skill").take(both.column("place"))))
    return float(pc.max(changes).as_py())


def codes_table() -> list[tuple[int, str, str]]:
    """(exit code, how the gate is written, when it trips) of every gate: what --help and the docs show.

    >>> codes_table()[-1]
    (20, 'no-new-labels', 'no label changed anything')
    """
    return [(kind.code, kind.form, kind.trips) for kind in KINDS]


def _parse(text: str) -> Gate:
    name, above, limit = (part.strip() for part in text.partition(">"))
    kind = _BY_NAME.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, _BY_NAME, 1)
        hint = f"did you mean {_BY_NAME[near[0]].form}?" if near else f"there are {', '.join(k.form for k in KINDS)}."
        raise InvalidSettingError(f"--fail-if is {text!r}, which is no gate; {hint}")
    if kind.most is None:
        if above:
            raise InvalidSettingError(f"--fail-if is {text!r}; {name} takes no limit, write {name} alone.")
        return Gate(name)
    if not above:
        raise InvalidSettingError(
            f"--fail-if is {text!r} without a limit; write '{kind.form}', in quotes, or the shell takes > for itself."
        )
    try:
        value = float(limit)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= kind.most:
        raise InvalidSettingError(f"--fail-if is {text!r}; the limit of {name} is a number from 0 to {kind.most:g}.")
    return Gate(name, value)


def _check(gate: Gate, value: float | None) -> GateResult:
    if value is None:
        return GateResult(gate.name, gate.limit, None, tripped=False)
    tripped = value <= 0 if _BY_NAME[gate.name].at_nothing else value > (gate.limit or 0)
    return GateResult(gate.name, gate.limit, float(value), tripped=tripped)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _steady(skills: "pa.Table") -> "pa.Table":
    """Worker and skill of those who can be compared."""
    import pyarrow as pa
    import pyarrow.compute as pc

    enough = pc.greater_equal(skills.column("n_labels"), FEWEST_LABELS)
    determined = pc.is_in(skills.column("status"), value_set=pa.array(DETERMINED))
    return skills.select(["worker", "skill"]).filter(pc.and_(enough, determined))
