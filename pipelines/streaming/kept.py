"""State that is kept twice: safe in Beam's keyed state, and at hand in this process.

In Beam's state lie a bag of frames, to which each change appends one, and a cell with a random number that changes with
them. The object made of the frames stays in this process, with the number it belongs to. If the numbers are equal the
object is current. After a rollback, a retry or a move to another worker they differ, and the object is made anew.
Appending costs what the change costs; when frames are many they are replaced by one of the whole.

The objects outlive the instances of a step: Beam ends all of a stage that had nothing to do for a minute, and what is
made anew gives everything again. They go with their process.

Layouts of the state: 1, without counts of what was sent and received, which then begin at 0, and with models that do
not tell them; 2, with both.
"""

import json
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec

from pipelines.errors import RunError

CELL = ReadModifyWriteStateSpec("cell", coders.BytesCoder())
BAG = BagStateSpec("frames", coders.BytesCoder())
LAYOUT = 2
_NONCE_BYTES = 8
_MANY_FRAMES = 256

Value = TypeVar("Value")
_at_hand: dict[tuple[str, ...], tuple[bytes, Any]] = {}
_lock = threading.Lock()


class Kept(Generic[Value]):
    """The state of one key of one step, open for one element.

    Attributes:
        value: the object.
        note: small facts beside it, JSON-able, kept in the cell.
        layout: of the state as it was found.
        rebuilt: whether the object was made anew from frames, and what this process knew beside them is lost.
    """

    def __init__(
        self, place: tuple[str, ...], cell: Any, bag: Any, make: Callable[[list[bytes], dict[str, Any]], Value]
    ) -> None:
        self._place, self._cell, self._bag = place, cell, bag
        data = cell.read()
        self._nonce = data[:_NONCE_BYTES] if data else b""
        self.note: dict[str, Any] = json.loads(data[_NONCE_BYTES:]) if data else {"layout": LAYOUT, "frames": 0}
        self.layout = int(self.note["layout"])
        if self.layout > LAYOUT:
            raise RunError(
                f"The stream's state has layout {self.note['layout']}; this crowdbeam knows {LAYOUT} and older ones. "
                "Go on with the version that wrote it, or a newer one."
            )
        with _lock:  # taken out: if this element fails, nobody finds it half changed
            nonce, value = _at_hand.pop(place, (b"", None))
        self.rebuilt = value is None or nonce != self._nonce
        if self.rebuilt:
            value = make(list(bag.read()) if data else [], self.note)
        self.value: Value = value

    def keep(self, frame: bytes | None, whole: Callable[[], bytes], compact: bool = False) -> None:
        """Makes the change safe: `frame` is appended, or all frames are replaced by that of `whole`."""
        if frame is not None or compact:
            self.note["frames"] += 1
            if compact or self.note["frames"] >= _MANY_FRAMES:
                self._bag.clear()
                frame, self.note["frames"], self.note["bytes"] = whole(), 1, 0
            self._bag.add(frame)
            self.note["bytes"] = self.note.get("bytes", 0) + len(frame or b"")
            key = ".".join(filter(None, self._place[1:]))
            Metrics.gauge("crowdbeam", f"state_bytes.{key}").set(self.note["bytes"])
        self._nonce, self.note["layout"] = os.urandom(_NONCE_BYTES), LAYOUT
        self._cell.write(self._nonce + json.dumps(self.note).encode())
        self.put_back()

    def put_back(self) -> None:
        """Keeps the object at hand; Beam's state stays as it is."""
        with _lock:
            _at_hand[self._place] = (self._nonce, self.value)
