"""What a person sees while the demo runs: a screen of 80 by 24 on a terminal, a line every few seconds elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.stream_demo.findings import SPAMMER_BELOW, Verdicts
from pipelines.terminal import shown

WIDTH = 80
_BARS = " ▁▂▃▄▅▆▇█"
_CURVE = 48
_WORST = 5
_INTERVAL = len("-0.00 to -0.00")
_PAUSES = 1.0


@dataclass
class View:
    """What is shown.

    Attributes:
        seconds, planned: since the first label was sent; how long labels are sent.
        phase: what happens now, in a few words.
        n_sent: messages sent.
        status: the stream's own status.
        rate: events a second that the stream takes.
        error, majority: of the answers in the sink; of majority vote on the same tasks.
        errors, majorities: the same over time, a pair a second.
        verdicts: of the workers.
        worst: rows of workers, with the truth.
        n_answers, n_rejects: how many.
        reject: the latest.
    """

    planned: float
    seconds: float = 0.0
    phase: str = "starting"
    n_sent: int = 0
    status: dict[str, Any] = field(default_factory=dict)
    rate: float = 0.0
    error: float = math.nan
    majority: float = math.nan
    errors: list[float] = field(default_factory=list)
    majorities: list[float] = field(default_factory=list)
    verdicts: Verdicts = field(default_factory=lambda: Verdicts(0, 0, 0))
    worst: list[tuple[dict[str, Any], bool]] = field(default_factory=list)
    n_answers: int = 0
    n_rejects: int = 0
    reject: dict[str, Any] | None = None

    def note_errors(self) -> None:
        """Adds a pair to the curves, when the next second has come."""
        if len(self.errors) <= self.seconds / _PAUSES and not math.isnan(self.error):
            self.errors.append(self.error)
            self.majorities.append(self.majority)

    @property
    def waiting(self) -> int:
        """Events that wait in Kafka."""
        return sum(self.status.get("lag", {}).values())


def percent(share: float) -> str:
    """A share, or a dash where there is none.

    >>> percent(0.0421), percent(math.nan)
    ('4.2 %', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def sparkline(values: Sequence[float], top: float, width: int = _CURVE) -> str:
    """The values as little bars below `top`, at most `width` of them.

    >>> sparkline([0.4, 0.2, 0.0], 0.4), sparkline([math.nan, 0.4], 0.4)
    ('█▄▁', '▁█')
    """
    if len(values) > width:
        values = [values[round(place * (len(values) - 1) / (width - 1))] for place in range(width)]
    steps = len(_BARS) - 1
    known = [0.0 if math.isnan(value) else value for value in values]
    return "".join(_BARS[max(1, min(steps, round(value / top * steps)))] if top else _BARS[1] for value in known)


def line_of(view: View) -> str:
    """The demo as it is, in a line for a log."""
    verdicts = view.verdicts
    return (
        f"{view.seconds:3.0f} s  {view.status.get('events', 0):>8,} events {view.rate:>6,.0f}/s  "
        f"{view.waiting:>6,} waiting  model {view.status.get('model_version', 0):>3}  {view.n_rejects:>3} rejected  "
        f"error {percent(view.error):>6}, majority vote {percent(view.majority):>6}  "
        f"spammers found {verdicts.right} of {verdicts.n_spammers}, wrongly {verdicts.wrong}"
    )


def screen_of(view: View) -> RenderableType:
    """The demo as it is, for a terminal."""
    parts = [
        _stream(view),
        Text(),
        _errors(view),
        Text(),
        _spammers(view),
        Text(),
        _workers(view),
        Text(),
        _reject(view),
    ]
    title = f"[bold]crowdbeam stream[/]  {view.phase}"
    clock = f"{min(view.seconds, view.planned):.0f} of {view.planned:.0f} s"
    return Panel(Group(*parts), title=title, subtitle=clock, subtitle_align="right", title_align="left", width=WIDTH)


def _stream(view: View) -> RenderableType:
    cells = [
        ("events", f"{view.status.get('events', 0):,}"),
        ("a second", f"{view.rate:,.0f}"),
        ("waiting", f"{view.waiting:,}"),
        ("model", f"{view.status.get('model_version', 0)}"),
        ("answers", f"{view.n_answers:,}"),
        ("rejects", f"{view.n_rejects:,}"),
    ]
    table = Table.grid(expand=True)
    for _ in cells:
        table.add_column(justify="center", ratio=1)
    table.add_row(*(Text(value, "bold cyan") for _, value in cells))
    table.add_row(*(Text(name, "dim") for name, _ in cells))
    return table


def _errors(view: View) -> RenderableType:
    top = max([share for share in (*view.errors, *view.majorities) if not math.isnan(share)], default=0.0)
    table = Table.grid(padding=(0, 1))
    table.add_row(Text("wrong answers"), _right(percent(view.error), "bold green"), _curve(view.errors, top, "green"))
    table.add_row(
        Text("by majority vote"), _right(percent(view.majority), "bold yellow"), _curve(view.majorities, top, "yellow")
    )
    return table


def _right(text: str, style: str) -> Text:
    return Text(f"{text:>8}", style)


def _curve(values: Sequence[float], top: float, style: str) -> Text:
    return Text(sparkline(values, top), style)


def _spammers(view: View) -> RenderableType:
    verdicts = view.verdicts
    full = round(_CURVE * verdicts.right / verdicts.n_spammers) if verdicts.n_spammers else 0
    bar = Text("█" * full, "red") + Text("░" * (_CURVE - full), "dim")
    table = Table.grid(padding=(0, 1))
    table.add_row(Text("spammers found  "), _right(f"{verdicts.right} of {verdicts.n_spammers}", "bold red"), bar)
    told = f"skill surely below {SPAMMER_BELOW:g}; honest workers accused: {verdicts.wrong}"
    table.add_row("", "", Text(told, "dim"))
    return table


def _workers(view: View) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("surely worst", "skill", "90 % interval", "labels", "in truth"):
        left = name in ("surely worst", "in truth")
        table.add_column(name, justify="left" if left else "right", min_width=_INTERVAL if "interval" in name else None)
    for row, is_spammer in view.worst[:_WORST]:
        skill, low, high = (_two_places(row[name]) for name in ("skill", "skill_low", "skill_high"))
        truth = Text("spammer", "red") if is_spammer else Text("honest", "green")
        table.add_row(row["worker"], skill, f"{low} to {high}", f"{row['n_labels']:,}", truth)
    for _ in range(_WORST - len(view.worst)):
        table.add_row("")
    return table


def _two_places(number: float) -> str:
    return f"{round(number, 2) + 0.0:.2f}"  # no -0.00


def _reject(view: View) -> RenderableType:
    if view.reject is None:
        return Text("no rejects yet", "dim")
    reason = view.reject["reason"]
    return Text(f"latest reject  {reason}  ", "dim") + Text(shown(view.reject["record"], WIDTH - 24 - len(reason)))
