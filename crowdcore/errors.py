"""What can be wrong with what crowdcore is given.

CrowdcoreError
├── InvalidLabelsError     arrays that do not fit together
├── InvalidOptionError     an option outside its range
└── NotFittedError         a result asked for before there is one
"""


class CrowdcoreError(ValueError):
    """Base of every error that crowdcore raises on purpose."""


class InvalidLabelsError(CrowdcoreError):
    """The label arrays do not fit together."""


class InvalidOptionError(CrowdcoreError):
    """An option is outside its range; the message says what it takes."""


class NotFittedError(CrowdcoreError, AttributeError):
    """The estimator has no such result: it is not fitted yet, or its method does not give it."""
