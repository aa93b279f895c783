"""The pictures, drawn on an empty matplotlib figure; matplotlib is imported by who makes the figure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdcore.experiments import fig1, graph_size, real_data, skill_distribution, weights
from crowdcore.experiments.theory import Theory
from crowdcore.experiments.trials import ErrorTable

SIZES = {"fig1": (9.5, 9.6), "weights": (7.5, 3.6), "skills": (8, 3.8), "graph-size": (7.5, 3.8), "real": (9, 4.4)}
COLOURS = {
    "PGD": "#d62728",
    "MV": "#7f7f7f",
    "KOS": "#2ca02c",
    "Opt-D&S": "#1f77b4",
    "DDKR": "#ff7f0e",
    "triangle": "#9467bd",
    "skills known": "#000000",
}
_PAPER = "#222222"
_SLIM = 0.8


def draw_curves(figure: Any, found: Mapping[str, ErrorTable]) -> None:
    """Means against tasks, a panel a setting; a band of one standard deviation for PGD; the caption's as bars."""
    places = {fig1.CLIQUE: 1, **{name: place for place, name in zip((3, 4, 5, 6), list(found)[1:], strict=True)}}
    for setting, table in found.items():
        axes = figure.add_subplot(3, 2, places[setting])
        tasks = np.array([int(row) for row in table.rows])
        for method in table.columns:
            mean = table.mean[:, table.columns.index(method)]
            known = method == fig1.KNOWN
            style = {"linestyle": ":" if known else "-", "linewidth": 2.2 if method == "PGD" else 1.2}
            marker = "o" if method == "PGD" else ""
            axes.plot(
                tasks, mean, color=COLOURS[method], label=method, marker=marker, markersize=4,
                zorder=4 if method == "PGD" else 2, **style,
            )  # fmt: skip
        _band(axes, tasks, table)
        _caption_bar(axes, setting, table)
        axes.set_title(setting, fontsize=10)
        top = 0.6 if setting.startswith(fig1.STAR_A) else 0.4
        axes.set(xlabel="tasks", ylabel="error", ylim=(0, top), xlim=(0, 318))
        axes.locator_params(axis="y", nbins=5)
        axes.grid(alpha=0.25)
    axes = figure.add_subplot(3, 2, 2)
    axes.axis("off")
    handles, names = figure.axes[0].get_legend_handles_labels()
    axes.legend(handles, names, loc="center", fontsize=10, frameon=False, title="mean error of")


def _band(axes: Any, tasks: Any, table: ErrorTable) -> None:
    mean, std = (values[:, table.columns.index("PGD")] for values in (table.mean, table.std))
    low = np.maximum(mean - std, 0)
    axes.fill_between(
        tasks, low, mean + std, color=COLOURS["PGD"], alpha=0.12, linewidth=0, label="PGD ± one deviation, ours"
    )


def _caption_bar(axes: Any, setting: str, table: ErrorTable) -> None:
    """The paper's standard deviation of PGD, around our mean: the paper prints no means."""
    paper = fig1.PAPER_STD[fig1.CLIQUE if setting == fig1.CLIQUE else "star"]
    rows = [row for row in ("10", "300") if row in table.rows]
    mean = [float(table.at(row, "PGD").mean()) for row in rows]
    axes.errorbar(
        [int(row) for row in rows], mean, yerr=[paper[row]["PGD"] for row in rows], fmt="none", ecolor=_PAPER,
        capsize=4, linewidth=1.2, zorder=5, label="PGD ± one deviation, the paper's",
    )  # fmt: skip


def draw_weights(figure: Any, found: ErrorTable) -> None:
    """Bars, ours and the paper's side by side."""
    for place, case in enumerate(found.rows):
        axes = figure.add_subplot(1, 2, place + 1)
        kinds = weights.WEIGHTS
        x = np.arange(len(kinds))
        ours = [found.at(case, kind) for kind in kinds]
        deviations = [errors.std() for errors in ours]
        bars = {"width": 0.36, "capsize": 3, "error_kw": {"linewidth": 1}}
        axes.bar(x - 0.19, [e.mean() for e in ours], yerr=deviations, color=COLOURS["PGD"], label="ours", **bars)
        means, stds = zip(*(weights.PAPER[case][kind] for kind in kinds), strict=True)
        axes.bar(x + 0.19, means, yerr=stds, color="#bbbbbb", label="the paper", **bars)
        known = found.at(case, weights.KNOWN).mean()
        axes.axhline(known, color="black", linestyle=":", linewidth=1, label="skills known")
        axes.set_xticks(x, ["B = 1", "B = N", "B = N²"])
        axes.set(title=f"{case} do most tasks", ylabel="error", ylim=(0, None))
        axes.grid(alpha=0.25, axis="y")
    figure.axes[1].legend(fontsize=9, frameon=False)


def draw_distributions(figure: Any, found: ErrorTable) -> None:
    """Points with bars of one standard deviation."""
    axes = figure.add_subplot()
    x = np.arange(len(found.rows))
    series = {"skills known": "#000000", "clique": COLOURS["PGD"], "star": COLOURS["DDKR"]}
    for place, (column, colour) in enumerate(series.items()):
        errors = [found.at(row, column) for row in found.rows]
        name = column if place == 0 else f"PGD, {column}"
        _points(axes, x - 0.2 + 0.12 * place, [(e.mean(), e.std()) for e in errors], colour, name, "o")
    paper = list(skill_distribution.PAPER.values())
    _points(axes, x + 0.16, [known for known, _ in paper], "#888888", "the paper, skills known", "s")
    _points(axes, x + 0.28, [pgd for _, pgd in paper], "#444444", "the paper, PGD", "D")
    axes.set_xticks(x, found.rows)
    axes.axhline(0.5, color="black", linewidth=0.6, linestyle="--")
    axes.set(ylabel="error", xlabel="accuracy of the workers", ylim=(-0.02, 1.1))
    axes.grid(alpha=0.25, axis="y")
    figure.legend(fontsize=8, ncols=5, loc="outside lower center", frameon=False)


def _points(axes: Any, x: Any, values: Any, colour: str, name: str, marker: str) -> None:
    mean, std = np.array(values).T
    low = np.minimum(std, mean)
    axes.errorbar(
        x, mean, yerr=[low, np.minimum(std, 1 - np.minimum(mean, 1))], fmt=marker, color=colour, markersize=5,
        capsize=2.5, linewidth=1, label=name,
    )  # fmt: skip


def draw_sizes(figure: Any, found: ErrorTable) -> None:
    """Lines against the number of workers."""
    axes = figure.add_subplot()
    x = np.array([int(row) for row in found.rows])
    names = {
        "random hub": ("PGD, random hub", COLOURS["DDKR"]),
        "strong hub": ("PGD, strong hub", COLOURS["PGD"]),
        "skills known": ("skills known", "#000000"),
    }
    for place, (column, (name, colour)) in enumerate(names.items()):
        errors = [found.at(row, column) for row in found.rows]
        mean, std = np.array([(e.mean(), e.std()) for e in errors]).T
        axes.errorbar(x + _SLIM * (place - 1), mean, yerr=std, color=colour, marker="o", capsize=3, label=name)
    for part, name, style in ((0, "the paper, skills known", ":"), (1, "the paper, PGD", "--")):
        mean, std = np.array([graph_size.PAPER[size][part] for size in graph_size.SIZES]).T
        axes.errorbar(
            x + _SLIM * (2 + part), mean, yerr=std, color="#777777", marker="s", capsize=3, linestyle=style, label=name
        )
    axes.set_xticks(x, found.rows)
    axes.set(xlabel="workers in the star", ylabel="error", ylim=(0, 0.42))
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, ncols=2, frameon=False)


def draw_real(figure: Any, found: ErrorTable) -> None:
    """Dots, a row a method, a panel a dataset."""
    names = found.columns
    y = np.arange(len(names))[::-1]
    for place, row in enumerate(found.rows):
        axes = figure.add_subplot(1, len(found.rows), place + 1)
        values = found.mean[place]
        axes.barh(y, values, color=[COLOURS["PGD"] if name.startswith("PGD") else "#9fb8d0" for name in names])
        paper = real_data.PAPER.get(row, {})
        marks = [(paper[name], y[number]) for number, name in enumerate(names) if name in paper]
        if marks:
            axes.plot(*zip(*marks, strict=True), "D", color=_PAPER, markersize=5, label="the paper")
        for name, value, height in zip(names, values, y, strict=True):
            mark = paper.get(name, -1.0)
            end = mark + 0.02 if abs(mark - value) < 0.07 else value  # clear of the paper's mark
            axes.text(max(value, end) + 0.008, height, f"{value:.3f}".lstrip("0"), va="center", fontsize=7)
        axes.set_yticks(y, names if place == 0 else [""] * len(names), fontsize=8)
        axes.set(title=row, xlabel="error", xlim=(0, 0.68))
        axes.grid(alpha=0.25, axis="x")
    figure.axes[0].legend(fontsize=8, loc="lower right", frameon=False)


def draw_theory(figure: Any, found: Theory) -> None:
    """Error and bound against the noise; and their ratio."""
    bound = found.bound
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    colours = (COLOURS["Opt-D&S"], COLOURS["PGD"], COLOURS["KOS"])
    for number, (name, colour) in enumerate(zip(bound.graphs, colours, strict=True)):
        errors, ratio = bound.errors[number], bound.looseness[number]
        left.loglog(bound.noises, np.median(errors, axis=1), color=colour, marker="o", markersize=3.5, label=name)
        left.loglog(bound.noises, np.median(bound.bounds[number], axis=1), color=colour, linestyle="--")
        right.loglog(bound.noises, np.median(ratio, axis=1), color=colour, marker="o", markersize=3.5, label=name)
        right.fill_between(bound.noises, ratio.min(axis=1), ratio.max(axis=1), color=colour, alpha=0.12, linewidth=0)
        inside = bound.inside[number].mean(axis=1) >= 0.5
        last = bound.noises[int(np.flatnonzero(inside)[-1])] if inside.any() else bound.noises[0]
        right.axvline(last, color=colour, linestyle=":", linewidth=1)
    left.plot([], [], color="black", linestyle="--", label="bound of Theorem 3")
    left.set(xlabel="noise a", ylabel="‖x − s‖, median", title="error and bound")
    right.axhline(1, color="black", linewidth=1)
    right.plot([], [], color="black", linestyle=":", label="assumptions hold\nleft of the line")
    right.set_ylim(0.01, None)
    right.set(xlabel="noise a", ylabel="bound / error", title="how loose: median, smallest to largest")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, frameon=False, loc="upper left" if axes is left else "lower left", ncols=1)
