"""Spilling: on one machine a block waits in a file, and only the file's name goes through the shuffle.

The in-process runner copies what it shuffles about ten times; a name is cheap to copy. On several machines, or when no
folder is given, the block itself travels.
"""

import mmap
import os
import struct
import uuid
from dataclasses import dataclass
from typing import Any

_PLACE = struct.Struct("<qq")


@dataclass(frozen=True)
class Spill:
    """A folder for blocks, or none."""

    folder: str = ""

    def put(self, *blocks: bytes) -> list[bytes]:
        """A token for each block: its place in a file that all of them share, or the block itself."""
        if not self.folder:
            return list(blocks)
        path = os.path.join(self.folder, uuid.uuid4().hex)
        tokens, start = [], 0
        with open(path, "wb") as file:
            for block in blocks:
                file.write(block)
                tokens.append(_PLACE.pack(start, len(block)) + path.encode())
                start += len(block)
        return tokens

    def get(self, token: bytes) -> Any:
        """The block that `put` gave `token` for."""
        if not self.folder:
            return token
        start, size = _PLACE.unpack_from(token)
        with open(token[_PLACE.size :], "rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return memoryview(whole)[start : start + size]
