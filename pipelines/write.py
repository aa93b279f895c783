"""Writing: tables in, files out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pipelines.counts import pack_counts
from pipelines.table_files import write_table
from pipelines.tables import from_bytes
from pipelines.threaded import Place, ThreadedFn


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
