"""Parsing: label rows of anyone's pipeline in, label blocks out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from pipelines import texts
from pipelines.counts import pack_counts
from pipelines.records import Origin, parse_chunk
from pipelines.sources import Chunk
from pipelines.threaded import PerWindow, Place


@dataclass
class ParseRows(beam.PTransform):
    """Parses label rows of anyone's pipeline: mappings, named tuples or `beam.Row`s with task, worker, label and op.

    Input: rows. Output: label blocks, tagged "blocks"; rejects, tagged "rejects"; counts, tagged "counts".
    """

    classes: tuple[str, ...] = ()
    role: str = "labels"

    def expand(self, rows: beam.PCollection[Any]) -> Any:
        """Wires the step."""
        return rows | "ParseRows" >> beam.ParDo(_ParseRowsFn(self.classes, self.role)).with_outputs(
            "blocks", "rejects", "counts"
        )


class _ParseRowsFn(beam.DoFn):
    """Gathers rows into blocks, by window, and emits them when they are many or the bundle ends."""

    ROWS = 100_000

    def __init__(self, classes: tuple[str, ...], role: str) -> None:
        self._classes = classes
        self._origin = Origin(role=role)
        self._rows: PerWindow[list[tuple[Any, ...]]] = PerWindow(list)

    def start_bundle(self) -> None:
        self._rows = PerWindow(list)

    def process(
        self, row: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterable[Any]:
        place = Place(window, timestamp)
        rows = self._rows.at(place)
        rows.append(_fields_of(row, self._origin.role))
        if len(rows) >= self.ROWS:
            for tag, value in self._parse(rows):
                yield place.tagged(tag, value)
            rows.clear()

    def finish_bundle(self) -> Iterable[Any]:
        for rows, place in self._rows.items():
            for tag, value in self._parse(rows) if rows else ():
                yield place.tagged(tag, value)

    def _parse(self, rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, bytes]]:
        names = ("task", "label", "time") if self._origin.role == "gold" else ("task", "label", "time", "worker", "op")
        values = dict(zip(names, zip(*rows, strict=True), strict=True))
        if "op" in values and not any(op is not None for op in values["op"]):
            del values["op"]
        columns = {name: texts.column_of(values[name]) for name in values}
        parsed = parse_chunk(Chunk(0, columns), self._origin, self._classes)
        if parsed.block is not None:
            yield "blocks", parsed.block.to_bytes()
        if parsed.rejects is not None:
            yield "rejects", parsed.rejects
        yield "counts", pack_counts(parsed.counts)


def _fields_of(row: Any, role: str) -> tuple[Any, ...]:
    read: Callable[[str], Any] = row.get if isinstance(row, Mapping) else lambda name: getattr(row, name, None)
    time = read("submitted_at_us")
    found = [read("task"), read("label"), read("time") if time is None else time]
    if role != "gold":
        found += [read("worker"), read("op")]
    return tuple(found)
