"""The real datasets: a folder each, with labels.csv (task, worker, label) and truth.csv (task, label)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError

if TYPE_CHECKING:
    from crowdcore.experiments.real_data import Dataset


def check_datasets(folder: str, names: tuple[str, ...]) -> None:
    """Raises `InputError` unless `folder` has all the datasets."""
    if not Path(folder).is_dir():
        raise InputError(f"--data {folder} is no folder; give the folder that holds {', '.join(names)}.")
    for name in names:
        for file in ("labels.csv", "truth.csv"):
            if not (Path(folder) / name / file).is_file():
                raise InputError(
                    f"--data {folder} has no {name}/{file}; it takes a folder with {', '.join(names)}, each with"
                    " labels.csv (task,worker,label) and truth.csv (task,label)."
                )


def read_dataset(folder: Path) -> "Dataset":
    """The labels, the latest of a worker on a task, and the truth."""
    import numpy as np

    from crowdcore.experiments.real_data import Dataset
    from crowdcore.labels import group_labels

    said = _read(folder / "labels.csv", ("task", "worker", "label"))
    known = _read(folder / "truth.csv", ("task", "label"))
    if not len(said["task"]):
        raise InputError(f"{folder / 'labels.csv'} has no rows.")
    tasks, task = np.unique(said["task"], return_inverse=True)
    workers, worker = np.unique(said["worker"], return_inverse=True)
    classes, label = np.unique(said["label"], return_inverse=True)
    place = {name: code for code, name in enumerate(tasks.tolist())}
    code = {name: number for number, name in enumerate(classes.tolist())}
    truth = np.full(len(tasks), -1)
    for name, answer in zip(known["task"].tolist(), known["label"].tolist(), strict=True):
        if name in place:
            truth[place[name]] = code.get(answer, -1)
    if not np.any(truth >= 0):
        raise InputError(f"{folder / 'truth.csv'} names no task of labels.csv with one of its labels.")
    grouped = group_labels(
        task, worker, label, n_tasks=len(tasks), n_workers=len(workers), n_classes=len(classes)
    )  # fmt: skip
    return Dataset(grouped.labels, truth)


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, Any]:
    """Columns of strings."""
    import polars as pl

    try:
        table = pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path} cannot be read as CSV: {str(error).splitlines()[0]}.") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InputError(f"{path} has no column {missing[0]}; it takes {','.join(columns)}.")
    return {name: table[name].fill_null("").to_numpy() for name in columns}
