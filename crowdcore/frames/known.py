"""Something known about some ids: gold answers of tasks, weights of workers.

>>> known_values({"t1": "yes", "t2": None}, "task")
{'t1': 'yes'}
>>> known_values({"task": ["t1", "t2"], "label": ["yes", "no"]}, "task")
{'t1': 'yes', 't2': 'no'}
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdcore.errors import InvalidLabelsError
from crowdcore.frames.coded import CodedLabels
from crowdcore.frames.kinds import open_frame
from crowdcore.labels import Ints

GOLD_WITHOUT_LABELS = "gold for a task without labels"
GOLD_NOT_GIVEN = "gold label that no worker gave"

_PREFERRED = {"task": "label", "worker": "skill"}


def known_values(given: Any, by: str) -> dict[Any, Any]:
    """What is known, by id; missing values are left out, of a repeated id the last counts.

    Args:
        given: a pandas Series indexed by id, a mapping from id to value, or a frame with the column `by` and one for
            the value: "label" for tasks, "skill" for workers, or the only other one.
        by: "task" or "worker".
    """
    if _is_mapping(given, by):
        pairs = given.items()
    else:
        opened = open_frame(given)
        value = _value_column(opened.frames.names(opened.data), by)
        columns = [opened.frames.listed(opened.data, name) for name in (by, value)]
        pairs = zip(*columns, strict=True)
    return {key: value for key, value in pairs if not _is_missing(value)}


def _is_mapping(given: Any, by: str) -> bool:
    """Whether `given` leads from ids to values: a pandas Series, or a dict that is none of columns."""
    if isinstance(given, Mapping):
        columns = [value for value in given.values() if hasattr(value, "__len__") and not isinstance(value, str)]
        return by not in given or len(columns) < max(2, len(given))
    return hasattr(given, "index") and hasattr(given, "items") and not hasattr(given, "columns")


def _value_column(names: list[str], by: str) -> str:
    others = [name for name in names if name != by]
    if by in names and _PREFERRED[by] in names:
        return _PREFERRED[by]
    if by not in names or len(others) != 1:
        raise InvalidLabelsError(
            f"what is known by {by} has the columns {', '.join(names)}; it takes {by} and {_PREFERRED[by]}"
        )
    return others[0]


def _is_missing(value: Any) -> bool:
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>"))


def gold_codes(coded: CodedLabels, true_labels: Any) -> tuple[Ints, dict[str, int]]:
    """(tasks,) class codes of the known answers, -1 where there is none, and how many cannot be used, by reason."""
    known = known_values(true_labels, "task")
    task_code = {task: code for code, task in enumerate(coded.frames.values(coded.tasks))}
    class_code = {label: code for code, label in enumerate(coded.frames.values(coded.classes))}
    on_tasks = {task_code[task]: label for task, label in known.items() if task in task_code}
    usable = {task: class_code[label] for task, label in on_tasks.items() if label in class_code}
    gold = np.full(len(task_code), -1, np.int64)
    gold[np.fromiter(usable, np.int64, len(usable))] = np.fromiter(usable.values(), np.int64, len(usable))
    unused = {GOLD_WITHOUT_LABELS: len(known) - len(on_tasks), GOLD_NOT_GIVEN: len(on_tasks) - len(usable)}
    return gold, {reason: n for reason, n in unused.items() if n}
