"""The stage that answers tasks: labels and models by shard in, rows of scores out."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pipelines.blocks import LabelBlock
from pipelines.sinks import DRAINED, FLUSH, RECEIPT
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.envelopes import (
    CLOCK,
    CLOSING,
    EVENTS,
    LABELS,
    MODEL,
    Marker,
    pack_marker,
    unpack_marker,
    unpack_numbered,
    unpack_skills,
)
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.tables import to_bytes

ARRIVED = b"arrived_us"


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
        if kept.rebuilt and kept.layout > 1 and (known := skills.read()):
            board.know(unpack_skills(known))
        table, arrived_us, frame = None, 0, None
        if kind in (LABELS, CLOSING):
            number, body = unpack_numbered(envelope)
            kept.note["received"] = kept.note.get("received", 0) + 1
        if kind == LABELS:
            block = LabelBlock.from_bytes(body)
            table, arrived_us = board.take(block, now, number), block.arrived_us
            frame = EVENTS + bytes(body)
        elif kind == CLOSING:
            table = board.close(pa.array(json.loads(bytes(body)), pa.large_string()), now)
        elif kind == MODEL:
            model = unpack_skills(envelope)
            if model.version > board.version:
                skills.write(envelope)
            table = board.learn(model, now)
        elif kind == CLOCK:
            board.gather()
        else:
            kept.note["drain"] = asdict(unpack_marker(envelope))
        if table is not None:
            kept.note["blocks"] = kept.note.get("blocks", 0) + 1
        drained = self._drained(shard, kept)
        self._keep(kept, frame, kind == CLOSING)  # also after a model: a rollback must not leave it at hand
        if table is not None:
            self._given.inc(table.num_rows)
            yield "scores", to_bytes(table.replace_schema_metadata({ARRIVED: str(arrived_us), RECEIPT: str(shard)}))
        yield from drained

    def _drained(self, shard: int, kept: Kept[AnswerBoard]) -> list[tuple[str, bytes]]:
        """What is said when a request to end is fulfilled: every envelope is here, and so is the model of them all."""
        marker = Marker(**kept.note["drain"]) if kept.note.get("drain") else None
        if marker is None or kept.note.get("received", 0) < marker.sent or kept.value.version < marker.version:
            return []
        kept.note["drain"] = None
        done = replace(marker, sender=shard, sent=kept.note.get("blocks", 0))
        return [(FLUSH, b""), (DRAINED, pack_marker(done))]

    def _keep(self, kept: Kept[AnswerBoard], frame: bytes | None, compact: bool) -> None:
        kept.note["revision"] = kept.value.revision
        kept.keep(frame, lambda: EVENTS + kept.value.table.block().to_bytes(), compact)

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> AnswerBoard:
        board = AnswerBoard(self._rules)
        for frame in frames:
            board.table.apply(LabelBlock.from_bytes(memoryview(frame)[1:]))
        board.revision = note.get("revision", 0)
        return board
