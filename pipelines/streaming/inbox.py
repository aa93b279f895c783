"""An inbox: what one step sends another, for the same key, is taken in the order in which it was sent.

Beam promises no order. So senders number what they send to a key, from 1; what comes too early waits in state.
"""

import struct
from typing import Any

from apache_beam import coders
from apache_beam.transforms.userstate import BagStateSpec

HELD = BagStateSpec("held", coders.BytesCoder())
NUMBERED = b"N"
_HEAD = struct.Struct("<Iq")


def seal(sender: int, number: int, envelope: bytes) -> bytes:
    """An envelope with its sender and number.

    >>> unseal(seal(3, 7, b"K..."))
    (3, 7, b'K...')
    """
    return NUMBERED + _HEAD.pack(sender, number) + envelope


def unseal(sealed: bytes) -> tuple[int, int, bytes]:
    """Sender, number and envelope of `seal`."""
    sender, number = _HEAD.unpack_from(sealed, 1)
    return sender, number, sealed[1 + _HEAD.size :]


def in_turn(sealed: bytes, note: dict[str, Any], held: Any) -> list[tuple[int, int, bytes]]:
    """Those sealed envelopes, (sender, number, envelope), whose turn has come with this one.

    `note` holds the last number of each sender, and how many wait in the bag `held`. One whose number has passed
    is taken again: events that come twice change nothing, and those of a sender that counts anew would be lost.
    """
    sender, number, envelope = unseal(sealed)
    last, key = note.setdefault("inbox", {}), str(sender)
    if number > last.get(key, 0) + 1:
        hold(sealed, note, held)
        return []
    last[key] = max(number, last.get(key, 0))
    return [(sender, number, envelope), *released(sender, note, held)]


def hold(sealed: bytes, note: dict[str, Any], held: Any) -> None:
    """Has an envelope wait, whether or not its turn has come."""
    held.add(sealed)
    note["held"] = note.get("held", 0) + 1


def released(sender: int, note: dict[str, Any], held: Any) -> list[tuple[int, int, bytes]]:
    """Those envelopes of a sender that wait and whose turn has come."""
    if not note.get("held"):
        return []
    last, key, ready = note.setdefault("inbox", {}), str(sender), []
    waiting = {unseal(one)[:2]: one for one in held.read()}
    while (sender, last.get(key, 0) + 1) in waiting:
        last[key] = last.get(key, 0) + 1
        ready.append(unseal(waiting.pop((sender, last[key]))))
    held.clear()
    for one in waiting.values():
        held.add(one)
    note["held"] = len(waiting)
    return ready
