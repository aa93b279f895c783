"""Writes models/sources.yml from the schemas: `python examples/dbt/write_sources.py`, again when a schema changes."""

import json
from pathlib import Path

import pyarrow as pa

from pipelines.sinks.loads import CURRENT, RUNS, TABLES, table_doc, table_schema

PLACE = Path(__file__).parent / "models" / "sources.yml"
_HEAD = """\
# Made by write_sources.py from crowdbeam's schemas; change those.
version: 2

sources:
  - name: crowdbeam
    description: Skills, answers and rejects of crowd labels, loaded by crowdbeam, each run exactly once.
    schema: "{{ var('crowdbeam_schema') }}"
    tables:
"""
_FRESHNESS = """\
        config:
          loaded_at_field: >-
            {{ 'timestamp_micros(loaded_at_us)' if target.type == 'bigquery'
            else 'to_timestamp(loaded_at_us / 1000000.0)' }}
          freshness:
            warn_after: {count: 26, period: hour}
            error_after: {count: 50, period: hour}
"""


def sources() -> str:
    """The page, as dbt reads it."""
    return _HEAD + "".join(_table(name) for name in TABLES)


def _table(name: str) -> str:
    columns = "".join(_column(name, field) for field in table_schema(name))
    freshness = _FRESHNESS if name == RUNS else ""
    return (
        f"      - name: {name}\n        description: {json.dumps(table_doc(name), ensure_ascii=False)}\n"
        f"{freshness}        columns:\n{columns}"
    )


def _column(table: str, field: pa.Field) -> str:
    key = ("run_id",) if table == RUNS else CURRENT.get(table, ())
    name, doc = field.name, field.metadata[b"doc"].decode()
    tests = [] if field.nullable else ["not_null"]
    if key == (name,):
        tests.insert(0, "unique")
    tested = f"            data_tests: [{', '.join(tests)}]\n" if tests else ""
    return f"          - name: {name}\n            description: {json.dumps(doc, ensure_ascii=False)}\n{tested}"


if __name__ == "__main__":
    PLACE.write_text(sources(), "utf-8")
