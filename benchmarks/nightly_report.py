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
        size = f"{night.crowd.n_labels:,} + {night.n_labels:,} labels"
        mine = night.file.stat().st_size
        batch = median_of(usages.get(f"batch, {size}", [])) if night in batches else None
        all_bytes = mine + sum(file.stat().st_size for file in night.crowd.files("parquet"))
        read = ledger_bytes.get(f"night, {size}", 0)
        found.append(Found(night, median_of(usages[f"night, {size}"]), mine, read, batch, all_bytes))
    return found


def bar_rows(found: Sequence[Found]) -> list[list[str]]:
    """What is compared, the bar, what was measured, the verdict: of the largest ledger that a batch was run beside."""
    at = max((one for one in found if one.batch or not one.took), key=lambda one: one.night.crowd.n_labels)
    what = f"a night of {_size(at.night.n_labels)} on {_size(at.night.crowd.n_labels)}"
    rows = [["what", "bar", "measured", "verdict"]]
    for name, share in (("processor time", at.cpu_share), ("bytes read", at.bytes_share if at.took else None)):
        verdict = "PASS" if share is not None and share <= MOST_SHARE else "MISS"
        told = f"{share:.1%}" if share is not None else "failed"
        rows.append([f"{what}: {name}, of the batch's", f"≤ {MOST_SHARE:.0%}", told, verdict])
    return rows


def holds(found: Sequence[Found]) -> bool:
    """Whether every night and batch came through and every bar is met."""
    return all(one.took for one in found) and all(row[-1] == "PASS" for row in bar_rows(found)[1:])


def batch_rows(found: Sequence[Found]) -> list[list[str]]:
    """Nights beside the batch, by the size of the ledger."""
    rows = [["ledger", "night", "processor", "wall", "read: input + ledger", "batch: processor", "wall", "reads"]]
    rows[0] += ["night of batch: processor", "bytes"]
    for one in found:
        if one.took and one.batch:
            mine = [f"{one.took.cpu_s:.2f} s", f"{one.took.wall_s:.2f} s"]
            mine += [f"{_mb(one.input_bytes)} + {_mb(one.ledger_bytes)} MB"]
            batch = [f"{one.batch.cpu_s:.2f} s", f"{one.batch.wall_s:.2f} s", f"{_mb(one.batch_bytes)} MB"]
            shares = [f"{one.cpu_share:.1%}", f"{one.bytes_share:.1%}"]
            rows.append([_size(one.night.crowd.n_labels), _size(one.night.n_labels), *mine, *batch, *shares])
    return rows


def curve_rows(found: Sequence[Found]) -> list[list[str]]:
    """Nights of several sizes on the largest ledger."""
    rows = [["night", "processor", "wall", "of the ledger looked at", "peak memory"]]
    for one in curve_of(found):
        if one.took:
            times = [f"{one.took.cpu_s:.2f} s", f"{one.took.wall_s:.2f} s", f"{_mb(one.ledger_bytes)} MB"]
            rows.append([_size(one.night.n_labels), *times, f"{one.took.memory_mb:,.0f} MB"])
    return rows


def curve_of(found: Sequence[Found]) -> list[Found]:
    """The nights on the largest ledger, the smallest first."""
    largest = max(one.night.crowd.n_labels for one in found)
    return sorted((one for one in found if one.night.crowd.n_labels == largest), key=lambda one: one.night.n_labels)


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
        beside = [one for one in found if one.took and one.batch]
        sizes = [one.night.crowd.n_labels for one in beside]
        left.plot(sizes, [one.batch.cpu_s for one in beside if one.batch], color=_BATCH, marker="s", label="batch")
        left.plot(sizes, [one.took.cpu_s for one in beside if one.took], color=_NIGHT, marker="o", label="night")
        left.set(xlabel="labels in the ledger", ylabel="processor time, s", title="a night of 100,000 labels")
        curve = [one for one in curve_of(found) if one.took]
        nights = [one.night.n_labels for one in curve]
        right.plot(nights, [one.took.cpu_s for one in curve if one.took], color=_NIGHT, marker="o", label="night")
        right.set(xlabel="new labels", title=f"nights on {curve[-1].night.crowd.n_labels:,} labels")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.25)
            axes.legend(frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None})


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f}"


def _size(n: int) -> str:
    return f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k"


_TEXT = """# Nights, measured

Written by `python -m benchmarks.nightly`; do not edit. What a night does is told in
[nightly.md](nightly.md#what-a-night-costs).

{machine}
Medians of {runs} runs, interleaved, start of the interpreter and imports included; input in the page cache. Labels: two
classes, 5 labels a task, 2,000 workers any of whom may meet: in the largest ledger all 2M pairs of them have common
tasks. A ledger holds its labels as one night brought them; the night that is measured is the second: 80 % of its labels
are on new tasks, 14 % on tasks of the ledger, 5 % correct and 1 % withdraw labels of it. It starts each time from
the same ledger. The batch is `crowdbeam aggregate` on the ledger's labels and the night's. Nothing is loaded into a
warehouse.

Bytes read: of the batch, its files. Of a night, its file and what it looked at of the ledger (`ledger_bytes_read` of
its manifest): the counts of worker pairs, an index of the parts that its tasks fall into, and what is known of them.

## Bars

{bars}

## The ledger grows

{batches}

## The night grows

On the largest ledger:

{curve}

![processor time of nights and batches](nightly-benchmarks.svg)
"""
