"""Files of a chapter: a CSV table, a page, pictures as SVG and PNG; and the page of all chapters."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import InvalidSettingError
from pipelines.paper.chapter import Chapter
from pipelines.paper.plots import SIZES
from pipelines.terminal import Grid

_DOTS_PER_INCH = 140
_OTHER_SIZE = (9.0, 3.8)


def check_matplotlib() -> None:
    """Raises `InvalidSettingError` if there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidSettingError(
            "The pictures need matplotlib, which is not installed: pip install 'crowdbeam[plots]'."
        ) from error


def write_chapter(chapter: Chapter, folder: Path) -> list[str]:
    """Writes the chapter's files and returns their names."""
    with (folder / f"{chapter.name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([chapter.header, *chapter.rows])
    (folder / f"{chapter.name}.md").write_text(markdown(chapter, level=1) + "\n", "utf-8")
    _draw(chapter, folder)
    return [f"{chapter.name}.{kind}" for kind in ("csv", "md", "svg", "png")]


def write_page(chapters: Sequence[Chapter], folder: Path, command: str) -> str:
    """Writes README.md with all chapters and returns its name."""
    parts = ["# The paper, reproduced", f"Made by `{command}`.", *(markdown(part, level=2) for part in chapters)]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", "utf-8")
    return "README.md"


def markdown(chapter: Chapter, level: int) -> str:
    """The chapter as a page, or a part of one."""
    marks = "#" * level
    tables = [f"**{table.title}**\n\n{_table(table)}" for table in chapter.tables]
    remarks = "\n".join(f"- {remark}" for remark in chapter.remarks)
    picture = f"![{chapter.alt}]({chapter.name}.svg)"
    return "\n\n".join([f"{marks} {chapter.title}", chapter.about, picture, *tables, "What differs, and why:", remarks])


def _table(table: Grid) -> str:
    ruler = [":--" if place < table.texts else "--:" for place in range(len(table.header))]
    lines = [table.header, ruler, *table.rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _draw(chapter: Chapter, folder: Path) -> None:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Text stays text, which keeps files small; a fixed salt and no date make equal pictures equal files.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": chapter.name, "font.size": 9}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=SIZES.get(chapter.name, _OTHER_SIZE), layout="constrained")
        FigureCanvasAgg(figure)
        chapter.draw(figure)
        figure.savefig(folder / f"{chapter.name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{chapter.name}.png", dpi=_DOTS_PER_INCH)
