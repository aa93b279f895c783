"""Whether the user wants to see what is else kept off the terminal: logs, and tracebacks of errors."""

import os

DEBUG_VARIABLE = "CROWDBEAM_DEBUG"


def is_debugging() -> bool:
    """Whether the variable CROWDBEAM_DEBUG is set, and not to 0."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
