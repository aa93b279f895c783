"""The file formats, by name."""

from collections.abc import Iterator
from types import ModuleType

from pipelines.sources import FilePart, LazyChunk, avro, csv, jsonl, parquet

FORMATS: dict[str, ModuleType] = {"parquet": parquet, "avro": avro, "csv": csv, "jsonl": jsonl}


def chunks_of(part: FilePart) -> Iterator[LazyChunk]:
    """The chunks of a file part."""
    chunks: Iterator[LazyChunk] = FORMATS[part.format].chunks_of(part)
    return chunks
