"""AggregateLabels: the road from labels to skills and answers, in one chain."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from pipelines.agree import CountAgreements
from pipelines.confuse import EstimateConfusion
from pipelines.counts import CountsCombineFn
from pipelines.parse import ParseRows
from pipelines.rate import BeginModel, RateWorkers
from pipelines.score import ScoreTasks
from pipelines.settings import AggregateSettings, refuse_unused
from pipelines.shard import ShardByTask
from pipelines.solve import SolveSkills
from pipelines.spill import Spill
from pipelines.sweep import TOTALS, MergeTotals
from pipelines.tables import rows_of
from pipelines.vote import VoteOnTasks
from pipelines.windows import check_windows
from schemas import TABLES

DEFAULT_SHARDS = 16


@dataclass
class AggregateLabels(beam.PTransform):
    """Turns label rows into answers, skills, edges and the graph's verdict, window by window.

    Input: rows with task, worker, label and, if known, submitted_at_us (mappings, named tuples or `beam.Row`), in
    windows that close once; `pipelines.windows.WindowLabels` makes such that wait for late labels. A row whose op is
    "delete" withdraws the worker's label on the task, within its window.
    Output: a dictionary of collections: "scores", "skills", "edges", "graph" and "rejects" hold the rows of the schemas
    of those names, "counts" one dictionary a window.

    >>> import apache_beam as beam
    >>> labels = [("t1", "ann", "yes"), ("t1", "bob", "yes"), ("t1", "cat", "no"), ("t2", "ann", "no")]
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([dict(zip(("task", "worker", "label"), label)) for label in labels])
    ...     found = rows | AggregateLabels()
    ...     answers = found["scores"] | beam.Map(lambda row: print(row.task, row.label, row.n_workers))
    t1 yes 3
    t2 no 1

    Attributes:
        settings: how labels become skills and answers.
        gold: rows with task and label: known answers, in the same windows as the labels.
        prior_skills: skills of workers, known from earlier runs.
        threads: how many threads a step may use.
    """

    settings: AggregateSettings = field(default_factory=AggregateSettings)
    gold: Any = None
    prior_skills: Mapping[str, float] = field(default_factory=dict)
    threads: int = 1

    def expand(self, rows: beam.PCollection[Any]) -> Any:
        """Wires the steps."""
        if self.settings.method != "pgd" and (self.gold is not None or self.prior_skills):
            refuse_unused("gold" if self.gold is not None else "prior-skills", self.settings.method)
        check_windows(rows, self.gold)
        parsed = [rows | "ParseLabels" >> ParseRows(self.settings.classes)]
        if self.gold is not None:
            parsed.append(self.gold | "ParseGold" >> ParseRows(self.settings.classes, "gold"))
        joined = {
            tag: [one[tag] for one in parsed] | f"Flatten{tag.capitalize()}" >> beam.Flatten()
            for tag in ("blocks", "rejects", "counts")
        }
        blocks = AggregateBlocks(self.settings, self.prior_skills, self.threads)
        found = joined["blocks"] | "AggregateBlocks" >> blocks
        contradictions = found["rejects"] | "DropNames" >> beam.Map(lambda named: named[1])
        rejects = (joined["rejects"], contradictions) | "FlattenAllRejects" >> beam.Flatten()
        counts = (joined["counts"], found["counts"]) | "FlattenAllCounts" >> beam.Flatten()
        results = {
            name: found[name] | f"Rows{name.capitalize()}" >> beam.FlatMap(_rows, record)
            for name, record in TABLES.items()
            if name != "rejects"
        }
        results["rejects"] = rejects | "RowsRejects" >> beam.FlatMap(lambda data: rows_of("reject", data))
        results["counts"] = counts | "AddCounts" >> AddCounts() | "ReadCounts" >> beam.Map(json.loads)
        return results


@dataclass
class AggregateBlocks(beam.PTransform):
    """The same road in blocks: label blocks in; numbered tables, counts and the solver's account out."""

    settings: AggregateSettings = field(default_factory=AggregateSettings)
    prior_skills: Mapping[str, float] = field(default_factory=dict)
    threads: int = 1
    spill: Spill = field(default_factory=Spill)

    def expand(self, blocks: beam.PCollection[bytes]) -> Any:
        """Wires the steps."""
        shards = blocks | "ShardByTask" >> ShardByTask(self.settings.shards or DEFAULT_SHARDS, self.threads, self.spill)
        agreed = shards | "CountAgreements" >> CountAgreements(self.settings.repeats, self.threads, self.spill)
        if self.settings.method != "pgd":
            return self._voted(agreed)
        solved = agreed["edges"] | "SolveSkills" >> SolveSkills(self.settings, self.prior_skills, self.spill)
        scored = agreed["shards"] | "ScoreTasks" >> ScoreTasks(solved["model"], self.settings, self.threads, self.spill)
        counts = (agreed["counts"], solved["counts"], scored["counts"]) | "FlattenCounts" >> beam.Flatten()
        return {
            "scores": scored["scores"],
            "skills": solved["skills"],
            "edges": solved["edges"],
            "graph": solved["graph"],
            "rejects": agreed["rejects"],
            "counts": counts,
            "fit": solved["fit"],
        }

    def _voted(self, agreed: Any) -> Any:
        """The rest of the road for majority vote and Dawid-Skene."""
        settings, threads, spill = self.settings, self.threads, self.spill
        model = agreed["edges"] | "BeginModel" >> BeginModel(settings, spill)
        if settings.method == "dawid-skene":
            model = agreed["shards"] | "EstimateConfusion" >> EstimateConfusion(
                model, settings.n_passes, threads, spill
            )
        voted = agreed["shards"] | "VoteOnTasks" >> VoteOnTasks(model, settings, threads, spill)
        totals = voted[TOTALS] | "MergeTotals" >> MergeTotals(spill)
        rated = agreed["edges"] | "RateWorkers" >> RateWorkers(totals, model, settings, spill)
        counts = (agreed["counts"], rated["counts"], voted["counts"]) | "FlattenCounts" >> beam.Flatten()
        tables = {name: rated[name] for name in ("skills", "edges", "graph", "fit")}
        return {**tables, "scores": voted["scores"], "rejects": agreed["rejects"], "counts": counts}


@dataclass
class AddCounts(beam.PTransform):
    """Adds up counts: one total a window."""

    def expand(self, counts: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        """Wires the step."""
        return counts | "SumCounts" >> beam.CombineGlobally(CountsCombineFn()).without_defaults()


def _rows(numbered: tuple[int, bytes], record: str) -> Iterator[Any]:
    return rows_of(record, numbered[1])
