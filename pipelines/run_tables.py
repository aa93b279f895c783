"""Reading a finished run: its manifest and its tables, in whatever format they were written."""

import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

import schemas
from pipelines.errors import InputError
from pipelines.inputs import SUFFIXES, ending_of, find_files
from pipelines.read import READ_ERRORS
from pipelines.run_folder import FORMAT_VERSION, MANIFEST
from pipelines.sources.storage import open_file

_CSV_BLOCK_BYTES = 256 << 20


def read_manifest(folder: str) -> dict[str, Any]:
    """The manifest of the finished run in `folder`; raises `InputError` when there is none."""
    path = FileSystems.join(folder, MANIFEST)
    try:
        if not FileSystems.exists(path):
            raise InputError(f"{folder} holds no finished run: there is no {MANIFEST} in it.")
        with FileSystems.open(path) as file:
            manifest: dict[str, Any] = json.loads(file.read())
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{path} is no manifest of this version of crowdbeam; it reads version {FORMAT_VERSION}.")
    return manifest


def read_table(folder: str, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table called `name` of the run in `folder`: all columns of its schema, or `columns` only."""
    schema = schemas.arrow_schema(schemas.TABLES[name])
    wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    files = find_files([FileSystems.join(folder, name)], "RUN")
    return pa.concat_tables([read_file(path, wanted) for path, _ in files])


def read_file(path: str, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` in a file of a table; raises `InputError` when it cannot be read."""
    try:
        return _READERS[SUFFIXES[ending_of(path)]](path, schema)
    except READ_ERRORS as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split()).rstrip('.')}.") from error


def _read_parquet(path: str, schema: pa.Schema) -> pa.Table:
    with open_file(path) as file:
        return pq.ParquetFile(file).read(columns=schema.names).select(schema.names).cast(schema)


def _read_avro(path: str, schema: pa.Schema) -> pa.Table:
    with open_file(path) as file:
        return _table(fastavro.reader(file), schema)


def _read_jsonl(path: str, schema: pa.Schema) -> pa.Table:
    with open_file(path) as file:
        return _table((json.loads(line) for line in file.read().splitlines()), schema)


def _read_csv(path: str, schema: pa.Schema) -> pa.Table:
    maps = [field for field in schema if pa.types.is_map(field.type)]
    types = {field.name: pa.string() if field in maps else field.type for field in schema}
    with open_file(path) as file:
        table = pa.csv.read_csv(
            file,
            read_options=pa.csv.ReadOptions(block_size=min(file.size() + 1, _CSV_BLOCK_BYTES)),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, include_columns=schema.names, strings_can_be_null=False
            ),
        )
    for field in maps:
        texts = table.column(field.name).to_pylist()
        values = pa.array([list(json.loads(text).items()) if text else None for text in texts], field.type)
        table = table.set_column(table.schema.get_field_index(field.name), field, values)
    return table.cast(schema)


def _table(rows: Any, schema: pa.Schema) -> pa.Table:
    found: dict[str, list[Any]] = {name: [] for name in schema.names}
    for row in rows:
        for name, values in found.items():
            value = row[name]
            values.append(list(value.items()) if isinstance(value, dict) else value)
    return pa.table([pa.array(values, schema.field(name).type) for name, values in found.items()], schema=schema)


_READERS = {"parquet": _read_parquet, "avro": _read_avro, "csv": _read_csv, "jsonl": _read_jsonl}
