"""A chapter of the page: what an experiment found, ready to be printed, written and drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines.terminal import Block, Grid, Notes


@dataclass(frozen=True)
class Chapter:
    """One experiment.

    Attributes:
        name: of its files, and on the command line.
        title: a heading.
        about: what was done, a paragraph.
        tables: ours beside the paper's.
        remarks: what differs and why, a sentence or a few each.
        header, rows: of the CSV file: every number, not only those shown.
        draw: makes the picture on an empty matplotlib figure.
        alt: what the picture shows.
    """

    name: str
    title: str
    about: str
    tables: tuple[Grid, ...]
    remarks: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    draw: Callable[[Any], None]
    alt: str

    def blocks(self) -> list[Block]:
        """For the terminal."""
        return [Notes(self.title, (self.about,)), *self.tables, Notes("What differs, and why", self.remarks)]


def spread(mean: float, std: float, digits: int = 3) -> str:
    """A mean and a standard deviation, as the paper writes shares.

    >>> spread(0.0412, 0.0013), spread(1.0, 0.0)
    ('.041 ± .001', '1.000 ± .000')
    """
    return f"{share(mean, digits)} ± {share(std, digits)}"


def share(value: float, digits: int = 4) -> str:
    """A number without the zero before its point.

    >>> share(0.0725), share(1.2, 1)
    ('.0725', '1.2')
    """
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def beside(ours: float, paper: float) -> str:
    """How far ours is from the paper's.

    >>> beside(0.011, 0.01), beside(0.009, 0.01)
    ('+10 %', '−10 %')
    """
    change = 100 * (ours / paper - 1)
    return f"{'+' if change >= 0 else '−'}{abs(change):.0f} %"
