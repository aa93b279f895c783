"""What a person reads after a run: the labels, the graph's verdict, the workers, the answers, and where it all is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import schemas
from pipelines.run_tables import read_table
from pipelines.terminal import Block, Facts, Grid, Notes, shown

FEW_LABELS = 5
_WORKERS_SHOWN = 5
_COMPONENTS_SHOWN = 3
_CLASSES_WIDTH = 26
_ID_WIDTH = 22
_SKILL_COLUMNS = ("worker", "skill", "skill_low", "skill_high", "accuracy", "n_labels", "status")
_GRAPH_COLUMNS = ("component", "n_workers", "n_labels", "identified", "verdict", "fix", "example_worker")


@dataclass(frozen=True)
class RunTables:
    """The tables of a run that its summary shows."""

    graph: pa.Table
    skills: pa.Table

    @classmethod
    def of(cls, path: str) -> "RunTables":
        """Reads them from the run folder."""
        return cls(read_table(path, "graph", _GRAPH_COLUMNS), read_table(path, "skills", _SKILL_COLUMNS))


def summarise(path: str, manifest: Mapping[str, Any], tables: RunTables) -> list[Block]:
    """The summary of the run in `path`."""
    counts: Mapping[str, int] = manifest["counts"]
    blocks: list[Block] = [_labels(counts)]
    if counts["labels_used"]:
        blocks += [
            _answers(manifest),
            _graph(tables.graph),
            *_workers(tables.skills, float(manifest["settings"]["confidence"])),
        ]
    if manifest.get("gates"):
        blocks.append(gates_block(manifest["gates"]))
    warnings = tuple(_warnings(manifest))
    if warnings:
        blocks.append(Notes("Note", warnings))
    blocks.append(_files(path, manifest))
    return blocks


def _labels(counts: Mapping[str, int]) -> Facts:
    rows = [
        ("read", f"{counts['labels_read']:,}"),
        ("used", f"{counts['labels_used']:,}"),
        ("repeats", f"{counts['labels_repeated']:,}"),
        ("rejected", f"{counts['labels_rejected']:,}"),
        *reject_reasons(counts, "labels_rejected."),
        *([("withdrawn", f"{counts['labels_withdrawn']:,}")] if counts.get("labels_withdrawn") else []),
    ]
    if counts.get("gold_read"):
        rows += [
            ("gold read", f"{counts['gold_read']:,}"),
            ("gold used", f"{counts.get('gold_used', 0):,}"),
            ("gold repeats", f"{counts.get('gold_repeated', 0):,}"),
            ("gold for tasks without labels", f"{counts.get('gold_unmatched', 0):,}"),
            ("gold rejected", f"{counts.get('gold_rejected', 0):,}"),
            *reject_reasons(counts, "gold_rejected."),
        ]
    return Facts("Labels", tuple(rows))


def reject_reasons(counts: Mapping[str, int], prefix: str) -> Iterator[tuple[str, str]]:
    """Reasons of rejects and how many have each, the most frequent first: the counts that begin with `prefix`."""
    found = [(name.removeprefix(prefix), n) for name, n in counts.items() if name.startswith(prefix) and n]
    for reason, n in sorted(found, key=lambda one: (-one[1], one[0])):
        yield f"  {reason}", f"{n:,}"


def _answers(manifest: Mapping[str, Any]) -> Facts:
    counts, classes = manifest["counts"], manifest["classes"]
    against = counts.get("scores_against_majority", 0)
    names = shown(", ".join(classes), _CLASSES_WIDTH)
    return Facts(
        "Answers",
        (
            ("tasks", f"{counts['tasks']:,}"),
            ("workers", f"{counts['workers']:,}"),
            ("classes", f"{len(classes):,} ({names})"),
            ("answers that differ from majority vote", _with_share(against, counts["scores"])),
            *((f"status {name}", f"{n:,}") for name, n in _statuses(counts)),
        ),
    )


def _statuses(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    found = [(name.removeprefix("scores."), n) for name, n in counts.items() if name.startswith("scores.") and n]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _graph(graph: pa.Table) -> Notes:
    n_workers = graph.column("n_workers")
    identified = graph.column("identified")
    inside = pc.sum(pc.if_else(identified, n_workers, 0)).as_py() or 0
    total = pc.sum(n_workers).as_py() or 0
    parts = f"{graph.num_rows:,} component{'' if graph.num_rows == 1 else 's'}"
    lines = [f"{parts}; the skills of {inside:,} of {total:,} workers are determined."]
    loose = graph.filter(pc.invert(identified))
    for row in loose.slice(0, _COMPONENTS_SHOWN).to_pylist():
        size = f"{row['n_workers']:,} worker{'' if row['n_workers'] == 1 else 's'}"
        example = shown(row["example_worker"], _ID_WIDTH)
        lines.append(f"Component {row['component']} ({size}, among them {example}): {row['verdict']} {row['fix']}")
    if loose.num_rows > _COMPONENTS_SHOWN:
        lines.append(f"{loose.num_rows - _COMPONENTS_SHOWN:,} more are not determined: see the table graph.")
    return Notes("Graph", tuple(lines))


def _workers(skills: pa.Table, confidence: float) -> Iterator[Grid]:
    known = pc.is_in(skills.column("status"), value_set=pa.array(["ok", "saturated"]))
    enough = pc.greater_equal(skills.column("n_labels"), FEW_LABELS)
    keys = [("skill", "descending"), ("n_labels", "descending"), ("worker", "ascending")]
    ranked = skills.filter(pc.and_(known, enough)).sort_by(keys)
    if not ranked.num_rows:
        return
    if ranked.num_rows <= 2 * _WORKERS_SHOWN:
        yield _worker_grid("Workers, best first", ranked, confidence)
        return
    yield _worker_grid("Best workers", ranked.slice(0, _WORKERS_SHOWN), confidence)
    yield _worker_grid("Worst workers", ranked.slice(ranked.num_rows - _WORKERS_SHOWN), confidence)


def _worker_grid(title: str, rows: pa.Table, confidence: float) -> Grid:
    return Grid(
        title,
        ("worker", "status", "skill", f"{100 * confidence:.3g} % interval", "accuracy", "labels"),
        tuple(
            (
                shown(row["worker"], _ID_WIDTH),
                row["status"],
                f"{row['skill']:.3f}",
                f"{row['skill_low']:.3f} to {row['skill_high']:.3f}",
                f"{row['accuracy']:.3f}",
                f"{row['n_labels']:,}",
            )
            for row in rows.to_pylist()
        ),
        texts=2,
    )


def gates_block(gates: Sequence[Mapping[str, Any]]) -> Grid:
    """What became of the gates."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.6g}"

    return Grid(
        "Gates",
        ("gate", "limit", "value", ""),
        tuple(
            (one["gate"], number(one["limit"]), number(one["value"]), "tripped" if one["tripped"] else "passed")
            for one in gates
        ),
    )


def _warnings(manifest: Mapping[str, Any]) -> Iterator[str]:
    counts, fit = manifest["counts"], manifest["fit"]
    if not counts["labels_used"]:
        yield "There was no usable label, so there are no skills and no answers."
    elif len(manifest["classes"]) == 1:
        yield "All labels are of one class, so nothing tells good workers from bad ones."
    if fit.get("converged") == "false":
        yield f"The solver stopped before it converged: {fit['reason']}"
    if counts.get("tasks_sampled"):
        yield f"{counts['tasks_sampled']:,} tasks have so many labels that only a sample of their pairs was counted."


def _files(path: str, manifest: Mapping[str, Any]) -> Facts:
    rows = dict.fromkeys(schemas.TABLES, 0)
    for output in manifest["outputs"]:
        name = output["path"].partition("/")[0]
        if name in rows:
            rows[name] += output["rows"]
    seconds = (manifest["finished_at_us"] - manifest["started_at_us"]) / 1e6
    rate = manifest["counts"]["labels_read"] / max(seconds, 1e-3)
    return Facts(
        f"Written in {seconds:.1f} s ({rate:,.0f} labels/s) to {path}",
        (
            *((f"{name}/", f"{n:,} row{'' if n == 1 else 's'}") for name, n in rows.items()),
            ("manifest.json", "the account of the run"),
        ),
    )


def _with_share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"
