"""The files of a stream's state, in a snapshot or to begin with: the labels of each shard, and counts, as frames."""

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipelines.table_files import write_file

LEDGER = "ledger.frame"  # of a snapshot: the counts
RESIDUE = "residue.frame"  # to begin with: those counts that no label stands for any more
_LABELS = "labels-*.frame"


def state_path(folder: str, shard: int) -> str:
    """Where the labels of a shard lie."""
    return str(FileSystems.join(folder, _LABELS.replace("*", f"{shard:05d}")))


def label_frames(folder: str) -> list[str]:
    """The paths of all labels."""
    return _found(folder, _LABELS)


def frames(folder: str) -> list[str]:
    """The paths of all that is there."""
    return _found(folder, "*.frame")


def remove_frames(folder: str) -> None:
    """Removes all that is there."""
    if found := frames(folder):
        FileSystems.delete(found)


def read_frame(path: str) -> bytes:
    """A frame that lies in a file."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


def write_frame(path: str, frame: bytes) -> None:
    """Writes a frame to a file, all at once."""
    write_file(path, lambda sink: sink.write(frame))


def _found(folder: str, pattern: str) -> list[str]:
    return [file.path for file in FileSystems.match([FileSystems.join(folder, pattern)])[0].metadata_list]
