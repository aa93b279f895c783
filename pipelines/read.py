"""Reading: parts of files in, label blocks out; what cannot be read leaves by the rejects."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam

from pipelines import progress
from pipelines.counts import pack_counts
from pipelines.records import Origin, Parsed, parse_chunk
from pipelines.sources import FilePart, LazyChunk
from pipelines.sources.formats import chunks_of
from pipelines.threaded import Place, ThreadedFn


@dataclass
class ReadLabels(beam.PTransform):
    """Reads files of labels or of known answers.

    Input: the pipeline's beginning. Output: label blocks, tagged "blocks"; rejects, pairs of a name and a table, tagged
    "rejects"; counts, tagged "counts".
    """

    parts: Sequence[FilePart]
    classes: tuple[str, ...] = ()
    threads: int = 1
    spread: bool = False

    def expand(self, begin: beam.pvalue.PBegin) -> Any:
        """Wires the steps; `spread` lets other machines read, too."""
        parts = begin | "ListParts" >> beam.Create([pack_part(part) for part in self.parts], reshuffle=self.spread)
        return parts | "ReadParts" >> beam.ParDo(_ReadPartsFn(self.classes, self.threads)).with_outputs(
            "blocks", "rejects", "counts"
        )


def pack_part(part: FilePart) -> bytes:
    """A part as bytes."""
    return json.dumps(asdict(part)).encode()


def unpack_part(data: bytes) -> FilePart:
    """The part of `pack_part`."""
    found = json.loads(data)
    groups = found["row_groups"]
    columns = tuple((name, column) for name, column in found["columns"])
    return FilePart(**{**found, "columns": columns, "row_groups": tuple(groups) if groups else None})


class _ReadPartsFn(ThreadedFn):
    """Parses chunks in threads, while the next ones are being read."""

    def __init__(self, classes: tuple[str, ...], threads: int) -> None:
        super().__init__(threads)
        self._classes = classes

    def process(
        self, element: bytes, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        part = unpack_part(element)
        for number, lazy in enumerate(chunks_of(part)):
            yield from self.submit((lazy, part, number), Place(window, timestamp))

    def work(self, lazy: LazyChunk, part: FilePart, number: int) -> tuple[Parsed, bytes | None, str]:
        chunk = lazy()
        parsed = parse_chunk(chunk, Origin(part.source, part.name, part.role), self._classes)
        progress.add("read", parsed.counts.get("labels_read", 0))
        name = f"{part.role}-{part.source:05d}-{part.first:012d}-{number:05d}"
        return parsed, None if parsed.block is None else parsed.block.to_bytes(), name

    def emit(self, result: tuple[Parsed, bytes | None, str], place: Place) -> Iterable[tuple[str, Any]]:
        parsed, block, name = result
        if block is not None:
            yield "blocks", block
        if parsed.rejects is not None:
            yield "rejects", (name, parsed.rejects)
        yield "counts", pack_counts(parsed.counts)
