"""The run of a night: what has changed, as a run folder like that of a batch."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crowdcore.edges import EdgeCounts
from pipelines.inputs import InputFile
from pipelines.ledger.night import in_large_parts
from pipelines.manifest import Clock, manifest_of
from pipelines.run_folder import MANIFEST
from pipelines.settings import BatchSettings
from pipelines.solving import Solved
from pipelines.table_files import write_file, write_table
from pipelines.worker_tables import edge_tables


@dataclass
class RunWriter:
    """Writes the tables of a run to a folder, and counts what is in them."""

    folder: str
    format: str = "parquet"
    counts: Counter[str] = field(default_factory=Counter)

    def write(self, name: str, tables: Iterable[pa.Table]) -> None:
        """Writes the parts of a table."""
        for number, table in enumerate(tables):
            path = f"{name}/part-{number:05d}.{self.format}"
            write_table(table, os.path.join(self.folder, path), self.format, name)
            self.counts[f"rows:{path}"] = table.num_rows

    def finish(
        self,
        settings: BatchSettings,
        others: Mapping[str, Any],
        inputs: Sequence[tuple[InputFile, str]],
        clock: Clock,
        fit: Mapping[str, str],
        run_id: str,
    ) -> dict[str, Any]:
        """The manifest, when all tables are there; `put_manifest` writes it."""
        return manifest_of(settings, self.folder, self.counts, fit, inputs, others, clock) | {"run_id": run_id}

    def put_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest: the run is finished."""
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        write_file(os.path.join(self.folder, MANIFEST), lambda sink: sink.write(text.encode()))


def write_model(writer: RunWriter, solved: Solved, edges: EdgeCounts) -> None:
    """Writes skills and graph, which are whole in every run, and the pairs of `edges`."""
    writer.write("skills", [solved.skill_table()])
    writer.write("graph", [solved.graph_table()])
    writer.write("edges", edge_tables(edges))
    writer.counts.update(solved.counts())


def write_scores(writer: RunWriter, scored: Iterator[tuple[pa.Table, Counter[str]]]) -> None:
    """Writes answers and counts them."""

    def counted() -> Iterator[pa.Table]:
        for table, counts in scored:
            writer.counts.update(counts)
            yield table

    writer.write("scores", in_large_parts(counted()))
