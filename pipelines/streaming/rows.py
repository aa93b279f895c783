"""Rows of a stream: they carry a version and a revision that only grows."""

from typing import Any

import numpy as np
import pyarrow as pa

import schemas
from pipelines.tables import table_of

NO_LABELS = "no-labels"


def revised(table: pa.Table, version: int, revision: int, closed: bool = False) -> pa.Table:
    """The rows of `table` as rows of a stream."""
    for name, value in (("model_version", version), ("revision", revision), ("closed", closed)):
        kind = schemas.arrow_schema("revision").field(name)
        table = table.append_column(kind, pa.repeat(pa.scalar(value, kind.type), table.num_rows))
    return table


def blank_rows(names: pa.LargeStringArray, model: str) -> pa.Table:
    """Rows of tasks that have lost all their labels."""
    n = len(names)
    zeros = pa.array(np.zeros(n))
    whole = pa.array(np.zeros(n, np.int64))
    columns: dict[str, Any] = {
        "task": names,
        "label": pa.repeat("", n),
        "probability": zeros,
        "margin": zeros,
        "score": zeros,
        "n_labels": whole,
        "n_workers": whole,
        "status": pa.repeat(NO_LABELS, n),
        "model": pa.repeat(model, n),
    }
    return table_of("score", columns).cast(schemas.arrow_schema("score"))
