"""Tables as files, each written beside its place and moved there when it is whole."""

import io
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import schemas
from pipelines.sources import storage
from pipelines.sources.storage import is_local
from pipelines.syncing import sync

_FEW_VALUES = (
    "label", "status", "model", "reason", "source", "verdict", "worker_a", "worker_b", "n_labels", "n_workers",
)  # fmt: skip
_IN_NO_ORDER = "worker_b"


def write_table(table: pa.Table, path: str, kind: str, record: str, *, lasting: bool = False) -> None:
    """Writes `table`, a part of the run's table `record`, to `path`; a file of that name is replaced."""
    name = schemas.TABLES[record]
    plain = table if kind == "parquet" else table.cast(schemas.arrow_schema(name))
    write_file(path, lambda sink: _WRITERS[kind](plain, sink, schemas.avro_schema(name)), lasting=lasting)


def file_bytes(table: pa.Table, kind: str, avro: Mapping[str, Any]) -> bytes:
    """The file that holds `table`, whose columns are the fields of the Avro schema `avro`."""
    sink = io.BytesIO()
    _WRITERS[kind](table, sink, avro)
    return sink.getvalue()


def write_file(path: str, write: Any, *, lasting: bool = False) -> None:
    """Calls `write` with an open file and moves what it wrote to `path`; when that fails nothing is left beside it.

    A `lasting` file is there after a power cut, too.
    """
    aside = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        if is_local(path):
            _write_here(path, aside, write, lasting)
        else:
            _write_elsewhere(path, aside, write)
    except BaseException:
        with suppress(OSError):
            os.remove(aside) if is_local(path) else storage.delete([aside])
        raise


def _write_here(path: str, aside: str, write: Any, lasting: bool) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    with open(aside, "wb") as sink:
        write(sink)
        if lasting:
            sink.flush()
            os.fsync(sink.fileno())
    os.replace(aside, path)
    if lasting:
        for one in (folder, os.path.dirname(folder)):  # that the file has its name; and the folder, which may be new
            sync(one)


def _write_elsewhere(path: str, aside: str, write: Any) -> None:
    with storage.create(aside) as sink:
        write(sink)
    if storage.exists(path):
        storage.delete([path])
    storage.rename([aside], [path])


def _write_parquet(table: pa.Table, sink: Any, avro: Mapping[str, Any]) -> None:
    coded = [name for name in table.column_names if name in _FEW_VALUES]
    pq.write_table(
        table,
        sink,
        compression={f.name: "zstd" for f in table.schema if not pa.types.is_floating(f.type)},  # floats hardly shrink
        use_dictionary=coded,
        write_statistics=[name for name in coded if name != _IN_NO_ORDER],  # they would tell a reader nothing
        store_schema=False,  # a dictionary-encoded column is text to every reader
    )


def _write_avro(table: pa.Table, sink: Any, avro: Mapping[str, Any]) -> None:
    import fastavro  # most runs write no Avro, and its import takes longer than a table

    fastavro.writer(sink, fastavro.parse_schema(dict(avro)), table.to_pylist(maps_as_pydicts="strict"), codec="deflate")


def _write_csv(table: pa.Table, sink: Any, avro: Mapping[str, Any]) -> None:
    for place, column in enumerate(table.schema):
        if pa.types.is_map(column.type):
            maps = table.column(place).to_pylist(maps_as_pydicts="strict")
            texts = [None if one is None else json.dumps(one, ensure_ascii=False) for one in maps]
            table = table.set_column(place, column.name, pa.array(texts, pa.string()))
    pa.csv.write_csv(table, sink)


def _write_jsonl(table: pa.Table, sink: Any, avro: Mapping[str, Any]) -> None:
    text = io.TextIOWrapper(sink, "utf-8", write_through=True)
    for row in table.to_pylist(maps_as_pydicts="strict"):
        text.write(json.dumps(row, ensure_ascii=False) + "\n")
    text.flush()
    text.detach()


_WRITERS = {"parquet": _write_parquet, "avro": _write_avro, "csv": _write_csv, "jsonl": _write_jsonl}
