"""Reporting: what was measured as tables, on the terminal and in docs/benchmarks.md."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from benchmarks import environment
from benchmarks.cases import CROWD_KIT, LIMIT_S, SOLVER, Bar, Case, Trial, printed
from benchmarks.check import LEAST_SAME, Agreement
from benchmarks.measure import Usage, median_of

OWN_PACKAGES = ("apache-beam", "numpy", "pyarrow", "scipy")
RIVAL_PACKAGES = ("crowd-kit", "pandas", "numpy", "pyarrow")


@dataclass
class Results:
    """What one invocation measured.

    Attributes:
        usages: the runs of each trial, by its name.
        errors: share of wrong answers of each trial, by its name.
        agreements: of each pair (ours, plain), by their names.
    """

    cases: dict[str, Case]
    usages: dict[str, list[Usage]]
    errors: dict[str, float] = field(default_factory=dict)
    agreements: dict[tuple[str, str], Agreement] = field(default_factory=dict)

    @property
    def trials(self) -> list[Trial]:
        return unique_trials(self.cases)

    @property
    def bars(self) -> list[Bar]:
        return [bar for case in self.cases.values() for bar in case.bars]

    @property
    def good(self) -> bool:
        """Whether every bar is met and every comparison holds."""
        return all(judge(bar, self.usages)[1] == "PASS" for bar in self.bars) and all(
            (ours.name, plain.name) in self.agreements and self.agreements[ours.name, plain.name].holds
            for case in self.cases.values()
            for ours, plain in case.same
        )


def unique_trials(cases: dict[str, Case]) -> list[Trial]:
    """Every trial once, in the order of the cases."""
    return list({trial.name: trial for case in cases.values() for trial in case.trials}.values())


def judge(bar: Bar, usages: dict[str, list[Usage]]) -> tuple[str, str]:
    """What was measured, and PASS, MISS or "not measured"."""
    runs = usages.get(bar.trial.name, [])
    if median_of(runs) is None:
        return "failed or stopped" if runs else "", "MISS" if runs else "not measured"
    value, sign = bar.quantity(runs), ""
    if bar.beside is not None:
        others = usages.get(bar.beside.name, [])
        if not others or any(run.failed for run in others):
            return "", "not measured"
        sign = "< " if any(run.timed_out for run in others) else ""
        value /= bar.quantity(others)
    return f"{sign}{_number(value)} {bar.unit}", "PASS" if value <= bar.limit else "MISS"


def trial_rows(results: Results) -> list[list[str]]:
    """Program and data, wall, processor, memory, labels a second, wrong answers, runs."""
    rows = [["program, labels", "wall", "processor", "peak memory", "labels/s", "wrong answers", "runs"]]
    for trial in results.trials:
        runs = results.usages.get(trial.name, [])
        median = median_of(runs)
        if median is None:
            reason = f"> {LIMIT_S:.0f} s" if any(run.timed_out for run in runs) else "failed"
            rows.append([trial.name, reason, "", "", "", "", str(len(runs))])
            continue
        speed = f"{trial.crowd.n_labels / median.wall_s / 1000:,.0f}k" if trial.program != SOLVER else ""
        error = f"{results.errors[trial.name]:.4f}" if trial.name in results.errors else ""
        times = [f"{median.wall_s:.2f} s", f"{median.cpu_s:.2f} s", f"{median.memory_mb:,.0f} MB"]
        rows.append([trial.name, *times, speed, error, str(median.n_runs)])
    return rows


def bar_rows(results: Results) -> list[list[str]]:
    """What is compared, the bar, what was measured, the verdict."""
    rows = [[bar.text, f"≤ {_number(bar.limit)} {bar.unit}", *judge(bar, results.usages)] for bar in results.bars]
    return [["what", "bar", "measured", "verdict"], *rows]


def check_rows(results: Results) -> list[list[str]]:
    """Which two, same answers, same edges, skills, the verdict."""
    rows = [["crowdbeam beside (a)", "same answers", "same edges", "largest difference of skills", "verdict"]]
    for (ours, _), found in results.agreements.items():
        share, verdict = f"{found.same_answers:.5f}", "PASS" if found.holds else "MISS"
        rows.append([ours, share, "yes" if found.same_edges else "no", f"{found.skill_difference:.1e}", verdict])
    return rows


def solver_sentence(results: Results) -> str:
    """What the solver printed, in words."""
    for trial in results.trials:
        runs = results.usages.get(trial.name, [])
        if trial.program == SOLVER and median_of(runs) is not None:
            n_workers, n_edges = printed("n_workers")(runs), printed("n_edges")(runs)
            fit, intervals = printed("fit_s")(runs), printed("intervals_s")(runs)
            return (
                f"Solver alone, {n_workers:,.0f} workers and {n_edges:,.0f} edges: skills {fit:.2f} s, "
                f"intervals {intervals:.2f} s, root mean square error {printed('rms_error')(runs):.3f}."
            )
    return ""


def describe_machine(results: Results) -> str:
    """Cores, memory and versions; nothing that names the machine."""
    gigabytes = os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    own = ", ".join(f"{name} {version(name)}" for name in OWN_PACKAGES)
    text = (
        f"{len(os.sched_getaffinity(0))} cores, {gigabytes:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}; {own}."
    )
    measured = any(trial.program == CROWD_KIT and median_of(results.usages[trial.name]) for trial in results.trials)
    if measured:
        there = environment.versions_there(list(RIVAL_PACKAGES))
        text += " (b) in its own environment: " + ", ".join(f"{name} {there[name]}" for name in there) + "."
    return text


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """A table for the terminal."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """The same table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def as_page(results: Results) -> str:
    """docs/benchmarks.md."""
    n_runs = max(len(runs) for runs in results.usages.values())
    return PAGE.format(
        n_runs=n_runs,
        machine=describe_machine(results),
        limit=LIMIT_S,
        least=LEAST_SAME,
        bars=as_markdown(bar_rows(results)),
        trials=as_markdown(trial_rows(results)),
        checks=as_markdown(check_rows(results)),
        solver=solver_sentence(results),
    )


def as_json(results: Results) -> dict[str, Any]:
    """Everything measured, run by run."""
    bars = [dict(zip(bar_rows(results)[0], row, strict=True)) for row in bar_rows(results)[1:]]
    return {
        "machine": describe_machine(results),
        "bars": bars,
        "trials": {name: [vars(usage) for usage in usages] for name, usages in results.usages.items()},
        "wrong_answers": results.errors,
        "agreements": {ours: vars(found) for (ours, _), found in results.agreements.items()},
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


PAGE = """# Benchmarks

Written by `make bench`; do not edit.

{machine}
Medians of {n_runs} runs, interleaved (each program once, then each again), start of the interpreter and imports
included; input in the page cache. Memory: the peak of the process, or of the sum over its processes.
A program that takes over a minute is run once, one that takes more than {limit:.0f} s is stopped.

Labels: two classes, 5 labels a task, string ids of different lengths and partly not ASCII, 8 files, the labels of a
task spread over all files; 1M and 10M labels of 2,000 workers any of whom may meet. Many workers: 200,000 on a ring,
each meeting about 50 others, 5M edges.

(a) A straightforward single-process numpy program that does the same job (`benchmarks/plain_numpy.py`), without
rejects, intervals, a look at the graph, or a manifest. (b) crowd-kit's Dawid-Skene with its default settings, in an
environment of its own (`benchmarks/crowd_kit.py`), which gives answers only.

## Bars

{bars}

## Measured

{trials}

{solver}
The wall time of the solver's row includes making the graph.

## Same results

At least {least:.0%} of the answers must be the same, and the edges equal.

{checks}
"""
