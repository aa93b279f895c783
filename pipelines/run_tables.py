"""Reading a finished run: its manifest and its tables, in whatever format they were written."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import schemas
from pipelines.errors import InputError
from pipelines.inputs import SUFFIXES, ending_of, find_files
from pipelines.run_folder import FORMAT_VERSION, MANIFEST
from pipelines.sources import READ_ERRORS, storage
from pipelines.sources.storage import open_file

_CSV_BLOCK_BYTES = 256 << 20
_PART_ROWS = 1 << 17


def read_manifest(folder: str) -> dict[str, Any]:
    """The manifest of the finished run in `folder`; raises `InputError` when there is none."""
    path = storage.join(folder, MANIFEST)
    try:
        if not storage.exists(path):
            raise InputError(f"{folder} holds no finished run: there is no {MANIFEST} in it.")
        manifest: dict[str, Any] = json.loads(storage.read_bytes(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{path} is no manifest of this version of crowdbeam; it reads version {FORMAT_VERSION}.")
    return manifest


def read_table(folder: str, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The table called `name` of the run in `folder`: all columns of its schema, or `columns` only."""
    schema = schemas.arrow_schema(schemas.TABLES[name])
    wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    files = find_files([storage.join(folder, name)], "RUN")
    return pa.concat_tables([read_file(path, wanted) for path, _ in files])


def read_parts(folder: str, manifest: Mapping[str, Any], name: str) -> Iterator[pa.Table]:
    """The table called `name` of the run in `folder`, some rows at a time, so that it need not fit into memory.

    Raises `InputError` when a file cannot be read, or has other rows than the manifest says.
    """
    schema = schemas.arrow_schema(schemas.TABLES[name])
    for output in manifest["outputs"]:
        if not output["path"].startswith(f"{name}/"):
            continue
        path, n_rows = storage.join(folder, output["path"]), 0
        for part in _file_parts(path, schema):
            n_rows += part.num_rows
            yield part
        if n_rows != output["rows"]:
            raise InputError(f"{path} holds {n_rows:,} rows, but the manifest of its run says {output['rows']:,}.")


def _file_parts(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    if SUFFIXES[ending_of(path)] != "parquet":
        whole = read_file(path, schema)
        yield from (whole.slice(at, _PART_ROWS) for at in range(0, whole.num_rows, _PART_ROWS))
        return
    try:
        with open_file(path) as file:
            for batch in pq.ParquetFile(file).iter_batches(_PART_ROWS, columns=schema.names):
                yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error


def read_file(path: str, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` in a file of a table; raises `InputError` when it cannot be read."""
    try:
        return _READERS[SUFFIXES[ending_of(path)]](path, schema)
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: BaseException) -> InputError:
    return InputError(f"{path} cannot be read: {' '.join(str(error).split()).rstrip('.')}.")


def _read_parquet(path: str, schema: pa.Schema) -> pa.Table:
    with open_file(path) as file:
        return pq.ParquetFile(file).read(columns=schema.names).select(schema.names).cast(schema)


def _read_avro(path: str, schema: pa.Schema) -> pa.Table:
    with open_file(path) as file:
        import fastavro

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
