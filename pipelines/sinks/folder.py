"""The folder of a stream: files of one interval after the other, each with a manifest that is written last."""

import os
from dataclasses import dataclass

from pipelines.errors import InvalidSettingError
from pipelines.sources.storage import is_local


@dataclass(frozen=True)
class IntervalFolder:
    """A folder that `WriteIntervals` fills; see docs/sinks.md for what is in it."""

    path: str

    def look(self) -> None:
        """Raises `OSError` when the folder is not there: one that is away for a while is not made anew."""
        if is_local(self.path):
            os.stat(os.path.join(self.path, ""))

    def check(self) -> None:
        """Makes the folder; raises `InvalidSettingError` when it cannot be written."""
        if not self.path.strip():
            raise InvalidSettingError("The sink's folder is empty; give a folder.")
        if not is_local(self.path):
            return
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise InvalidSettingError(f"The sink {self.path} is a file; give a folder.")
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise InvalidSettingError(f"The sink {self.path} cannot be made: {error.strerror}.") from error
        if not os.access(self.path, os.W_OK):
            raise InvalidSettingError(f"The sink {self.path} may not be written by this user.")
