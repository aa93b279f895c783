"""What the demo says at its end."""

from collections import Counter
from typing import Any

from examples.stream_demo.findings import SPAMMER_BELOW, Findings
from examples.stream_demo.screen import View, percent
from pipelines.terminal import Block, Facts, Grid, Notes, shown

_EXAMPLE = 42


def summary_of(view: View, findings: Findings, source: str, sink: str) -> list[Block]:
    """The closing blocks."""
    return [
        _events(view),
        _answers(view, findings),
        _spammers(findings),
        *_rejects(findings),
        _where(findings, source, sink),
    ]


def _events(view: View) -> Facts:
    rows = (
        ("messages sent", f"{view.n_sent:,}"),
        ("events read, each once", f"{view.status.get('events', 0):,}"),
        ("rejected", f"{view.n_rejects:,}"),
        ("models solved", f"{view.status.get('model_version', 0):,}"),
    )
    return Facts("Events", rows)


def _answers(view: View, findings: Findings) -> Facts:
    rows = (
        ("tasks answered", f"{findings.n_answers():,}"),
        ("error of the answers", percent(view.error)),
        ("error of majority vote", percent(view.majority)),
        ("error in the first seconds", percent(view.errors[0]) if view.errors else "–"),
    )
    return Facts("Answers, against the hidden truth", rows)


def _spammers(findings: Findings) -> Facts:
    verdicts = findings.verdicts()
    rows = (
        (f"found (skill surely below {SPAMMER_BELOW:g})", f"{verdicts.right} of {verdicts.n_spammers}"),
        ("honest workers accused", f"{verdicts.wrong}"),
    )
    return Facts("Spammers", rows)


def _rejects(findings: Findings) -> list[Block]:
    if not findings.rejects:
        return []
    counts = Counter(row["reason"] for row in findings.rejects)
    examples: dict[str, Any] = {row["reason"]: row["record"] for row in findings.rejects}
    rows = tuple((reason, shown(examples[reason], _EXAMPLE), f"{n}") for reason, n in sorted(counts.items()))
    return [Grid("Rejects", ("reason", "example", "messages"), rows, texts=2)]


def _where(findings: Findings, source: str, sink: str) -> Notes:
    rows = findings.n_rows
    return Notes(
        "Where it came from",
        (
            f"crowdbeam stream --source {source} --sink {sink}",
            f"answers: topic crowd.scores, {rows['scores']:,} rows, the highest revision of each task holds; "
            f"workers: crowd.skills, {rows['skills']:,} rows; rejects: crowd.rejects, {rows['rejects']:,} rows.",
        ),
    )
