"""What a person sees: blocks of facts, tables and notes on standard output, a line of progress on a terminal."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

WIDTH = 80
_INDENT = "  "
_GAP = "  "
_SECONDS_FOR_A_RATE = 0.5
_MARKS = 50


@dataclass(frozen=True)
class Facts:
    """Names and their values, one pair a line; the names of parts begin with blanks."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table; its first columns stand on the left, numbers on the right.

    Attributes:
        title: what stands above it.
        header: the columns' names.
        rows: the cells.
        texts: how many columns, from the left, hold texts.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


@dataclass(frozen=True)
class Notes:
    """Sentences, a paragraph each."""

    title: str
    lines: tuple[str, ...]


Block = Facts | Grid | Notes


def show_blocks(blocks: Sequence[Block]) -> None:
    """Prints the blocks to standard output: with lines and colour on a terminal, as plain aligned text elsewhere."""
    write_out(_rich(blocks, sys.stdout) if sys.stdout.isatty() else plain(blocks))


def write_out(text: str) -> None:
    """Writes to standard output; a reader that has gone away is no error."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def plain(blocks: Sequence[Block]) -> str:
    """The blocks as plain text, at most 80 columns wide where the words allow it.

    >>> print(plain([Facts("Labels", (("read", "1,200"), ("used", "980"))), Notes("", ("All is well.",))]))
    Labels
      read  1,200
      used    980
    <BLANKLINE>
    All is well.
    """
    return "\n\n".join("\n".join(_plain_lines(block)) for block in blocks)


def _plain_lines(block: Block) -> Iterator[str]:
    indent = _INDENT if block.title else ""
    if block.title:
        yield block.title
    match block:
        case Notes(_, lines):
            for line in lines:
                yield textwrap.indent(_wrapped(line, WIDTH - len(indent)), indent)
        case Facts(_, rows):
            yield from _aligned([(name, value) for name, value in rows], 1, indent)
        case Grid(_, header, rows, texts):
            yield from _aligned([header, *rows], texts, indent)


def _wrapped(line: str, width: int) -> str:
    """The line in lines; paths and options stay whole."""
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def _aligned(rows: Sequence[tuple[str, ...]], texts: int, indent: str) -> Iterator[str]:
    from rich.cells import cell_len

    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    for row in rows:
        padded = [
            cell + blanks if place < texts else blanks + cell
            for place, cell in enumerate(row)
            for blanks in [" " * (widths[place] - cell_len(cell))]
        ]
        yield (indent + _GAP.join(padded)).rstrip()


def _rich(blocks: Sequence[Block], stream: TextIO) -> str:
    from rich.console import Console

    console = Console(file=stream, width=min(WIDTH, Console(file=stream).width), highlight=False)
    with console.capture() as captured:
        for place, block in enumerate(blocks):
            if place:
                console.print()
            console.print(_renderable(block))
    return captured.get()


def _renderable(block: Block) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = [Text(block.title, "bold")] if block.title else []
    match block:
        case Notes(_, lines):
            return Group(*title, *(Text(_INDENT * len(title) + line) for line in lines))
        case Facts(_, rows):
            table = Table(box=None, show_header=False, padding=(0, 1))
            table.add_column()
            table.add_column(justify="right", style="cyan")
        case Grid(_, header, rows, texts):
            table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="dim")
            for place, name in enumerate(header):
                table.add_column(Text(name), justify="left" if place < texts else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return Group(*title, table)


def shown(text: str, width: int = 24) -> str:
    r"""An id as it can stand in a table: on one line, nothing a terminal would obey, cut where it is long.

    >>> shown("ann\nbob"), shown("a" * 30, 8)
    ('ann\\nbob', 'aaaaaaa…')
    """
    from rich.cells import cell_len, set_cell_size

    safe = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[: 4 * width])
    return safe if cell_len(safe) <= width and len(text) <= 4 * width else set_cell_size(safe, width - 1).rstrip() + "…"


class ProgressLine:
    """Says how far a run is: its stage, the labels the stage has done, how fast, and for how long.

    Attributes:
        done: gives the labels done, by stage, in the order in which the stages began.
        runner: a runner outside this process, which does not tell its labels; empty for one inside.
        clock: seconds.
    """

    def __init__(
        self, done: Callable[[], Mapping[str, int]], runner: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._done, self._runner, self._clock = done, runner, clock
        self._began = self._stage_began = clock()
        self._stage = "read"

    def text(self) -> str:
        """The line as it is now."""
        now = self._clock()
        elapsed = f"{now - self._began:.0f} s"
        if self._runner:
            return f"running on {self._runner}  {elapsed}"
        done = self._done()
        stage = stage_of(done)
        if stage != self._stage:
            self._stage, self._stage_began = stage, now
        parts = [stage]
        n_labels = done.get(stage, 0)
        if n_labels:
            parts.append(f"{n_labels:,} labels")
        if n_labels and now - self._stage_began >= _SECONDS_FOR_A_RATE:
            parts.append(f"{n_labels / (now - self._stage_began):,.0f} labels/s")
        return "  ".join([*parts, elapsed])


def stage_of(done: Mapping[str, int]) -> str:
    """The stage a run is in; it writes when every label that was counted has been scored.

    >>> stage_of({}), stage_of({"read": 9, "count agreements": 5}), stage_of({"count agreements": 9, "score": 9})
    ('read', 'count agreements', 'write')
    """
    stage = list(done)[-1] if done else "read"
    return "write" if stage == "score" and done["score"] >= done.get("count agreements", 0) else stage


class StreamLine:
    """Says how a stream is: events, how fast they come, how many wait, the model, rejects.

    >>> line = StreamLine(clock=lambda: 7.0)
    >>> line.see({"events": 1200, "lag": {"labels-0": 5}, "model_version": 3, "counts": {"events_rejected": 2}})
    >>> line.text()
    '1,200 events  5 waiting  model 3  2 rejected  0 s'
    >>> line.see(None, ["Postgres took no rows: it is shutting down"])
    >>> line.text()
    'Postgres took no rows: it is shutting down  0 s'
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._status: Mapping[str, Any] | None = None
        self._marks: list[tuple[float, int]] = []
        self._waits: Sequence[str] = ()

    def see(self, status: Mapping[str, Any] | None, waits: Sequence[str] = ()) -> None:
        """Takes the stream's latest status, none before it has read anything, and what it waits for."""
        self._status, self._waits = status or None, waits
        if status:
            self._marks = [*self._marks[-_MARKS:], (self._clock(), status["events"])]

    def text(self) -> str:
        """The line as it is now."""
        elapsed = f"{self._clock() - self._began:.0f} s"
        if self._waits:
            return f"{'; '.join(self._waits)}  {elapsed}"
        if self._status is None:
            return f"starting  {elapsed}"
        parts = [f"{self._status['events']:,} events"]
        (then, before), (now, after) = self._marks[0], self._marks[-1]
        if now - then >= _SECONDS_FOR_A_RATE:
            parts.append(f"{(after - before) / (now - then):,.0f} events/s")
        parts.append(f"{sum(self._status['lag'].values()):,} waiting")
        parts.append(f"model {self._status['model_version']}")
        rejected, reason, _ = _rejected(self._status)
        if rejected:
            parts.append(f"{rejected:,} rejected" if self._status["events"] else f"all {rejected:,} rejected: {reason}")
        return "  ".join([*parts, elapsed])


def stream_summary(status: Mapping[str, Any]) -> str:
    """What a stream has done, when it has ended.

    >>> stream_summary({"events": 7, "model_version": 2, "counts": {"events_rejected": 3, "events_rejected.no-op": 3}})
    '7 events read and answered; model 2. Rejected: 3, of which 3 as no-op.'
    """
    events, (rejected, reason, most) = status.get("events", 0), _rejected(status)
    if rejected and not events:
        return (
            f"Nothing was answered: everything read was rejected, {rejected:,} in all, of which {most:,} as {reason}."
        )
    answered = f"{events:,} events read and answered; model {status.get('model_version', 0)}."
    return f"{answered} Rejected: {rejected:,}, of which {most:,} as {reason}." if rejected else answered


def _rejected(status: Mapping[str, Any]) -> tuple[int, str, int]:
    """How many events were rejected, their most frequent reason, and how many it had."""
    counts = status.get("counts", {})
    reasons = {name.partition(".")[2]: n for name, n in counts.items() if name.startswith("events_rejected.")}
    reason = min(reasons, key=lambda name: (-reasons[name], name), default="")
    return counts.get("events_rejected", 0), reason, reasons.get(reason, 0)


class Line(Protocol):
    """Something that says how far it is."""

    def text(self) -> str:
        """The line as it is now."""


@contextmanager
def show_progress(line: Line, wanted: bool) -> Iterator[None]:
    """Shows `line` on standard error, again and again, while the body runs; on a terminal only."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots")

    def renderable() -> Spinner:
        spinner.update(text=line.text())
        return spinner

    console = Console(stderr=True, highlight=False)
    with Live(get_renderable=renderable, console=console, refresh_per_second=8, transient=True, redirect_stdout=False):
        yield
