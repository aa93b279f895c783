"""A Beam file system that is not the local one: `memory://…`, for tests of everything that is not on this machine."""

import io

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

FILES: dict[str, bytes] = {}
FAIL_ON: list[str] = []


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

    def create(self, path, mime_type="", compression_type=""):
        return _Written(path)

    def rename(self, source_file_names, destination_file_names):
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            if FAIL_ON and FAIL_ON[0] in destination:
                raise BeamIOError("out of order", {destination: OSError("out of order")})
            FILES[destination] = FILES.pop(source)

    def delete(self, paths):
        missing = {path: KeyError(path) for path in paths if FILES.pop(path, None) is None}
        if missing:
            raise BeamIOError("no such files", missing)

    def metadata(self, path):
        return FileMetadata(path, len(FILES[path]))

    def _unused(self, *_):
        raise NotImplementedError

    mkdirs = copy = last_updated = _unused


class _Written(io.BytesIO):
    """A file that is there when it is closed."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def close(self):
        if not self.closed:
            FILES[self._path] = self.getvalue()
        super().close()
