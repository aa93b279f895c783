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
from pipelines.sinks import ARRIVED, DRAINED, RECEIPT
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.envelopes import (
    CLOSING,
    LABELS,
    MODEL,
    Marker,
    Skills,
    pack_marker,
    unpack_marker,
    unpack_skills,
)
from pipelines.streaming.inbox import HELD, NUMBERED, hold, in_turn, released
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.streaming.label_table import LABELS_FRAME
from pipelines.tables import to_bytes


@dataclass
class AnswerTasks(beam.PTransform):
    """Keeps the answers to open tasks current.

    Input: pairs of a shard and an envelope: labels, closings, models, requests. Output: pairs of a table's name and a
    table for the sinks; "drained" is no table but tells that the last one was sent.
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
        self._answers = Metrics.counter("crowdbeam", "answers")

    def process(
        self,
        element: tuple[int, bytes],
        cell: Any = beam.DoFn.StateParam(CELL),
        bag: Any = beam.DoFn.StateParam(BAG),
        skills: Any = beam.DoFn.StateParam(SKILLS),
        held: Any = beam.DoFn.StateParam(HELD),
    ) -> Iterator[tuple[str, bytes]]:
        shard, envelope = element
        kept = Kept((self._job, "answer", str(shard)), cell, bag, self._made)
        if kept.layout == 1:
            skills.clear()  # it has another form; the next model is not far
        elif kept.rebuilt and (known := skills.read()):
            kept.value.know(unpack_skills(known))
        rows: list[tuple[str, bytes]] = []
        if envelope[:1] == NUMBERED and not kept.value.version:
            hold(envelope, kept.note, held)  # without a model a task would close with an answer that says nothing
        elif envelope[:1] == NUMBERED:
            for _, number, one in in_turn(envelope, kept.note, held):
                rows += self._take(shard, kept, one, number)
        elif envelope[:1] == MODEL:
            model = unpack_skills(envelope)
            if model.version > kept.value.version:
                skills.write(envelope)
            if kept.value.version:
                rows += self._given(shard, kept, kept.value.learn(model, time.time()))
            else:
                rows += self._begun(shard, kept, model, released(shard, kept.note, held))
        else:
            kept.note["drain"] = asdict(unpack_marker(envelope))
        rows += self._drained(shard, kept)
        self._keep(kept)  # also after a model: a rollback must not leave it at hand
        yield from rows

    def _begun(
        self, shard: int, kept: Kept[AnswerBoard], model: Skills, waiting: list[tuple[int, int, bytes]]
    ) -> list[tuple[str, bytes]]:
        """The first model: what has waited for it is taken, and answered together."""
        rows: list[tuple[str, bytes]] = []
        kept.value.know(model)
        for _, number, envelope in waiting:
            if envelope[:1] == LABELS:
                kept.value.wait(LabelBlock.from_bytes(memoryview(envelope)[1:]))
                self._keep(kept, LABELS_FRAME + envelope[1:])
            else:
                rows += self._take(shard, kept, envelope, number)
        return rows + self._given(shard, kept, kept.value.answer_all(time.time()))

    def _take(self, shard: int, kept: Kept[AnswerBoard], envelope: bytes, number: int) -> list[tuple[str, bytes]]:
        """Labels, closings or the end of a backlog, from the shard's tracker."""
        board, kind, now = kept.value, envelope[:1], time.time()
        if kind == LABELS:
            block = LabelBlock.from_bytes(memoryview(envelope)[1:])
            table = board.take(block, now, number)
            self._keep(kept, LABELS_FRAME + envelope[1:])
            return self._given(shard, kept, table, block.arrived_us)
        if kind == CLOSING:
            table = board.close(pa.array(json.loads(envelope[1:]), pa.large_string()), now)
            self._keep(kept, compact=True)
            return self._given(shard, kept, table)
        board.gather()
        return []

    def _given(
        self, shard: int, kept: Kept[AnswerBoard], table: pa.Table | None, arrived_us: int = 0
    ) -> list[tuple[str, bytes]]:
        if table is None:
            return []
        kept.note["blocks"] = kept.note.get("blocks", 0) + 1
        self._answers.inc(table.num_rows)
        marks = {ARRIVED: str(arrived_us), RECEIPT: str(shard)}
        return [("scores", to_bytes(table.replace_schema_metadata(marks)))]

    def _drained(self, shard: int, kept: Kept[AnswerBoard]) -> list[tuple[str, bytes]]:
        """What is said when a request to end is fulfilled: every envelope is here, and so is the model of them all.

        A request without a model comes from a stream that has counted no event: all that was sent, and waits here for
        a model that will not come, is how far the readers are.
        """
        marker = Marker(**kept.note["drain"]) if kept.note.get("drain") else None
        received = kept.note.get("inbox", {}).get(str(shard), 0)
        if marker is None or kept.value.version < marker.version or (marker.version and received < marker.sent):
            return []
        kept.note["drain"] = None
        done = replace(marker, sender=shard, sent=kept.note.get("blocks", 0))
        return [(DRAINED, pack_marker(done))]

    def _keep(self, kept: Kept[AnswerBoard], frame: bytes | None = None, compact: bool = False) -> None:
        kept.note["revision"] = kept.value.revision
        kept.keep(frame, lambda: LABELS_FRAME + kept.value.table.block().to_bytes(), compact)

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> AnswerBoard:
        blocks = (LabelBlock.from_bytes(memoryview(frame)[1:]) for frame in frames)
        return AnswerBoard.of(self._rules, blocks, note.get("revision", 0))
