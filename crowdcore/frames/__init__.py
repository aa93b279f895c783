"""Data frames in and out: one file a library, each with the same few functions (`Frames`).

None of the libraries is imported before a caller comes with one of its frames.
"""

from crowdcore.frames.coded import CodedLabels, code_labels
from crowdcore.frames.kinds import Frames, Opened, open_frame
from crowdcore.frames.known import known_values

__all__ = ["CodedLabels", "Frames", "Opened", "code_labels", "known_values", "open_frame"]
