"""The whole state of a ledger as one run folder, like that of a batch of all its labels."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from crowdcore.edges import EdgeCounts
from pipelines.ledger.counts_file import KeptCounts
from pipelines.ledger.night import OpenLedger, score_state, solve_night
from pipelines.ledger.night_run import RunWriter, write_model, write_scores
from pipelines.ledger.segments import all_states
from pipelines.ledger.version import PRIOR, Version
from pipelines.manifest import Clock
from pipelines.prior import read_prior_skills
from pipelines.settings import AggregateSettings, BatchSettings
from pipelines.sinks.loads import LEDGER, VERSION, WHOLE
from pipelines.solving import Solved
from pipelines.sources import storage


def settings_of(version: Version) -> BatchSettings:
    """The settings of the last night."""
    known = version.settings
    aggregate = AggregateSettings.from_json(json.loads(known["aggregate"]))
    return BatchSettings((), "", aggregate, prior_skills=known["prior_skills"], output_format=known["output_format"])


def prior_of(version: Version) -> dict[str, float]:
    """The skills known beforehand to the last night; earlier crowdbeams kept only the place where they were."""
    known = version.settings
    found: dict[str, float] = json.loads(known[PRIOR]) if PRIOR in known else read_prior_skills(known["prior_skills"])
    return found


def solve_again(kept: KeptCounts, version: Version, change: EdgeCounts | None = None) -> Solved:
    """The skills of kept counts, by the settings of a version."""
    nothing, settings = EdgeCounts.zero(), settings_of(version).aggregate
    return solve_night(kept, nothing if change is None else change, settings, prior_of(version))


def write_whole(ledger: OpenLedger, folder: str, output_format: str = "") -> dict[str, Any]:
    """Writes everything that the version holds as a run to `folder`; returns its manifest."""
    version = ledger.version
    if version is None:
        raise ValueError("a new ledger holds nothing")
    settings, clock = settings_of(version), Clock()
    solved = solve_again(ledger.counts(), version)
    writer = RunWriter(folder, output_format or settings.output_format)

    def scored() -> Iterator[tuple[pa.Table, Counter[str]]]:
        for number in range(version.shards):
            state = all_states(ledger.segments(number))
            if len(state):
                writer.counts["labels_used"] += int(np.sum(state.answered_rows))
                yield score_state(number, state, solved.model, settings.aggregate)

    with ExitStack() as undone:
        undone.callback(_remove, folder)
        write_scores(writer, scored())
        writer.counts["labels_read"] = writer.counts["labels_used"]
        write_model(writer, solved, solved.edges)
        writer.write("rejects", [])
        others = {LEDGER: version.ledger, VERSION: version.number, WHOLE: True}
        manifest = writer.finish(settings, others, [], clock, solved.account(), version.run_id)
        writer.put_manifest(manifest)
        undone.pop_all()
    return manifest


def _remove(folder: str) -> None:
    """Removes what there is of a run that came to nothing."""
    if storage.is_local(folder):
        shutil.rmtree(folder, ignore_errors=True)
    elif there := storage.match(storage.join(folder, "**")):
        storage.delete([path for path, _ in there])
