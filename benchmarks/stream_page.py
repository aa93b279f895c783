"""The page of the stream's benchmarks: what is said about each case, and the place of its table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from benchmarks import ROOT

PAGE = ROOT / "docs" / "stream-benchmarks.md"
_TITLE = "# The stream, measured"
_INTRO = (
    "Written by `python -m benchmarks.stream`, a section a case; do not edit. Two cores; engine, broker, producer "
    "and stream share them. Flink is 1.19.3 with Beam's runner 2.62.0 under Python SDK 2.77, two slots, four Python "
    "workers, as `make flink-up` starts them: a TaskManager without Java's second compiler, and workers that import "
    "everything before they read. A Flink set up in another way starts more slowly: with the second compiler a "
    "million events once took its JVM 8.6 s of processor time in place of 3.2 s."
)
_WIDTH = 120


@dataclass(frozen=True)
class Section:
    """What the page says of a case: its title, what was done, and the columns of its table."""

    title: str
    prose: str
    columns: tuple[str, ...]

    def text(self, rows: Sequence[str]) -> str:
        """The section with the rows of its table."""
        head = f"| {' | '.join(self.columns)} |\n|{'---|' * len(self.columns)}"
        return "\n".join([f"## {self.title}", "", fill(self.prose, _WIDTH), "", head, *rows]) + "\n"


SECTIONS = {
    "backlog": Section(
        "Backlog",
        "A topic that is full when the stream starts. Rates: the median of the runs, the lowest and the highest in "
        "brackets; the other columns are medians. About two seconds of a run on Flink are the start of workers and "
        "compilers, which three million events hide. Floor: the same functions in one thread, without Beam.",
        (
            "engine", "events", "runs", "read/s", "to the last answer, events/s", "Python CPU, µs/event",
            "engine CPU, µs/event", "floor CPU, µs/event", "Python / floor", "checkpoint, bytes/event",
        ),
    ),
    "sustained": Section(
        "Steady rate",
        "From the sending of a label, of every label, to the first row of its task in the sink's topic that counts it.",
        ("engine", "events/s", "for, s", "p50, s", "p95, s", "mean lag, second → last third", "Python CPU, µs/event"),
    ),
    "slow": Section(
        "Low rate",
        "After 100,000 events, from a crowd that is known by then. State is a list of blocks, which are made into one"
        " every 256 blocks, so that the size of a checkpoint goes up and down. Its growth is told by its peaks: the "
        "highest of the last third less that of the middle third, labels included. Memory: the lowest of all workers "
        "together in the middle third, and in the last.",
        (
            "engine", "events/s", "for, s", "checkpoint, MB: lowest, highest", "growth of its peaks, KB/s",
            "memory of the workers, MB",
        ),
    ),
}  # fmt: skip


def put(case: str, rows: Sequence[str], page: Path = PAGE) -> None:
    """Writes the section of a case anew; the others stay as they are."""
    parts = _parts(page.read_text("utf-8")) if page.exists() else {}
    parts[SECTIONS[case].title] = SECTIONS[case].text(rows)
    wanted = [parts[section.title] for section in SECTIONS.values() if section.title in parts]
    page.write_text("\n".join([f"{_TITLE}\n\n{fill(_INTRO, _WIDTH)}\n", *wanted]), "utf-8")


def _parts(text: str) -> dict[str, str]:
    """The sections of a page by their titles.

    >>> _parts("# Page\\n\\n## One\\n\\n1\\n\\n## Two\\n\\n2\\n")
    {'One': '## One\\n\\n1\\n', 'Two': '## Two\\n\\n2\\n'}
    """
    found = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0][3:]: part.rstrip("\n") + "\n" for part in found}
