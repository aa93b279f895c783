"""Verdicts: how many closed tasks have got which label."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.blocks import NO_TIME
from pipelines.ledger.night import OpenLedger, score_state
from pipelines.ledger.segments import all_states
from pipelines.model import Model
from pipelines.settings import AggregateSettings


def verdicts_in(scores: pa.Table) -> Counter[str]:
    """How many answers there are of each label."""
    counted = pc.value_counts(scores.column("label").cast(pa.string()))
    return Counter({one["values"]: one["counts"] for one in counted.to_pylist()})


def verdicts_anew(ledger: OpenLedger, model: Model, settings: AggregateSettings) -> dict[str, int]:
    """The verdicts on all closed tasks by a model.

    What the nights that closed them would have said without a worker cannot be told: other labels held then.
    """
    version, found = ledger.version, Counter[str]()
    if version is None or version.closed_before_us == NO_TIME:
        return {}
    for number in range(version.shards):
        state = all_states(ledger.segments(number))
        closed = state.chosen(state.latest < version.closed_before_us)
        if len(closed):
            found.update(verdicts_in(score_state(number, closed, model, settings)[0]))
    return dict(found)
