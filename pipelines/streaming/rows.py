"""Rows of a stream: they carry a version and a revision that only grows."""

import pyarrow as pa

import schemas


def revised(table: pa.Table, version: int, revision: int, closed: bool = False) -> pa.Table:
    """The rows of `table` as rows of a stream."""
    for name, value in (("model_version", version), ("revision", revision), ("closed", closed)):
        kind = schemas.arrow_schema("revision").field(name)
        table = table.append_column(kind, pa.repeat(pa.scalar(value, kind.type), table.num_rows))
    return table
