"""Where the reader of a folder stands: the files that are done, and how far the one under way was read."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

_UNREAD = -1


@dataclass(frozen=True)
class Under:
    """The file under way.

    Attributes:
        name: of the file.
        size: in bytes, when it was begun.
        skip: the first record that is read; what stands before was read when the file was smaller.
        chunk, row: what is read next.
        reached: the place after the last record of the chunks that were read.
        at: the byte at which reading began, that of record `skip`; 0: at the beginning, whatever `skip` is.
        whole: whether the file's bytes were whole lines when it was begun; it is read no further than that.
    """

    name: str
    size: int
    skip: int = 0
    chunk: int = 0
    row: int = 0
    reached: int = 0
    at: int = 0
    whole: bool = False


@dataclass
class FolderPosition:
    """Where a reader stands.

    Attributes:
        done: size of each file that was read, the record at which it goes on if it grows, and whether that begins at
            the byte where the file ended: all of it was whole lines.
        under: the file under way, if there is one.
    """

    done: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    under: Under | None = None

    @classmethod
    def of(cls, position: bytes) -> "FolderPosition":
        """The place that `to_bytes` tells; the beginning when `position` is empty."""
        told = json.loads(position or b'{"done": {}, "under": null}')
        done = {name: (size, end, bool(whole)) for name, (size, end, *whole) in told["done"].items()}
        return cls(done, Under(**told["under"]) if told["under"] else None)

    def to_bytes(self) -> bytes:
        """The place as bytes."""
        done = {name: (size, end, 1) if whole else (size, end) for name, (size, end, whole) in self.done.items()}
        return json.dumps({"done": done, "under": asdict(self.under) if self.under else None}).encode()

    @property
    def number(self) -> int:
        """The number of the file under way: in the order in which files were begun."""
        names = list(self.done)
        return names.index(self.under.name) if self.under and self.under.name in self.done else len(names)

    def size_of(self, name: str) -> int | None:
        """The size of a file when it was read; None when it was not."""
        return self.done[name][0] if name in self.done else None

    def begin(self, name: str, is_whole: Callable[[int], bool], size: int) -> Under:
        """A file is under way, where it was left when it is already; `is_whole` tells of so many bytes of it."""
        if self.under is None or self.under.name != name:
            before, end, whole = self.done.get(name, (0, 0, False))
            at = before if whole and is_whole(before) else 0
            self.under = Under(name, size, max(end, 0), at=at, whole=is_whole(size))
        return self.under

    def finish(self, end: int) -> None:
        """The file under way is done; it goes on at the record `end` if it grows."""
        if self.under is not None:
            self.done[self.under.name] = (self.under.size, end, self.under.whole)
        self.under = None

    def give_up(self, size: int, read: bool) -> None:
        """The file under way is done, with the size it has now; unless it was `read`, a change makes it a new one."""
        if self.under is not None:
            self.done[self.under.name] = (size, 0 if read else _UNREAD, False)
        self.under = None

    def is_unread(self, name: str) -> bool:
        """Whether nothing could be read of the file."""
        return self.under is None and name in self.done and self.done[name][1] == _UNREAD

    def set_aside(self) -> None:
        """The file under way cannot be read now: others come first, unless some of it was read."""
        if self.under is not None and not self.under.chunk and not self.under.row:
            self.under = None
