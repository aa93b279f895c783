"""Reporting nights: tables on the terminal, docs/nightly-benchmarks.md and its picture."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks import ROOT
from benchmarks.measure import Median, Usage, median_of
from benchmarks.nights import Night
from benchmarks.report import OWN_PACKAGES, as_markdown, as_text

PAGE, PICTURE = ROOT / "docs" / "nightly-benchmarks.md", ROOT / "docs" / "nightly-benchmarks.svg"
MOST_SHARE = 0.15
_NIGHT, _BATCH = "#d62728", "#7f7f7f"
_LINES = ("--", "-")


@dataclass(frozen=True)
class Found:
    """What a night took, and the batch of everything, if it was run.

    Attributes:
        night: which.
        took: the night's time; None when it failed.
        input_bytes: of the night's file.
        ledger_bytes: how much of the ledger it looked at.
        batch: the batch's time; None when it failed or was not run.
        batch_bytes: of the files that a batch reads.
    """

    night: Night
    took: Median | None
    input_bytes: int
    ledger_bytes: int
    batch: Median | None
    batch_bytes: int

    @property
    def cpu_share(self) -> float | None:
        """The night's processor time, of the batch's."""
        return self.took.cpu_s / self.batch.cpu_s if self.took and self.batch else None

    @property
    def bytes_share(self) -> float:
        """What the night reads, of what the batch reads."""
        return (self.input_bytes + self.ledger_bytes) / self.batch_bytes


def found_of(
    usages: Mapping[str, Sequence[Usage]], ledger_bytes: Mapping[str, int], nights: Sequence[Night], batches: Any
) -> list[Found]:
    """The medians of every night."""
    found = []
    for night in nights:
        mine = night.file.stat().st_size
        batch = median_of(usages.get(f"batch, {night}", [])) if night in batches else None
        all_bytes = mine + sum(file.stat().st_size for file in night.crowd.files("parquet"))
        read = ledger_bytes.get(f"night, {night}", 0)
        found.append(Found(night, median_of(usages[f"night, {night}"]), mine, read, batch, all_bytes))
    return found


def bar_rows(found: Sequence[Found]) -> list[list[str]]:
    """What is compared, the bar, what was measured, the verdict: of the largest ledgers that a batch was run beside."""
    beside = [one for one in found if one.batch or not one.took]
    rows = [["what", "workers", "bar", "measured", "verdict"]]
    for at in _largest(beside):
        what = f"a night of {_size(at.night.n_labels)} on {_size(at.night.crowd.n_labels)}"
        for name, share in (("processor time", at.cpu_share), ("bytes read", at.bytes_share if at.took else None)):
            verdict = "PASS" if share is not None and share <= MOST_SHARE else "MISS"
            told = f"{share:.1%}" if share is not None else "failed"
            bar = [f"{at.night.crowd.n_workers:,}", f"≤ {MOST_SHARE:.0%}", told, verdict]
            rows.append([f"{what}: {name}, of the batch's", *bar])
    return rows


def _largest(found: Sequence[Found]) -> list[Found]:
    """Those on the largest ledgers."""
    most = max(one.night.crowd.n_labels for one in found)
    return [one for one in found if one.night.crowd.n_labels == most]


def holds(found: Sequence[Found]) -> bool:
    """Whether every night and batch came through and every bar is met."""
    return all(one.took for one in found) and all(row[-1] == "PASS" for row in bar_rows(found)[1:])


def batch_rows(found: Sequence[Found]) -> list[list[str]]:
    """Nights beside the batch, by the size of the ledger."""
    rows = [["ledger", "workers", "night", "processor", "wall", "read: input + ledger"]]
    rows[0] += ["batch: processor", "wall", "reads", "night of batch: processor", "bytes"]
    for one in found:
        if one.took and one.batch:
            mine = [f"{one.took.cpu_s:.2f} s", f"{one.took.wall_s:.2f} s"]
            mine += [f"{_mb(one.input_bytes)} + {_mb(one.ledger_bytes)} MB"]
            batch = [f"{one.batch.cpu_s:.2f} s", f"{one.batch.wall_s:.2f} s", f"{_mb(one.batch_bytes)} MB"]
            shares = [f"{one.cpu_share:.1%}", f"{one.bytes_share:.1%}"]
            crowd = [_size(one.night.crowd.n_labels), f"{one.night.crowd.n_workers:,}"]
            rows.append([*crowd, _size(one.night.n_labels), *mine, *batch, *shares])
    return rows


def curve_rows(found: Sequence[Found]) -> list[list[str]]:
    """Nights of several sizes on the largest ledgers."""
    rows = [["workers", "night", "processor", "wall", "of the ledger looked at", "peak memory"]]
    for one in curve_of(found):
        if one.took:
            times = [f"{one.took.cpu_s:.2f} s", f"{one.took.wall_s:.2f} s", f"{_mb(one.ledger_bytes)} MB"]
            crowd = f"{one.night.crowd.n_workers:,}"
            rows.append([crowd, _size(one.night.n_labels), *times, f"{one.took.memory_mb:,.0f} MB"])
    return rows


def curve_of(found: Sequence[Found]) -> list[Found]:
    """The nights on the largest ledgers, by crowd, the smallest first."""
    return sorted(_largest(found), key=lambda one: (one.night.crowd.n_workers, one.night.n_labels))


def show(found: Sequence[Found]) -> None:
    """Prints the tables."""
    for rows in (batch_rows(found), curve_rows(found), bar_rows(found)):
        print(f"\n{as_text(rows)}")
    print(flush=True)


def write_page(found: Sequence[Found], n_runs: int, loads: tuple[float, float]) -> None:
    """Writes the page and its picture."""
    _draw(found)
    own = ", ".join(f"{name} {version(name)}" for name in OWN_PACKAGES)
    machine = f"{len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.machine()}, "
    machine += f"Python {platform.python_version()}; {own}. Load {loads[0]:.1f} before and {loads[1]:.1f} after."
    tables = {"bars": bar_rows(found), "batches": batch_rows(found), "curve": curve_rows(found)}
    text = _TEXT.format(machine=machine, runs=n_runs, **{name: as_markdown(rows) for name, rows in tables.items()})
    PAGE.write_text(text, "utf-8")


def _draw(found: Sequence[Found]) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "nightly", "font.size": 9}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(8.5, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        crowds = sorted({one.night.crowd.n_workers for one in found})
        for n_workers, line in zip(crowds, _LINES, strict=False):
            mine = [one for one in found if one.took and one.night.crowd.n_workers == n_workers]
            by = f", {n_workers:,} workers"
            beside = [one for one in mine if one.batch]
            _line(left, beside, [one.batch for one in beside], color=_BATCH, marker="s", ls=line, label=f"batch{by}")
            _line(left, beside, [one.took for one in beside], color=_NIGHT, marker="o", ls=line, label=f"night{by}")
            curve = curve_of(mine)
            sizes, times = [one.night.n_labels for one in curve], [one.took.cpu_s for one in curve if one.took]
            right.plot(sizes, times, color=_NIGHT, marker="o", ls=line, label=f"night{by}")
        left.set(xlabel="labels in the ledger", ylabel="processor time, s", title="a night of 100,000 labels")
        most = max(one.night.crowd.n_labels for one in found)
        right.set(xlabel="new labels", title=f"nights on {most:,} labels")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.25)
            axes.legend(frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None})


def _line(axes: Any, found: Sequence[Found], took: Sequence[Median | None], **style: str) -> None:
    sizes = [one.night.crowd.n_labels for one in found]
    axes.plot(sizes, [median.cpu_s for median in took if median], **style)


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f}"


def _size(n: int) -> str:
    return f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k"


_TEXT = """# Nights, measured

Written by `python -m benchmarks.nightly`; do not edit. What a night does is told in
[nightly.md](nightly.md#what-a-night-costs).

{machine}
Medians of {runs} runs, interleaved, start of the interpreter and imports included; input in the page cache. Labels: two
classes, 5 labels a task, workers any of whom may meet: in the largest ledgers all pairs of them have common tasks, 125k
of 500 workers and 2M of 2,000. Each pair is an equation, and all of them are solved every night: that part grows with
the crowd, not with the labels. A ledger holds its labels as eight nights brought them; the night that is measured is
the ninth: 80 % of its labels are on new tasks, 14 % on tasks of the ledger, 5 % correct and 1 % withdraw labels of it.
It starts each time from the same ledger. The batch is `crowdbeam aggregate` on the ledger's labels and the night's.
Nothing is loaded into a warehouse.

Bytes read: of the batch, its files. Of a night, its file and what it looked at of the ledger (`ledger_bytes_read` of
its manifest): the counts of worker pairs, an index of the parts that its tasks fall into, and what is known of them.
A disk gives whole pages, and reads ahead: tasks lie anywhere in a ledger, so that a night whose ledger is not in the
page cache may have all of it read, a hundred bytes for each ten that it looks at.

## Bars

{bars}

## The ledger grows

{batches}

## The night grows

On the largest ledgers:

{curve}

![processor time of nights and batches](nightly-benchmarks.svg)
"""
