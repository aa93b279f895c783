"""Runs on tiny files, with the laws that hold for every run whatever it was given."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import schemas
from pipelines.batch import run
from pipelines.records import REASONS
from pipelines.run_tables import read_table
from pipelines.settings import AggregateSettings, BatchSettings


@dataclass(frozen=True)
class Run:
    """A finished run; every row of its tables is a dictionary."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def counts(self):
        return self.manifest["counts"]

    def rows(self, table):
        return read_table(str(self.folder), table).to_pylist(maps_as_pydicts="strict")

    def column(self, table, key, value):
        return {row[key]: row[value] for row in self.rows(table)}

    @property
    def rejects(self):
        """(file's name, position, reason), in order."""
        return sorted((Path(row["source"]).name, row["position"], row["reason"]) for row in self.rows("rejects"))


def run_files(folder, files, *, gold=(), aggregate=None, **settings):
    """Writes `files` (name → bytes), those called in `gold` as known answers, and runs them."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    inputs = tuple(str(folder / name) for name in files if name not in gold)
    return run_paths(folder, inputs, gold=tuple(str(folder / name) for name in gold), aggregate=aggregate, **settings)


def run_paths(folder, inputs, *, aggregate=None, **settings):
    """Runs `inputs` and checks the laws."""
    output = folder / f"run{len(list(folder.glob('run*')))}"
    told = AggregateSettings(**(aggregate or {}))
    found = run(BatchSettings(tuple(map(str, inputs)), str(output), told, **settings))
    assert json.loads((output / "manifest.json").read_text("utf-8")) == found.manifest
    result = Run(output, dict(found.manifest))
    check_laws(result)
    return result


def check_laws(result):
    """Nothing is dropped without being counted, and what comes out is as the schemas say."""
    counts = Counter(result.counts)
    for role in ("labels", "gold"):
        told = counts[f"{role}_used"] + counts[f"{role}_repeated"] + counts[f"{role}_rejected"]
        assert counts[f"{role}_read"] == told, result.counts
    rejects = result.rows("rejects")
    assert len(rejects) == counts["labels_rejected"] + counts["gold_rejected"]
    reasons = Counter(row["reason"] for row in rejects)
    assert set(reasons) <= REASONS
    assert reasons == {
        reason: counts[f"labels_rejected.{reason}"] + counts[f"gold_rejected.{reason}"] for reason in reasons
    }
    inputs = {file["path"] for file in result.manifest["inputs"]}
    for row in rejects:
        assert row["source"] in inputs
        assert row["detail"].endswith(".")
        assert row["position"] >= 0 or row["reason"] == "contradicting-repeat"
    for table, record in (("scores", "score"), ("skills", "skill"), ("edges", "edge"), ("graph", "graph")):
        assert read_table(str(result.folder), table).schema.equals(schemas.arrow_schema(record))
    assert counts["tasks"] == len(result.rows("scores"))
    assert counts["workers"] == len(result.rows("skills"))
    assert not {row["task"] for row in result.rows("scores")} & {""}
    assert not {row["worker"] for row in result.rows("skills")} & {""}
