"""The stage that answers tasks: labels and models by shard in, rows of scores out."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pipelines.blocks import LabelBlock
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.envelopes import CLOSING, DRAIN, EVENTS, MARKER, pack_marker, unpack_marker, unpack_skills
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.tables import to_bytes

ARRIVED = b"arrived_us"
FLUSH, DRAINED = "flush", "drained"


@dataclass
class AnswerTasks(beam.PTransform):
    """Keeps the answers to open tasks current.

    Input: pairs of a shard and an envelope: labels, closings, models, requests. Output: pairs of a table's name and a
    table for the sinks; "flush" and "drained" are no tables but requests.
    """

    rules: AnswerRules
    job: str

    def expand(self, labels: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[tuple[str, bytes]]:
        """Wires the step."""
        return labels | "Answer" >> beam.ParDo(_AnswerTasksFn(self.rules, self.job)).with_output_types(
            tuple[str, bytes]
        )


class _AnswerTasksFn(beam.DoFn):
    SKILLS = ReadModifyWriteStateSpec("skills", coders.BytesCoder())

    def __init__(self, rules: AnswerRules, job: str) -> None:
        self._rules, self._job = rules, job
        self._given = Metrics.counter("crowdbeam", "answers")

    def process(
        self,
        element: tuple[int, bytes],
        cell: Any = beam.DoFn.StateParam(CELL),
        bag: Any = beam.DoFn.StateParam(BAG),
        skills: Any = beam.DoFn.StateParam(SKILLS),
    ) -> Iterator[tuple[str, bytes]]:
        shard, envelope = element
        now, kind = time.time(), envelope[:1]
        kept = Kept((self._job, "answer", str(shard)), cell, bag, self._made)
        board = kept.value
        if kept.rebuilt and (model := skills.read()):
            board.know(unpack_skills(model))
        table, arrived_us = None, 0
        if kind == EVENTS:
            block = LabelBlock.from_bytes(memoryview(envelope)[1:])
            table, arrived_us = board.take(block, now), block.arrived_us
            self._keep(kept, envelope, False)
        elif kind == CLOSING:
            table = board.close(pa.array(json.loads(envelope[1:]), pa.large_string()), now)
            self._keep(kept, None, True)
        elif kind == MARKER:
            kept.put_back()
            marker = unpack_marker(envelope)
            if marker.kind == DRAIN:
                yield FLUSH, b""
                yield DRAINED, pack_marker(replace(marker, sender=shard))
            return
        else:
            skills.write(envelope)
            table = board.learn(unpack_skills(envelope), now)
            self._keep(kept, None, False)  # or a rollback to before this model would find the board that has learned it
        if table is not None:
            self._given.inc(table.num_rows)
            yield "scores", to_bytes(table.replace_schema_metadata({ARRIVED: str(arrived_us)}))

    def _keep(self, kept: Kept[AnswerBoard], frame: bytes | None, compact: bool) -> None:
        kept.note["revision"] = kept.value.revision
        kept.keep(frame, lambda: EVENTS + kept.value.table.block().to_bytes(), compact)

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> AnswerBoard:
        board = AnswerBoard(self._rules)
        for frame in frames:
            board.table.apply(LabelBlock.from_bytes(memoryview(frame)[1:]))
        board.revision = note.get("revision", 0)
        return board
