"""A run's tables, read to their end before anything is written: a run that is damaged then changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

import schemas
from pipelines.sinks.loads import LoadTables
from pipelines.sinks.warehouse import LoadedRun

MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class ReadThrough(LoadTables):
    """Tables that were read to their end; those that fit into `MOST_BYTES` of memory together are not read again.

    Attributes:
        kept: their parts, by table.
    """

    kept: dict[str, list[pa.Table]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: LoadedRun) -> "ReadThrough":
        """Reads the manifest and every table; raises `InputError` when one cannot be read, or is not as it says."""
        tables = super().of(run)
        found = cls(tables.run, tables.manifest)
        room = MOST_BYTES
        for name in schemas.TABLES:
            parts = []
            for part in tables.parts(name):
                room -= part.nbytes
                parts.append(part)
                if room < 0:
                    parts.clear()
            if room >= 0:
                found.kept[name] = parts
        return found

    def parts(self, name: str) -> Iterator[pa.Table]:
        """All rows of the run's table `name`."""
        return iter(self.kept[name]) if name in self.kept else super().parts(name)
