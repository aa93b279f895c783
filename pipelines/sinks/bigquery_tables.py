"""Tables of BigQuery: their columns, and the one script that brings a run from its staging tables to them."""

from collections.abc import Mapping

import pyarrow as pa
from google.cloud import bigquery

import schemas
from pipelines.sinks.loads import APPENDED, CURRENT, RUNS, STAYS, LoadTables, table_schema

THERE = "crowdbeam: the run is there already"
OTHERS = "crowdbeam: the tables hold runs of another ledger"
_TYPES = {pa.string(): "STRING", pa.int64(): "INTEGER", pa.int32(): "INTEGER"}
_TYPES |= {pa.float64(): "FLOAT", pa.bool_(): "BOOLEAN"}
_PAIR = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.float64())])
_PAIRS = pa.list_(pa.field("element", _PAIR))
STAGED = (*schemas.TABLES, RUNS)


def columns_of(name: str) -> list[bigquery.SchemaField]:
    """The columns of a table, one of `loads.TABLES`; a map is a repeated record of key and value."""
    return [_column(field) for field in table_schema(name)]


def stored(rows: pa.Table) -> pa.Table:
    """Rows as a Parquet file for BigQuery holds them."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_map(field.type):
            rows = rows.set_column(at, pa.field(field.name, _PAIRS), rows.column(at).cast(_PAIRS))
    return rows


def place_of(project: str, dataset: str, name: str) -> str:
    """A table as SQL takes it.

    >>> place_of("lab", "crowd", "scores")
    '`lab.crowd.scores`'
    """
    return f"`{project}.{dataset}.{name}`"


def load_script(loads: LoadTables, places: Mapping[str, str], staged: Mapping[str, str]) -> str:
    """One transaction: every table takes the run's rows, unless `runs` holds it, a later one of its ledger, or others.

    Args:
        loads: the run.
        places: the tables.
        staged: the run's tables in staging, and its row of `runs`.
    """
    others = f"SELECT 1 FROM {places[RUNS]} WHERE ledger <> @ledger"  # noqa: S608 - ours, quoted
    refusals = {THERE: there_sql(places[RUNS]), OTHERS: others}
    guards = [f"SELECT IF(EXISTS ({sql}), ERROR('{said}'), TRUE)" for said, sql in refusals.items()]
    statements = ["BEGIN TRANSACTION", *guards]
    for name in CURRENT:
        if loads.replaces(name):
            statements.append(f"DELETE FROM {places[name]} WHERE TRUE")  # noqa: S608 - ours, quoted
            statements.append(_insert(name, places[name], staged[name]))
        else:
            statements.append(_merge(name, places[name], staged[name]))
    for name, made_of in APPENDED.items():
        statements.append(_insert(name, places[name], staged[made_of]))
    statements += [_insert(RUNS, places[RUNS], staged[RUNS]), "COMMIT TRANSACTION"]
    return "".join(f"{one};\n" for one in statements)


def there_sql(runs: str) -> str:
    """A query with a row when the run, or a later one of its ledger, was loaded."""
    later = "@ledger <> '' AND ledger = @ledger AND version >= @version"
    return f"SELECT 1 FROM {runs} WHERE run_id = @run_id OR ({later})"  # noqa: S608 - ours, quoted


def _column(field: pa.Field) -> bigquery.SchemaField:
    said = field.metadata[b"doc"].decode()
    if pa.types.is_map(field.type):
        key, value = bigquery.SchemaField("key", "STRING", "REQUIRED"), bigquery.SchemaField("value", "FLOAT")
        return bigquery.SchemaField(field.name, "RECORD", "REPEATED", description=said, fields=(key, value))
    mode = "NULLABLE" if field.nullable else "REQUIRED"
    return bigquery.SchemaField(field.name, _TYPES[field.type], mode, description=said)


def _insert(name: str, place: str, staged: str) -> str:
    columns = ", ".join(table_schema(name).names)
    which = STAYS.get(name, "TRUE") if name in CURRENT else "TRUE"
    return f"INSERT INTO {place} ({columns}) SELECT {columns} FROM {staged} WHERE {which}"  # noqa: S608 - ours, quoted


def _merge(name: str, place: str, staged: str) -> str:
    columns = table_schema(name).names
    same = " AND ".join(f"kept.{one} = given.{one}" for one in CURRENT[name])
    changed = ", ".join(f"{one} = given.{one}" for one in columns if one not in CURRENT[name])
    stays, values = f"given.{STAYS[name]}", ", ".join(f"given.{one}" for one in columns)
    clauses = (
        f"MERGE INTO {place} AS kept USING {staged} AS given ON {same}",
        f"WHEN MATCHED AND {stays} THEN UPDATE SET {changed}",
        "WHEN MATCHED THEN DELETE",
        f"WHEN NOT MATCHED AND {stays} THEN INSERT ({', '.join(columns)}) VALUES ({values})",  # noqa: S608 - ours
    )
    return " ".join(clauses)
