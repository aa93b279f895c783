"""The stage behind a sink: it tells when everything that a stage sent before its end is safe."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pipelines.sinks import DRAINED, WRITTEN
from pipelines.streaming.control import Control
from pipelines.streaming.envelopes import MARKER, Marker, unpack_marker
from pipelines.waits import WAITS


@dataclass
class NoteWritten(beam.PTransform):
    """Counts the tables that are safe; a sink may finish them in any order.

    Input: pairs of "written" and a receipt, and of "drained" and a request that says how many there are. Output: none;
    a request that is fulfilled is noted in the control folder, with the number of the stage after `first`.
    """

    control: Control
    first: int

    def expand(self, notices: beam.PCollection[tuple[str, bytes]]) -> Any:
        """Wires the steps."""
        keyed = notices | "ByStage" >> beam.ParDo(_ByStageFn(self.control)).with_output_types(tuple[int, bytes])
        return keyed | "Note" >> beam.ParDo(_NoteWrittenFn(self.control, self.first))


class _ByStageFn(beam.DoFn):
    """Runners keep it in one process with the sink before it, whose waits are then told in the control folder."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def setup(self) -> None:
        WAITS.tell(self._control)

    def teardown(self) -> None:
        WAITS.leave(self._control)

    def process(self, element: tuple[str, bytes]) -> list[tuple[int, bytes]]:
        name, data = element
        if name == WRITTEN:
            return [(int(data), b"")]
        return [(unpack_marker(data).sender, data)] if name == DRAINED else []


class _NoteWrittenFn(beam.DoFn):
    STATE = ReadModifyWriteStateSpec("written", coders.BytesCoder())

    def __init__(self, control: Control, first: int) -> None:
        self._control, self._first = control, first

    def process(self, element: tuple[int, bytes], state: Any = beam.DoFn.StateParam(STATE)) -> None:
        stage, data = element
        known = json.loads(state.read() or b'{"written": 0, "drain": null}')
        if data[:1] == MARKER:
            known["drain"] = asdict(unpack_marker(data))
        else:
            known["written"] += 1
        if known["drain"] is not None and known["written"] >= known["drain"]["sent"]:
            self._control.finish(Marker(**known["drain"]), self._first + stage)
            known["drain"] = None
        state.write(json.dumps(known).encode())
