"""Writing: tables in, files out, each written beside its place and moved there when it is whole."""

import io
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

import schemas
from pipelines.counts import pack_counts
from pipelines.sources.storage import is_local
from pipelines.tables import from_bytes
from pipelines.threaded import Place, ThreadedFn

_FEW_VALUES = (
    "label", "status", "model", "reason", "source", "verdict", "worker_a", "worker_b", "n_labels", "n_workers",
)  # fmt: skip
_IN_NO_ORDER = "worker_b"


@dataclass
class WriteTables(beam.PTransform):
    """Writes each table to a file of its own.

    Input: pairs of a part's number or name, which names the file, and a table. A part that is written again replaces
    itself.
    Output: counts of the rows written, by file.
    """

    name: str
    folder: str
    format: str = "parquet"
    threads: int = 1

    def expand(self, tables: beam.PCollection[Any]) -> Any:
        """Wires the step."""
        fn = _WriteFn(self.name, self.folder, self.format, self.threads)
        return (tables | f"Write{self.name.capitalize()}" >> beam.ParDo(fn).with_outputs("counts"))["counts"]


class _WriteFn(ThreadedFn):
    def __init__(self, name: str, folder: str, kind: str, threads: int) -> None:
        super().__init__(threads)
        self._name, self._folder, self._kind = name, folder, kind

    def work(self, element: tuple[int | str, bytes]) -> dict[str, int]:
        part, data = element
        table = from_bytes(data)
        path = f"{self._name}/part-{part if isinstance(part, str) else f'{part:05d}'}.{self._kind}"
        write_table(table, FileSystems.join(self._folder, path), self._kind, self._name)
        return {f"rows:{path}": table.num_rows}

    def emit(self, result: dict[str, int], place: Place) -> Iterator[tuple[str, Any]]:
        yield "counts", pack_counts(result)


def write_table(table: pa.Table, path: str, kind: str, record: str) -> None:
    """Writes `table`, a part of the run's table `record`, to `path`; a file of that name is replaced."""
    name = schemas.TABLES[record]
    plain = table if kind == "parquet" else table.cast(schemas.arrow_schema(name))
    write_file(path, lambda sink: _WRITERS[kind](plain, sink, schemas.avro_schema(name)))


def file_bytes(table: pa.Table, kind: str, avro: Mapping[str, Any]) -> bytes:
    """The file that holds `table`, whose columns are the fields of the Avro schema `avro`."""
    sink = io.BytesIO()
    _WRITERS[kind](table, sink, avro)
    return sink.getvalue()


def write_file(path: str, write: Any) -> None:
    """Calls `write` with an open file and moves what it wrote to `path`."""
    aside = f"{path}.{uuid.uuid4().hex}.tmp"
    if is_local(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(aside, "wb") as sink:
            write(sink)
        os.replace(aside, path)
        return
    with FileSystems.create(aside, compression_type=CompressionTypes.UNCOMPRESSED) as sink:
        write(sink)
    if FileSystems.exists(path):
        FileSystems.delete([path])
    FileSystems.rename([aside], [path])


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
