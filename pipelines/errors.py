"""What can be wrong with what crowdbeam is asked to do. Bad data is no error: it goes to the rejects.

CrowdbeamError
├── InvalidSettingError    a setting that cannot be used; nothing has run
├── InputError             an input that cannot be used at all; nothing has run
└── RunError               a run that began and did not do all it was asked
"""

_MOST_SAID = 300


class CrowdbeamError(Exception):
    """Base of every error that crowdbeam raises on purpose; its message is a sentence for the user."""


class InvalidSettingError(CrowdbeamError):
    """A setting that cannot be used; the message says what it takes."""


class InputError(CrowdbeamError):
    """An input that cannot be used: missing, unreadable, or without the columns it needs."""


class RunError(CrowdbeamError):
    """A run that began and did not do all it was asked; the message says what is not done, or not there."""


def first_line(error: BaseException) -> str:
    r"""What a client or a server said, the first line of it, without the full stop; of a long one the beginning.

    >>> first_line(OSError("No such table.\nLine 1: SELECT"))
    'No such table'
    """
    said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID].rstrip()}…"
