"""The stage that tracks tasks: events by shard in; labels for scoring, changes for the skills and rejects out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from pipelines.blocks import LabelBlock
from pipelines.late import LATE
from pipelines.streaming.control import spared
from pipelines.streaming.envelopes import (
    BOOTSTRAP,
    BOOTSTRAPPED,
    CLOCK,
    CLOSING,
    LABELS,
    MARKER,
    NO_SHARD,
    REPORT,
    SNAPSHOT,
    Change,
    Marker,
    join,
    pack_marker,
    pack_shard_change,
    unpack_clock,
    unpack_marker,
)
from pipelines.streaming.inbox import HELD, in_turn, seal
from pipelines.streaming.kept import BAG, CELL, Kept
from pipelines.streaming.label_table import LABELS_FRAME
from pipelines.streaming.ledger import events_in
from pipelines.streaming.state_files import RESIDUE, read_frame, state_path, write_frame
from pipelines.streaming.tracking import TaskTracker, TrackRules

MODEL_KEY = "model"


@dataclass
class TrackTasks(beam.PTransform):
    """Keeps the labels of open tasks.

    Input: pairs of a shard and an envelope. Output: "labels", pairs of a shard and an envelope; "changes", envelopes;
    "rejects", pairs of a table's name and a table.
    """

    rules: TrackRules
    job: str

    def expand(self, events: beam.PCollection[tuple[int, bytes]]) -> Any:
        """Wires the step."""
        fn = _TrackTasksFn(self.rules, self.job)
        return events | "Track" >> beam.ParDo(fn).with_outputs("labels", "changes", "rejects")


class _TrackTasksFn(beam.DoFn):
    def __init__(self, rules: TrackRules, job: str) -> None:
        self._rules, self._job = rules, job
        self._late = Metrics.counter("crowdbeam", f"rejects.{LATE}")

    def process(
        self,
        element: tuple[int, bytes],
        cell: Any = beam.DoFn.StateParam(CELL),
        bag: Any = beam.DoFn.StateParam(BAG),
        held: Any = beam.DoFn.StateParam(HELD),
    ) -> Iterator[Any]:
        shard, sealed = element
        kept = Kept((self._job, "track", str(shard)), cell, bag, self._made)
        ready = in_turn(sealed, kept.note, held)
        if not ready:
            self._keep(kept)
        for _, _, envelope in ready:
            yield from self._take(shard, kept, envelope)

    def _take(self, shard: int, kept: Kept[TaskTracker], envelope: bytes) -> Iterator[Any]:
        if envelope[:1] == MARKER:
            yield from self._asked(shard, kept, unpack_marker(envelope))
            return
        reader, watermark_us, frame = unpack_clock(envelope)
        kept.value.heard(reader, watermark_us)
        if envelope[:1] == CLOCK:
            yield from self._closed(shard, kept, kept.value.close_due())
            return
        yield from self._events(shard, kept, LabelBlock.from_bytes(frame))

    def _made(self, frames: list[bytes], note: dict[str, Any]) -> TaskTracker:
        return TaskTracker.of(self._rules, frames, note)

    def _events(self, shard: int, kept: Kept[TaskTracker], block: LabelBlock) -> Iterator[Any]:
        tag = beam.pvalue.TaggedOutput
        tracked = kept.value.take(block)
        outputs = []
        frame = None if tracked.kept is None else tracked.kept.to_bytes()
        if frame is not None:
            outputs.append(self._to_board(shard, kept, LABELS + frame))
        if tracked.closing is not None:
            outputs.append(self._to_board(shard, kept, _closing(tracked.closing)))
        kept.note["events"] = kept.note.get("events", 0) + len(block)
        change = Change(shard, kept.note["events"], kept.note.get("sent", 0), tracked.change)
        outputs.append(tag("changes", pack_shard_change(change)))
        if tracked.rejects is not None:
            self._late.inc(tracked.n_late)
            counts = {"events_rejected": tracked.n_late, f"events_rejected.{LATE}": tracked.n_late}
            outputs.append(tag("changes", REPORT + json.dumps({"counts": counts}).encode()))
            outputs.append(tag("rejects", ("rejects", tracked.rejects)))
        self._keep(kept, None if frame is None else LABELS_FRAME + frame, tracked.closing is not None)
        yield from outputs

    def _to_board(self, shard: int, kept: Kept[TaskTracker], envelope: bytes) -> Any:
        kept.note["sent"] = kept.note.get("sent", 0) + 1
        return beam.pvalue.TaggedOutput("labels", (shard, seal(shard, kept.note["sent"], envelope)))

    def _keep(self, kept: Kept[TaskTracker], frame: bytes | None = None, compact: bool = False) -> None:
        kept.note.update(kept.value.note())
        kept.keep(frame, kept.value.to_bytes, compact)

    def _closed(self, shard: int, kept: Kept[TaskTracker], closing: Any) -> Iterator[Any]:
        """What closes when a reader has told how far it is; the board hears that a backlog may be at its end."""
        outputs = [self._to_board(shard, kept, _closing(closing))] if closing is not None else []
        outputs.append(self._to_board(shard, kept, CLOCK))
        self._keep(kept, compact=closing is not None)
        yield from outputs

    def _asked(self, shard: int, kept: Kept[TaskTracker], marker: Marker) -> Iterator[Any]:
        """Does what is asked for when all readers have asked, and passes the request on."""
        asked = kept.note.setdefault("asked", {})
        heard = asked[marker.id] = sorted({*asked.get(marker.id, []), marker.sender})
        if len(heard) == self._rules.n_readers:
            del asked[marker.id]
        self._keep(kept)
        if marker.id in asked:
            return
        if marker.kind == BOOTSTRAP:
            yield from self._bootstrapped(shard, kept, marker)
            return
        if marker.kind == SNAPSHOT:
            frame = kept.value.table.block().to_bytes()
            with spared(f"A snapshot cannot be written to {marker.folder}"):
                write_frame(state_path(marker.folder, shard), frame)
        counted = replace(marker, sender=shard, events=kept.note.get("events", 0), sent=kept.note.get("sent", 0))
        yield beam.pvalue.TaggedOutput("changes", pack_marker(counted))

    def _bootstrapped(self, shard: int, kept: Kept[TaskTracker], marker: Marker) -> Iterator[Any]:
        tag = beam.pvalue.TaggedOutput
        block = LabelBlock.from_bytes(read_frame(state_path(marker.folder, shard)))
        path = FileSystems.join(marker.folder, RESIDUE)
        residue = read_frame(path) if shard == 0 and FileSystems.exists(path) else b""
        n_events = len(block) + (events_in(residue) if residue else 0)
        yield tag("changes", REPORT + json.dumps({"counts": {BOOTSTRAPPED: n_events}}).encode())
        if residue:
            yield tag("changes", pack_shard_change(Change(NO_SHARD, 0, 0, residue)))
        if len(block):
            yield from self._events(shard, kept, block)


def _closing(names: Any) -> bytes:
    return CLOSING + json.dumps(names.to_pylist()).encode()


@dataclass
class GatherChanges(beam.PTransform):
    """Brings the changes of a bundle together, for the one key of the skills.

    Input: envelopes. Output: pairs of that key and joined envelopes.
    """

    def expand(self, changes: beam.PCollection[bytes]) -> beam.PCollection[tuple[str, bytes]]:
        """Wires the step."""
        return changes | "Gather" >> beam.ParDo(_GatherFn()).with_output_types(tuple[str, bytes])


class _GatherFn(beam.DoFn):
    def start_bundle(self) -> None:
        self._parts: list[bytes] = []
        self._at = MIN_TIMESTAMP

    def process(self, element: bytes, timestamp: Any = beam.DoFn.TimestampParam) -> None:
        self._parts.append(element)
        self._at = max(self._at, timestamp)

    def finish_bundle(self) -> Iterator[Any]:
        if self._parts:
            yield WindowedValue((MODEL_KEY, join(self._parts)), self._at, (GlobalWindow(),))
        self._parts = []
