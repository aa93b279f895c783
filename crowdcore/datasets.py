r"""Datasets in a folder: `labels.csv` with the columns task, worker, label, and `truth.csv` with task, label.

Every value stays the string that it is in the file.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = Path(folder, "labels.csv").write_text("task,worker,label\nt1,ann,yes\nt1,bob,no\n")
...     _ = Path(folder, "truth.csv").write_text("task,label\nt1,yes\n")
...     labels, truth = load_dataset(folder, frames="columns")
>>> labels
{'task': ['t1', 't1'], 'worker': ['ann', 'bob'], 'label': ['yes', 'no']}
>>> truth
{'t1': 'yes'}
"""

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crowdcore.errors import InvalidLabelsError, InvalidOptionError

_LABELS, _TRUTH = ("task", "worker", "label"), ("task", "label")


def load_dataset(folder: str | Path, frames: str | None = None) -> tuple[Any, Any]:
    """Labels and known answers.

    Args:
        folder: of one dataset.
        frames: "pandas": a DataFrame, and a Series `true_label` indexed by task, as crowd-kit's loaders give;
            "columns": a dict of columns, and a dict from task to label. pandas if it is installed, when not given.
            Both are what estimators take. Without truth.csv there are no known answers.
    """
    if frames not in (None, "pandas", "columns"):
        raise InvalidOptionError(f"frames is {frames!r}; it takes pandas or columns")
    labels = _read(Path(folder, "labels.csv"), _LABELS)
    truth = Path(folder, "truth.csv")
    known = _read(truth, _TRUTH) if truth.exists() else {name: [] for name in _TRUTH}
    if frames == "columns" or (frames is None and find_spec("pandas") is None):
        return labels, dict(zip(known["task"], known["label"], strict=True))
    import pandas as pd

    index = pd.Index(known["task"], name="task", dtype="str")
    return pd.DataFrame(labels, dtype="str"), pd.Series(known["label"], index=index, name="true_label", dtype="str")


def list_datasets(folder: str | Path) -> list[str]:
    """The names of the datasets in a folder of datasets, sorted."""
    return sorted(path.parent.name for path in Path(folder).glob("*/labels.csv"))


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, list[str]]:
    if not path.exists():
        raise InvalidLabelsError(f"{path} is not there; a dataset is a folder with labels.csv and truth.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        missing = [name for name in columns if name not in header]
        if missing:
            raise InvalidLabelsError(f"{path} lacks the column {' and '.join(missing)}; it has {', '.join(header)}")
        values = [row for row in rows if row]
    torn = next((row for row in values if len(row) != len(header)), None)
    if torn is not None:
        raise InvalidLabelsError(f"{path} has a row of {len(torn)} values where the header has {len(header)}")
    return {name: [row[header.index(name)] for row in values] for name in columns}
