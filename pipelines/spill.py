"""Spilling: on one machine a block waits in a file, and only the file's name goes through the shuffle.

The in-process runner copies what it shuffles about ten times; a name is cheap to copy. On several machines, or when no
folder is given, the block itself travels.
"""

import mmap
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Spill:
    """A folder for blocks, or none."""

    folder: str = ""

    def put(self, block: bytes) -> bytes:
        """A token for `block`: its file's name, or the block itself."""
        if not self.folder:
            return block
        path = os.path.join(self.folder, uuid.uuid4().hex)
        Path(path).write_bytes(block)
        return path.encode()

    def get(self, token: bytes) -> Any:
        """The block that `put` gave `token` for."""
        if not self.folder:
            return token
        with open(token, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def drop(self, token: bytes) -> None:
        """Forgets a block that nobody needs any more; a block that a retry needs again must not be dropped."""
        if self.folder:
            Path(os.fsdecode(token)).unlink(missing_ok=True)
