"""Rival (b): crowd-kit's Dawid-Skene, as its documentation shows it, in an environment of its own.

.cache/crowd-kit-venv/bin/python -m benchmarks.crowd_kit OUTPUT FILES...
"""

import sys
from pathlib import Path

import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
from crowdkit.aggregation import DawidSkene  # type: ignore[import-not-found, unused-ignore]


def main(output: Path, files: list[str]) -> None:
    """Reads the labels, aggregates them, writes the answers."""
    labels = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    answers = DawidSkene().fit_predict(labels)
    output.mkdir(parents=True, exist_ok=True)
    answers.rename("label").rename_axis("task").astype(str).reset_index().to_parquet(output / "scores.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
