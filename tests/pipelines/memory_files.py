"""A Beam file system that is not the local one: `memory://…`, for tests of everything that is not on this machine."""

import io

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

FILES: dict[str, bytes] = {}


class MemoryFileSystem(FileSystem):
    """Beam finds it by its scheme."""

    @classmethod
    def scheme(cls):
        return "memory"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        for path, data in FILES.items():
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(data))

    def open(self, path, mime_type="", compression_type=""):
        if path not in FILES:
            raise BeamIOError("no such file", {path: KeyError(path)})
        return io.BytesIO(FILES[path])

    def exists(self, path):
        return path in FILES

    def size(self, path):
        return len(FILES[path])

    def checksum(self, path):
        return f"of {path}"

    def _unused(self, *_):
        raise NotImplementedError

    mkdirs = create = copy = rename = last_updated = metadata = delete = _unused
